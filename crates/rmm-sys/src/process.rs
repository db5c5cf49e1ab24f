//! The end of the driver's use in a process: its exit handlers run, or it is the child of a `fork`.
//! The driver does not work in a child, and the locks that other threads of the parent held stay
//! locked there.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use crate::epoch;

/// Bit of [`STATE`]: exit handlers run.
const EXITING: u8 = 1;
/// Bit of [`STATE`]: the process is a child of one that used the driver.
const CHILD: u8 = 2;

static STATE: AtomicU8 = AtomicU8::new(0);
static GENERATION: AtomicU64 = AtomicU64::new(0);
static USES_DRIVER: AtomicBool = AtomicBool::new(false);

/// Whether the driver may be gone: exit handlers run, or [`is_child`].
#[inline]
pub fn is_ending() -> bool {
    // Acquire: a thread that sees the bit also sees what the exiting thread did before.
    STATE.load(Ordering::Acquire) != 0
}

/// Notes that exit handlers run.
pub fn note_exit() {
    STATE.fetch_or(EXITING, Ordering::Release);
}

/// Whether this process is the child of a `fork` of one that used the driver.
#[inline]
pub fn is_child() -> bool {
    // Relaxed: it is set before the child has a second thread.
    STATE.load(Ordering::Relaxed) & CHILD != 0
}

/// How many forks lie between this process and the first that [watched](watch_forks) them. What was
/// made in another generation is the parent's.
pub fn generation() -> u64 {
    GENERATION.load(Ordering::Relaxed)
}

/// Notices every later `fork`. Without effect from the second call on.
pub fn watch_forks() {
    static ONCE: Once = Once::new();
    ONCE.call_once(register);
}

/// Notes that the process may call the driver from now on.
pub(crate) fn note_driver() {
    watch_forks();
    USES_DRIVER.store(true, Ordering::Relaxed);
}

#[cfg(unix)]
fn register() {
    use std::ffi::c_int;

    type Handler = Option<extern "C" fn()>;

    // Declared as in POSIX.1-2024.
    unsafe extern "C" {
        fn pthread_atfork(prepare: Handler, parent: Handler, child: Handler) -> c_int;
    }

    extern "C" fn in_child() {
        GENERATION.fetch_add(1, Ordering::Relaxed);
        if USES_DRIVER.load(Ordering::Relaxed) {
            STATE.fetch_or(CHILD, Ordering::Relaxed);
            // What allocators serve without a driver call they serve no more.
            epoch::note_end_of_context();
        }
    }

    // SAFETY: the handler changes atomics, which is allowed between `fork` and `exec`, and does not
    // unwind. The system drops it when it unloads this library. If that fails, a fork
    // is never noticed.
    let _ignored = unsafe { pthread_atfork(None, None, Some(in_child)) };
}

#[cfg(not(unix))]
fn register() {}
