//! Status codes, compared in value.
//!
//! The rows come from `result_codes!`, so a code that is added there is compared here.

use cudarc::driver::sys::CUresult;
use rmm_sys::CuResult;

/// The value of a code in the oracle's bindings, unless it is newer than CUDA 13.2, whose bindings
/// they are.
macro_rules! theirs {
    (cuda_13_5 $theirs:ident) => {
        None
    };
    ($version:ident $theirs:ident) => {
        Some(CUresult::$theirs as u32)
    };
}

macro_rules! compare {
    ($($ours:ident = $code:literal $theirs:ident $name:literal $version:ident $text:literal;)*) => {$(
        const _: () = {
            let theirs: Option<u32> = theirs!($version $theirs);
            if let Some(theirs) = theirs {
                assert!(CuResult::$ours.0 == theirs, stringify!($ours));
            }
        };
    )*

        /// The codes, and whether each is compared.
        #[cfg(test)]
        const CODES: &[(CuResult, bool)] = &[$({
            let theirs: Option<u32> = theirs!($version $theirs);
            (CuResult::$ours, theirs.is_some())
        }),*];
    };
}

rmm_sys::result_codes!(compare);

#[test]
fn every_code_is_compared_or_newer() {
    let newer = [
        CuResult::MULTICAST_RESOURCE_FULL,
        CuResult::INSUFFICIENT_LOADER_VERSION,
        CuResult::GRAPH_RECAPTURE_FAILURE,
        CuResult::FABRIC_NOT_READY,
    ];
    for (code, is_compared) in CODES {
        assert_eq!(*is_compared, !newer.contains(code), "{code}");
    }
    assert!(CuResult::known().eq(CODES.iter().map(|(code, _)| *code)));
}
