//! Requests: who of those that a request passes through asks, and after which locks.
//!
//! A thread may be inside an adaptor that holds a lock of its own while it calls its upstream. A
//! sibling whose memory went through the same adaptor could not be returned then. So:
//!
//! 1. Nothing below an adaptor with code or locks of the program asks. It leaves what it would have
//!    asked for.
//! 2. The outermost such adaptor asks, after its own code has returned, and calls that again.

use std::cell::RefCell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::ControlFlow;

use rmm_sys::CuStream;

use super::Others;
use super::awaited::not_waited_for;
use super::thread_state::{Flag, begin_alone, begin_request, end_alone, end_request, is_outermost};
use super::turn::AskedFor;
use crate::{CaptureScope, CudaStream, Effort, Error, StreamRef};

thread_local! {
    /// There is something if the [flag](Flag::Unasked) is set.
    static UNASKED: RefCell<Option<Unasked>> = const { RefCell::new(None) };
}

/// A request that may ask others. Those that it makes of its upstream are its own business, and do
/// not ask.
#[derive(Debug)]
pub struct Asking {
    is_outermost: bool,
    /// The count belongs to the thread.
    thread_bound: PhantomData<*const ()>,
}

impl Asking {
    /// Begins a request.
    #[inline]
    pub fn begin() -> Self {
        Self { is_outermost: begin_request(), thread_bound: PhantomData }
    }

    /// Whether the request is part of no other one of this thread.
    #[inline]
    pub fn is_outermost(&self) -> bool {
        self.is_outermost
    }
}

impl Drop for Asking {
    #[inline]
    fn drop(&mut self) {
        end_request();
    }
}

/// A callback of the program for a request that is about to fail with this error. Returns whether
/// it has freed memory.
pub type OnFailure = Box<dyn Fn(&Error) -> bool>;

/// What a request within an adaptor has not asked for.
pub struct Unasked {
    /// Who could help.
    pub others: Option<Others>,
    /// Bytes that are missing.
    pub bytes: u64,
    /// What the program wants to be called, if they could not.
    pub callbacks: Vec<OnFailure>,
}

impl fmt::Debug for Unasked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unasked")
            .field("others", &self.others)
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

impl Unasked {
    /// Whether a request that is not the outermost should [leave](Self::leave) this.
    pub fn is_wanted() -> bool {
        Flag::Deferred.is_set()
    }

    /// Leaves it to the outermost request. What one further out leaves counts.
    pub fn leave(self) {
        // At the end of the thread no one asks.
        let replaced = UNASKED.try_with(|unasked| unasked.replace(Some(self)));
        if replaced.is_ok() {
            Flag::Unasked.set(true);
        }
    }

    #[cold]
    fn take() -> Option<Self> {
        Flag::Unasked.set(false);
        UNASKED.try_with(RefCell::take).ok().flatten()
    }
}

/// A request of an adaptor with code or locks of the program. If it is the outermost, it asks for
/// those within.
struct Deferring {
    thread_bound: PhantomData<*const ()>,
}

impl Deferring {
    #[inline]
    fn begin() -> Self {
        if begin_request() {
            Flag::Deferred.set(true);
        }
        Self { thread_bound: PhantomData }
    }

    /// Does nothing if other threads may wait for something of this one.
    #[inline]
    fn begin_unless_awaited() -> Option<Self> {
        if begin_alone() {
            Some(Self { thread_bound: PhantomData })
        } else {
            (!Flag::Awaited.is_set()).then(Self::begin)
        }
    }
}

impl Drop for Deferring {
    #[inline]
    fn drop(&mut self) {
        if end_alone() {
            return;
        }
        if is_outermost() { end_outermost() } else { end_request() }
    }
}

/// Ends the outermost request, which may not have asked for what those within have left.
#[cold]
fn end_outermost() {
    Flag::Deferred.set(false);
    // A resource may be dropped with it. That is part of the request, which ends if it panics, too.
    let _request = Asking { is_outermost: true, thread_bound: PhantomData };
    drop(Unasked::take());
}

/// Whether a wait for the device is known to invalidate a capture: one is announced, or the stream
/// or the legacy default stream is under capture.
fn is_capturing(stream: Option<StreamRef<'_>>) -> bool {
    // SAFETY: the legacy default stream always exists.
    let legacy_says = || unsafe { CudaStream::may_be_capturing_raw(CuStream::LEGACY) };
    CaptureScope::is_announced()
        || stream.is_some_and(|stream| stream.is_capturing().unwrap_or(true))
        || legacy_says()
}

