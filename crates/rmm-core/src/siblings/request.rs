//! Requests: who of those that a request passes through asks, and after which locks.
//!
//! A thread may be inside an adaptor that holds a lock of its own while it calls its upstream. A
//! sibling whose memory went through the same adaptor could not be returned then. So:
//!
//! 1. Nothing below an adaptor with code or locks of the program asks. It leaves what it would have
//!    asked for.
//! 2. The outermost such adaptor asks, after its own code has returned, and calls that again.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::marker::PhantomData;
use std::ops::ControlFlow;

use rmm_sys::CuStream;

use super::Others;
use super::awaited::in_program;
use super::turn::Effort;
use crate::{CaptureScope, CudaStream, Error, StreamRef};

thread_local! {
    /// The requests of this thread that are being served, one within the other.
    static REQUESTS: Cell<u32> = const { Cell::new(0) };
    /// Whether the outermost of them asks for those within.
    static IS_DEFERRED: Cell<bool> = const { Cell::new(false) };
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
        let requests = REQUESTS.get();
        REQUESTS.set(requests + 1);
        Self { is_outermost: requests == 0, thread_bound: PhantomData }
    }

    /// Whether the request is part of no other one of this thread.
    pub fn is_outermost(&self) -> bool {
        self.is_outermost
    }
}

impl Drop for Asking {
    #[inline]
    fn drop(&mut self) {
        REQUESTS.set(REQUESTS.get() - 1);
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
        IS_DEFERRED.get()
    }

    /// Leaves it to the outermost request. What one further out leaves counts.
    pub fn leave(self) {
        // At the end of the thread no one asks.
        let _replaced = UNASKED.try_with(|unasked| unasked.replace(Some(self)));
    }

    fn take() -> Option<Self> {
        UNASKED.try_with(RefCell::take).ok().flatten()
    }
}

/// The outermost request is one of an adaptor with code of the program, until this is dropped.
struct Deferred;

impl Deferred {
    fn begin() -> Self {
        IS_DEFERRED.set(true);
        Self
    }
}

impl Drop for Deferred {
    fn drop(&mut self) {
        IS_DEFERRED.set(false);
        // Dropped outside, as it may drop a resource.
        let _left = Unasked::take();
    }
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
    let asking = Asking::begin();
    if !asking.is_outermost() {
        return in_program(allocate);
    }
    let deferred = Deferred::begin();
    match in_program(&mut allocate) {
        Err(refusal) if refusal.is_out_of_memory() => {
            ask_for_unasked(stream, refusal, &mut allocate, asking, deferred)
        }
        outcome => outcome,
    }
}

#[cold]
fn ask_for_unasked<T>(
    stream: Option<StreamRef<'_>>,
    refusal: Error,
    allocate: &mut dyn FnMut() -> Result<T, Error>,
    asking: Asking,
    deferred: Deferred,
) -> Result<T, Error> {
    let Some(Unasked { others, bytes, callbacks }) = Unasked::take() else { return Err(refusal) };
    let mut attempt = || in_program(&mut *allocate);
    let mut outcome = match others {
        Some(others) => ask_others(stream, bytes, refusal, &mut attempt, &others),
        None => Err(refusal),
    };
    drop((deferred, asking));
    for callback in callbacks {
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
    let turn = others.take_turn();
    let mut last = Some(refusal);
    let mut attempt = |(): &mut ()| match allocate() {
        Err(error) if error.is_out_of_memory() => {
            last = Some(error);
            ControlFlow::Continue(())
        }
        outcome => ControlFlow::Break(outcome),
    };
    for effort in [Effort::Idle, Effort::Wait] {
        if effort == Effort::Wait && is_capturing(stream) {
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
