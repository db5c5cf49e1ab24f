//! Telling threads apart, and whether one is at a value that is its own.

#![forbid(unsafe_code)]

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::{Mutex, PoisonError};

#[cfg(rmm_loom)]
use loom::sync::atomic;
#[cfg(not(rmm_loom))]
use std::sync::atomic;

use atomic::AtomicBool;

/// What others may know of a thread. It outlives the thread, and is the next new one's then.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Thread {
    /// From 1.
    pub(super) number: usize,
    /// Whether the thread may be at a value whose user it is, written by the thread alone.
    pub(super) is_inside: AtomicBool,
}

/// The calling thread.
///
/// # Invariant
/// Stays on its thread, and is not kept beyond the call that asked for it: at a thread's end its [`Thread`] is passed on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Me {
    thread: &'static Thread,
    _stays_here: PhantomData<*const ()>,
}

/// Gives the thread's [`Thread`] back at its end.
struct End(Cell<Option<&'static Thread>>);

/// Those whose threads have ended.
static UNUSED: Mutex<Vec<&'static Thread>> = Mutex::new(Vec::new());

thread_local! {
    /// `None` until it is asked for, and again at the thread's end.
    static ME: Cell<Option<&'static Thread>> = const { Cell::new(None) };
    static END: End = const { End(Cell::new(None)) };
}

impl Me {
    pub(super) fn new(thread: &'static Thread) -> Self {
        Self { thread, _stays_here: PhantomData }
    }

    #[inline]
    pub(super) fn thread(self) -> &'static Thread {
        self.thread
    }
}

impl Thread {
    pub(super) fn leak(number: usize) -> &'static Self {
        Box::leak(Box::new(Self { number, is_inside: AtomicBool::new(false) }))
    }
}

impl Drop for End {
    fn drop(&mut self) {
        if let Some(thread) = self.0.take() {
            ME.set(None);
            UNUSED.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        }
    }
}

/// The calling thread; `None` when it is at its end.
#[inline]
pub(super) fn current() -> Option<Me> {
    ME.get().or_else(first).map(Me::new)
}

#[cold]
fn first() -> Option<&'static Thread> {
    static THREADS: Mutex<usize> = Mutex::new(0);
    END.try_with(|end| {
        let unused = UNUSED.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let thread = unused.unwrap_or_else(|| {
            let mut threads = THREADS.lock().unwrap_or_else(PoisonError::into_inner);
            *threads += 1;
            Thread::leak(*threads)
        });
        end.0.set(Some(thread));
        ME.set(Some(thread));
        thread
    })
    .ok()
}

#[cfg(all(test, not(rmm_loom)))]
mod tests {
    use super::*;

    fn number() -> Option<usize> {
        current().map(|me| me.thread().number)
    }

    #[test]
    fn threads_at_the_same_time_have_numbers_of_their_own() {
        let here = number().expect("this thread goes on");
        assert_eq!(number(), Some(here));
        let there = std::thread::spawn(number).join().expect("it does not panic");
        assert!(there.is_some_and(|there| there != here));
    }

    #[test]
    fn a_thread_at_its_end_has_none() {
        struct AsksLate(std::sync::mpsc::Sender<Option<usize>>);

        impl Drop for AsksLate {
            fn drop(&mut self) {
                self.0.send(number()).expect("the test waits for it");
            }
        }

        thread_local! {
            static LATE: Cell<Option<AsksLate>> = const { Cell::new(None) };
        }
        let (send, receive) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            // Made before the number's own end, so ended after it.
            LATE.set(Some(AsksLate(send)));
            number()
        });
        assert_eq!(receive.recv(), Ok(None));
    }
}
