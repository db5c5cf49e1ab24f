//! Telling threads apart, and whether one is at a value that is its own.

#![forbid(unsafe_code)]

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::{Mutex, PoisonError};

use crate::sync::primitives::atomic::{AtomicBool, AtomicU64, Ordering};

/// A thread's id: no other thread has it, before or after.
pub(super) type Id = u64;

/// The id of no thread.
pub(super) const NOBODY: Id = 0;

/// What others may know of a thread. It outlives the thread, and is a later one's then.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Thread {
    /// From 1; one of the smallest that no other thread has at the moment.
    pub(super) number: usize,
    /// Whose it is at the moment.
    id: AtomicU64,
    /// Whether the thread may be at a value whose user it is. Written by the thread alone.
    pub(super) is_inside: AtomicBool,
}

/// The calling thread.
///
/// # Invariant
/// Stays on its thread, and is not kept beyond the call that asked for it: at a thread's end its
/// [`Thread`] is passed on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Me {
    thread: &'static Thread,
    _stays_here: PhantomData<*const ()>,
}

/// Gives the thread's [`Thread`] back at its end.
struct End(Cell<Option<&'static Thread>>);

/// All that there are, and those whose threads have ended.
pub(super) struct Threads {
    count: usize,
    unused: Vec<&'static Thread>,
    last_id: Id,
}

static THREADS: Mutex<Threads> = Mutex::new(Threads::none());

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

    #[inline]
    pub(super) fn id(self) -> Id {
        // This thread's own store.
        self.thread.id.load(Ordering::Relaxed)
    }
}

impl Thread {
    /// One that is a thread's without end, of which there must be few.
    pub(super) fn leak(number: usize, id: Id) -> &'static Self {
        let is_inside = AtomicBool::new(false);
        Box::leak(Box::new(Self { number, id: AtomicU64::new(id), is_inside }))
    }

    /// Whether this is the thread with the id, and not at its end. If it is not, what that thread
    /// did is seen.
    pub(super) fn is(&self, id: Id) -> bool {
        self.id.load(Ordering::Acquire) == id
    }

    /// To be called by the thread itself, as the last.
    pub(super) fn end(&self) {
        // Release: whoever finds the thread gone sees what it did.
        self.id.store(NOBODY, Ordering::Release);
    }
}

impl Drop for End {
    fn drop(&mut self) {
        if let Some(thread) = self.0.take() {
            ME.set(None);
            threads().end(thread);
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
    let made = END.try_with(|end| {
        let thread = threads().make();
        end.0.set(Some(thread));
        ME.set(Some(thread));
        thread
    });
    made.ok()
}

fn threads() -> std::sync::MutexGuard<'static, Threads> {
    THREADS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Threads {
    pub(super) const fn none() -> Self {
        Self { count: 0, unused: Vec::new(), last_id: NOBODY }
    }

    /// Takes the record of a thread back. To be called by the thread itself, as the last.
    pub(super) fn end(&mut self, thread: &'static Thread) {
        thread.end();
        self.unused.push(thread);
    }

    /// A record for a new thread.
    pub(super) fn make(&mut self) -> &'static Thread {
        self.last_id += 1;
        // The smallest number, so that numbers stay near those of the threads that there are.
        let smallest = (0..self.unused.len()).min_by_key(|&index| self.unused[index].number);
        if let Some(index) = smallest {
            let thread = self.unused.swap_remove(index);
            // Release: as in `end`; the one before has ended before this.
            thread.id.store(self.last_id, Ordering::Release);
            return thread;
        }
        self.count += 1;
        Thread::leak(self.count, self.last_id)
    }
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