/// Calls `allocate`, and if it is out of memory asks others and calls it again: for idle memory
/// first, then for memory that is unused once the device has completed its work. `others` are asked
/// for `bytes` bytes, and found only after a failure.
///
/// # Errors
/// The last error of `allocate`.
pub fn allocate_with<T>(
    stream: Option<StreamRef<'_>>,
    bytes: u64,
    mut allocate: impl FnMut() -> Result<T, Error>,
    others: impl FnOnce() -> Option<Others>,
) -> Result<T, Error> {
    let refusal = match allocate() {
        Err(error) if error.is_out_of_memory() => error,
        outcome => return outcome,
    };
    refused(stream, bytes, refusal, &mut allocate, others)
}

#[cold]
fn refused<T>(
    stream: Option<StreamRef<'_>>,
    bytes: u64,
    refusal: Error,
    allocate: &mut dyn FnMut() -> Result<T, Error>,
    others: impl FnOnce() -> Option<Others>,
) -> Result<T, Error> {
    let asking = Asking::begin();
    if !asking.is_outermost() && !Unasked::is_wanted() {
        return Err(refusal);
    }
    let Some(others) = others() else { return Err(refusal) };
    if !others.could_help(0, 0) {
        return Err(others.explain(refusal));
    }
    if asking.is_outermost() {
        let outcome = ask_others(stream, bytes, refusal, allocate, &others);
        outcome.map_err(|error| others.explain(error))
    } else {
        let refusal = others.explain(refusal);
        Unasked { others: Some(others), bytes, callbacks: Vec::new() }.leave();
        Err(refusal)
    }
}

/// Calls `allocate`, which runs code of the program or holds a lock that such code may need. If it
/// is out of memory, and so is something below it, asks others and calls it again.
///
/// # Errors
/// The last error of `allocate`.
#[inline]
pub fn allocate_in_program<T>(
    stream: Option<StreamRef<'_>>,
    mut allocate: impl FnMut() -> Result<T, Error>,
) -> Result<T, Error> {
    let Some(deferring) = Deferring::begin_unless_awaited() else {
        return allocate_while_awaited(stream, allocate);
    };
    match allocate() {
        Err(refusal) if refusal.is_out_of_memory() && is_outermost() => {
            ask_for_unasked(stream, refusal, allocate, deferring)
        }
        outcome => outcome,
    }
}

#[cold]
fn allocate_while_awaited<T>(
    stream: Option<StreamRef<'_>>,
    mut allocate: impl FnMut() -> Result<T, Error>,
) -> Result<T, Error> {
    let deferring = Deferring::begin();
    match not_waited_for(&mut allocate) {
        Err(refusal) if refusal.is_out_of_memory() && is_outermost() => {
            ask_for_unasked(stream, refusal, allocate, deferring)
        }
        outcome => outcome,
    }
}

#[cold]
fn ask_for_unasked<T>(
    stream: Option<StreamRef<'_>>,
    refusal: Error,
    mut allocate: impl FnMut() -> Result<T, Error>,
    deferring: Deferring,
) -> Result<T, Error> {
    let Some(Unasked { others, bytes, callbacks }) = Unasked::take() else { return Err(refusal) };
    let mut attempt = || not_waited_for(&mut allocate);
    let mut outcome = match others {
        Some(others) => ask_others(stream, bytes, refusal, &mut attempt, &others),
        None => Err(refusal),
    };
    drop(deferring);
    for callback in callbacks {
        if !Effort::current().may_wait() {
            break;
        }
        let Some(error) = outcome.as_ref().err().filter(|error| error.is_out_of_memory()) else {
            break;
        };
        // What the callback allocates itself may ask others, too.
        if callback(error) {
            let _asking = Asking::begin();
            outcome = attempt();
        }
    }
    outcome
}

