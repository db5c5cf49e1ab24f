//! The calling thread as an owner of biased cells: a record per live thread, reused by later ones.

#![forbid(unsafe_code)]

use rmm_core::fork;
use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::{Mutex, MutexGuard};

use super::primitives::atomic::{AtomicBool, AtomicU64, Ordering};

/// A thread's id, from 1: no other thread has it, before or after.
pub(super) type ThreadId = u64;

/// The id in a record whose thread has ended.
const NO_THREAD: ThreadId = 0;

/// What revokers read of a thread. It outlives the thread, and a later one reuses it.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct ThreadRecord {
    /// From 1: one of the smallest that no other live thread has.
    number: usize,
    /// The thread that has the record now.
    id: AtomicU64,
    /// Whether the thread may be inside a cell that it owns. Written by that thread alone.
    pub(super) is_inside: AtomicBool,
}

/// The calling thread.
///
/// # Invariant
/// Stays on its thread, and is not kept beyond the call that asked for it: at the thread's end a
/// later thread gets the [`ThreadRecord`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct ThreadToken {
    record: &'static ThreadRecord,
    _stays_on_its_thread: PhantomData<*const ()>,
}

/// Returns the thread's record to [`ThreadRecords`] at the thread's end.
struct ReturnAtExit(Cell<Option<&'static ThreadRecord>>);

/// The records of a process.
pub(crate) struct ThreadRecords {
    count: usize,
    /// Those whose threads have ended.
    unused: Vec<&'static ThreadRecord>,
    last_id: ThreadId,
}

static RECORDS: Mutex<ThreadRecords> = Mutex::new(ThreadRecords::none());

thread_local! {
    /// `None` before the first use, and again at the thread's end.
    static RECORD: Cell<Option<&'static ThreadRecord>> = const { Cell::new(None) };
    static RETURN_AT_EXIT: ReturnAtExit = const { ReturnAtExit(Cell::new(None)) };
}

impl ThreadToken {
    fn new(record: &'static ThreadRecord) -> Self {
        Self { record, _stays_on_its_thread: PhantomData }
    }

    /// The calling thread; `None` during its exit, once its record has gone.
    #[inline]
    pub(crate) fn current() -> Option<Self> {
        RECORD.get().or_else(register).map(Self::new)
    }

    /// The calling thread, without a lock; `None` if it has no record yet.
    #[inline]
    pub(crate) fn registered() -> Option<Self> {
        RECORD.get().map(Self::new)
    }

    /// That of a model's thread.
    #[cfg(all(test, rmm_loom))]
    pub(crate) fn of_model(record: &'static ThreadRecord) -> Self {
        Self::new(record)
    }

    /// A number from 1: one of the smallest that no other live thread has.
    #[inline]
    pub(crate) fn number(self) -> usize {
        self.record.number
    }

    #[inline]
    pub(super) fn record(self) -> &'static ThreadRecord {
        self.record
    }

    #[inline]
    pub(super) fn id(self) -> ThreadId {
        // Relaxed: this thread stored it.
        self.record.id.load(Ordering::Relaxed)
    }
}

impl ThreadRecord {
    /// A record that is never freed. There are as many as threads at the same time.
    pub(crate) fn leak(number: usize, id: u64) -> &'static Self {
        let is_inside = AtomicBool::new(false);
        Box::leak(Box::new(Self { number, id: AtomicU64::new(id), is_inside }))
    }

    /// Whether the thread with this id still has the record. If not, what it did is visible.
    pub(super) fn is(&self, id: ThreadId) -> bool {
        self.id.load(Ordering::Acquire) == id
    }

    /// Ends the calling thread's use of its record.
    pub(super) fn end(&self) {
        // Release: a thread that finds the id gone sees what this thread did.
        self.id.store(NO_THREAD, Ordering::Release);
    }
}

impl Drop for ReturnAtExit {
    fn drop(&mut self) {
        if let Some(record) = self.0.take().filter(|_| !fork::is_child()) {
            RECORD.set(None);
            records().end(record);
        }
    }
}

#[cold]
fn register() -> Option<&'static ThreadRecord> {
    let made = RETURN_AT_EXIT.try_with(|at_exit| {
        let record = records().make();
        at_exit.0.set(Some(record));
        RECORD.set(Some(record));
        record
    });
    made.ok()
}

fn records() -> MutexGuard<'static, ThreadRecords> {
    fork::lock(&RECORDS)
}

impl ThreadRecords {
    pub(super) const fn none() -> Self {
        Self { count: 0, unused: Vec::new(), last_id: NO_THREAD }
    }

    /// Takes the record of the calling thread, which does not use it any more.
    pub(super) fn end(&mut self, record: &'static ThreadRecord) {
        record.end();
        self.unused.push(record);
    }

    /// A record for a new thread.
    pub(super) fn make(&mut self) -> &'static ThreadRecord {
        self.last_id += 1;
        // The smallest number, so that numbers stay close to the count of live threads.
        let smallest = (0..self.unused.len()).min_by_key(|&index| self.unused[index].number);
        if let Some(index) = smallest {
            let record = self.unused.swap_remove(index);
            // Release: a thread that finds the former id gone sees what its thread did, which
            // ended before this.
            record.id.store(self.last_id, Ordering::Release);
            return record;
        }
        self.count += 1;
        ThreadRecord::leak(self.count, self.last_id)
    }
}

#[cfg(all(test, not(rmm_loom)))]
mod tests {
    use super::*;

    fn number() -> Option<usize> {
        ThreadToken::current().map(ThreadToken::number)
    }

    #[test]
    fn threads_at_the_same_time_have_different_numbers() {
        let here = number().expect("this thread goes on");
        assert_eq!(number(), Some(here));
        let there = std::thread::spawn(number).join().expect("it does not panic");
        assert!(there.is_some_and(|there| there != here));
    }

    #[test]
    fn a_thread_has_no_token_once_its_record_is_returned() {
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
            // Made before the record's own guard, so dropped after it.
            LATE.set(Some(AsksLate(send)));
            number()
        });
        assert_eq!(receive.recv(), Ok(None));
    }
}
