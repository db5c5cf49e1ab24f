//! Telling threads apart.

#![forbid(unsafe_code)]

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// 0 until it is asked for.
    static NUMBER: Cell<usize> = const { Cell::new(0) };
}

/// A number of the calling thread's own; the first threads that ask get the smallest.
#[inline]
pub(super) fn number() -> usize {
    NUMBER.with(|number| if number.get() == 0 { first(number) } else { number.get() })
}

#[cold]
fn first(number: &Cell<usize>) -> usize {
    number.set(THREADS.fetch_add(1, Ordering::Relaxed) + 1);
    number.get()
}