fn ask_others<T>(
    stream: Option<StreamRef<'_>>,
    bytes: u64,
    refusal: Error,
    allocate: &mut dyn FnMut() -> Result<T, Error>,
    others: &Others,
) -> Result<T, Error> {
    let Some(turn) = others.take_turn() else { return Err(refusal) };
    let mut last = Some(refusal);
    let mut attempt = |(): &mut ()| match allocate() {
        Err(error) if error.is_out_of_memory() => {
            last = Some(error);
            ControlFlow::Continue(())
        }
        outcome => ControlFlow::Break(outcome),
    };
    for effort in [AskedFor::Idle, AskedFor::Wait] {
        if !effort.is_allowed() || effort == AskedFor::Wait && is_capturing(stream) {
            break;
        }
        // Another thread may have left memory while this one waited for its turn.
        let outcome = attempt(&mut ());
        let asked = match outcome {
            ControlFlow::Continue(()) => {
                turn.ask(effort, bytes, &mut (), |(), ask| ask(), &mut attempt)
            }
            served @ ControlFlow::Break(_) => served,
        };
        if let ControlFlow::Break(outcome) = asked {
            return outcome;
        }
    }
    Err(last.unwrap_or_else(|| unreachable!("it is set above")))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::rc::Rc;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::siblings::{Awaited, awaited, in_program};

    /// Something that threads wait for, and how often the wait was paused, less how often resumed.
    #[derive(Default)]
    struct Pauses(AtomicUsize);

    impl Awaited for Pauses {
        fn pause(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }

        fn resume(&self) {
            self.0.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Asserts that it is dropped within a request, which defers no more, and notes that.
    struct WithinRequest(Rc<Cell<bool>>);

    impl Drop for WithinRequest {
        fn drop(&mut self) {
            assert!(!Asking::begin().is_outermost());
            assert!(!Unasked::is_wanted());
            self.0.set(true);
        }
    }

    fn assert_idle() {
        assert!(Asking::begin().is_outermost());
        assert!(!Unasked::is_wanted());
        assert!(Unasked::take().is_none());
    }

    fn refuse() -> Result<(), Error> {
        Err(Error::out_of_memory("test"))
    }

    fn leave(callback: impl Fn(&Error) -> bool + 'static) {
        Unasked { others: None, bytes: 1, callbacks: vec![Box::new(callback)] }.leave();
    }

    #[test]
    fn a_panic_ends_requests_and_resumes_waits() {
        let pauses = Arc::new(Pauses::default());
        let count = || pauses.0.load(Ordering::Relaxed);
        let seen = Cell::new((false, 0));
        let panics = || -> Result<(), Error> {
            seen.set((Unasked::is_wanted(), count()));
            leave(|_| unreachable!("there was a panic"));
            panic!("on purpose");
        };
        let nested = || allocate_in_program(None, || allocate_in_program(None, panics));
        let catch = |code: &dyn Fn() -> Result<(), Error>| {
            assert!(catch_unwind(AssertUnwindSafe(code)).is_err());
            (seen.take(), count())
        };
        assert_eq!(catch(&nested), ((true, 0), 0));
        assert_idle();
        awaited(Arc::clone(&pauses) as _, || {
            assert_eq!(catch(&nested), ((true, 1), 0));
            assert_eq!(catch(&|| in_program(nested)), ((true, 1), 0));
        });
        assert_idle();
    }

    #[test]
    fn what_is_left_is_dropped_within_a_request_that_succeeds() {
        let is_dropped = Rc::new(Cell::new(false));
        let served = allocate_in_program(None, || {
            let within = WithinRequest(Rc::clone(&is_dropped));
            leave(move |_| within.0.get());
            Ok(())
        });
        assert!(served.is_ok());
        assert!(is_dropped.get());
        assert_idle();
    }

    #[test]
    fn the_outermost_request_calls_back_for_those_within() {
        for is_awaited in [false, true] {
            let calls = Rc::new(Cell::new(0));
            let refused = || {
                let calls = Rc::clone(&calls);
                if Unasked::is_wanted() {
                    leave(move |_| {
                        assert!(Asking::begin().is_outermost());
                        assert!(!Unasked::is_wanted());
                        calls.replace(calls.get() + 1) == 0
                    });
                }
                refuse()
            };
            let request = || allocate_in_program(None, || allocate_in_program(None, refused));
            let outcome =
                if is_awaited { awaited(Arc::new(Pauses::default()), request) } else { request() };
            assert!(outcome.is_err_and(|error| error.is_out_of_memory()));
            assert_eq!(calls.get(), 1);
            assert_idle();
        }
    }

    #[test]
    fn a_request_within_one_that_asks_itself_leaves_nothing_to_it() {
        let asking = Asking::begin();
        let refused = allocate_in_program(None, || {
            assert!(!Unasked::is_wanted());
            refuse()
        });
        assert!(refused.is_err());
        drop(asking);
        assert_idle();
    }
}
