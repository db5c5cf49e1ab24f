//! Threads that no signal interrupts.

use std::mem::MaybeUninit;
use std::ptr;

/// Runs `start` with all signals blocked. A thread that it starts has them blocked for ever, so
/// that the program's own threads get what is sent to the process.
pub(super) fn blocked<T>(start: impl FnOnce() -> T) -> T {
    let mut all = MaybeUninit::uninit();
    // SAFETY: it writes a whole set there.
    unsafe { libc::sigfillset(all.as_mut_ptr()) };
    let mut before = MaybeUninit::uninit();
    // SAFETY: the first set is written above, the second may be written. No other thread's mask is
    // changed.
    let failed =
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr()) };
    let started = start();
    if failed == 0 {
        // SAFETY: the call above succeeded, and has written the set; none is asked for here.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut()) };
    }
    started
}
