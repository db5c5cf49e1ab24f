//! The return addresses of the calling thread's stack, as a number for each stack.

/// The most frames that are looked at.
#[cfg(unix)]
const DEPTH: usize = 64;

/// A number for the return addresses of the stack; `None` where they cannot be read.
#[cfg(unix)]
#[expect(unsafe_code, reason = "the unwinder has an interface of C only")]
pub(super) fn fingerprint() -> Option<u64> {
    use std::ffi::{c_int, c_void};

    /// `_URC_NO_REASON`: go on.
    const GO_ON: c_int = 0;
    /// `_URC_END_OF_STACK`, which ends the walk.
    const STOP: c_int = 5;

    // Declared as in the Itanium C++ ABI, level I, and its extension that GCC and LLVM share. The
    // standard library links the unwinder.
    unsafe extern "C" {
        fn _Unwind_Backtrace(
            each: extern "C" fn(*mut c_void, *mut c_void) -> c_int,
            argument: *mut c_void,
        ) -> c_int;
        fn _Unwind_GetIP(context: *mut c_void) -> usize;
    }

    struct Walk {
        hash: u64,
        frames: usize,
    }

    extern "C" fn each(context: *mut c_void, walk: *mut c_void) -> c_int {
        // SAFETY: it is the walk that `fingerprint` passes, which nothing else uses meanwhile.
        let walk = unsafe { &mut *walk.cast::<Walk>() };
        // SAFETY: the unwinder calls this with a context that is valid during the call.
        let address = unsafe { _Unwind_GetIP(context) } as u64;
        // FNV-1a's prime, over words.
        walk.hash = (walk.hash.rotate_left(5) ^ address).wrapping_mul(0x0000_0100_0000_01b3);
        walk.frames += 1;
        if walk.frames < DEPTH { GO_ON } else { STOP }
    }

    let mut walk = Walk { hash: 0xcbf2_9ce4_8422_2325, frames: 0 };
    // SAFETY: `each` does not unwind, and `walk` outlives the call.
    unsafe { _Unwind_Backtrace(each, (&raw mut walk).cast()) };
    (walk.frames > 0).then_some(walk.hash)
}

#[cfg(not(unix))]
pub(super) fn fingerprint() -> Option<u64> {
    None
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[inline(never)]
    fn once() -> Option<u64> {
        std::hint::black_box(fingerprint())
    }

    #[test]
    fn a_line_has_one_number_and_another_line_another() {
        let mut numbers = [None; 2].map(|_: Option<()>| once());
        assert!(numbers[0].is_some());
        numbers.sort_unstable();
        assert_eq!(numbers[0], numbers[1], "one line, twice");
        assert_ne!(once(), numbers[0]);
    }
}
