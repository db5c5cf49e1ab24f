//! Status codes.

use cuda_driver_sys::CUresult;
use cuda_runtime_sys::cudaError_t;
use rmm_sys::CuResult;

/// The driver's code from `cuda-driver-sys`.
pub const fn result_from_driver_sys(code: CUresult) -> CuResult {
    CuResult(code as u32)
}

/// The number of a code of `cuda-runtime-sys`.
///
/// Not a [`CuResult`]: many of the runtime's numbers are the driver's, but it has some of its own,
/// which mean nothing to the driver.
pub const fn code_of_runtime_sys(code: cudaError_t) -> u32 {
    code as u32
}

/// Returns the enumerator for one code, if CUDA 10.2 had it.
macro_rules! if_known {
    (cuda_10_2, $code:ident, $ours:ident, $theirs:ident) => {
        // The numbers are the same, so a code survives the way there and back.
        const _: () = assert!(CuResult::$ours.0 == CUresult::$theirs as u32, stringify!($ours));
        if $code.0 == CuResult::$ours.0 {
            return Some(CUresult::$theirs);
        }
    };
    ($newer:ident, $code:ident, $ours:ident, $theirs:ident) => {};
}

macro_rules! conversion {
    ($($ours:ident = $number:literal $theirs:ident $name:literal $version:ident $text:literal;)*) => {
        /// The code as `cuda-driver-sys` knows it, or `None` if CUDA 10.2 did not have it.
        pub const fn result_to_driver_sys(code: CuResult) -> Option<CUresult> {
            $(if_known!($version, code, $ours, $theirs);)*
            None
        }
    };
}

rmm_sys::result_codes!(conversion);
