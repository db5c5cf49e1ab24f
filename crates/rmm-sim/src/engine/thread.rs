//! The calling thread: its number, and whether it is inside a host function or kernel.
#![forbid(unsafe_code)]

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

static LAST: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static NUMBER: u64 = LAST.fetch_add(1, Ordering::Relaxed) + 1;
    static IN_CALLBACK: Cell<bool> = const { Cell::new(false) };
}

/// The calling thread's number, never reused.
pub(crate) fn number() -> u64 {
    NUMBER.try_with(|&number| number).unwrap_or(0)
}

/// The largest number of any thread so far.
pub(crate) fn last_number() -> u64 {
    LAST.load(Ordering::Relaxed)
}

/// Whether the calling thread is inside a host function or kernel.
pub(crate) fn in_callback() -> bool {
    IN_CALLBACK.try_with(Cell::get).unwrap_or(false)
}

/// Runs a host function or kernel; driver calls that it makes are refused.
pub(crate) fn callback<R>(run: impl FnOnce() -> R) -> R {
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            let _ = IN_CALLBACK.try_with(|flag| flag.set(false));
        }
    }
    let _ = IN_CALLBACK.try_with(|flag| flag.set(true));
    let _leave = Leave;
    run()
}
