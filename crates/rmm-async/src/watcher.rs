//! The thread that notices what host functions do not: faults. It also drops what host functions
//! must not, and what abandoned futures owned.
//!
//! ```text
//! poll (pending) --> watched ---+
//! drop (early)   --> abandoned -+-> the thread, every 5 ms: query each event
//! host function  --> discarded -+     complete or failed: wake the task, or drop the buffers
//! ```

use std::cell::Cell;
use std::collections::BTreeMap;
use std::mem::ManuallyDrop;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use rmm_core::sys::CuResult;
use rmm_core::{CudaEvent, Error, RelaxedCapture, fork, process_is_exiting};

use crate::signal::{Signal, catch};

/// How long a fault goes unnoticed. A query takes less than a microsecond.
const INTERVAL: Duration = Duration::from_millis(5);

/// A place in a stream: the event there, and the task that waits for it.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) event: CudaEvent,
    pub(crate) signal: Arc<Signal>,
}

impl Place {
    /// Whether the work before the place is complete.
    ///
    /// # Errors
    /// That of the work, if it failed; whatever the driver reports. An error does not mean that the
    /// work is complete: [`is_over`](Self::is_over).
    pub(crate) fn is_complete(&self) -> Result<bool, Error> {
        // While another thread captures a stream in global mode, a query by this one would
        // invalidate the capture.
        let _relaxed = RelaxedCapture::enter();
        self.event.is_complete()
    }

    /// Whether the work before the place does not run any more: it is complete, or its context is
    /// lost. Another error says nothing about the work.
    pub(crate) fn is_over(&self) -> bool {
        match self.is_complete() {
            Ok(is_complete) => is_complete,
            Err(error) => error.is_context_lost() || error.code().is_none_or(CuResult::is_sticky),
        }
    }
}

/// The buffers of a future that was dropped before their work was complete.
struct Abandoned {
    place: Arc<Place>,
    _kept: Box<dyn Send>,
}

struct Watcher {
    watched: BTreeMap<u64, Arc<Place>>,
    abandoned: Vec<Abandoned>,
    /// Wakers that were called in a host function, which must not drop them.
    discarded: Vec<Waker>,
    /// The number of the next place.
    next: u64,
    has_thread: bool,
    /// The thread refers to events, buffers or wakers.
    is_busy: bool,
}

impl Watcher {
    /// There is nothing to watch or to drop.
    fn is_idle(&self) -> bool {
        self.watched.is_empty() && self.abandoned.is_empty() && self.discarded.is_empty()
    }
}

static WATCHER: Mutex<Watcher> = Mutex::new(Watcher {
    watched: BTreeMap::new(),
    abandoned: Vec::new(),
    discarded: Vec::new(),
    next: 0,
    has_thread: false,
    is_busy: false,
});
thread_local! {
    /// Whether this is the thread.
    static IS_WATCHER: Cell<bool> = const { Cell::new(false) };
}

/// The watcher is not idle any more.
static WORK: Condvar = Condvar::new();
/// The thread has ended a round.
static ROUND: Condvar = Condvar::new();

/// Lock order: leaf. No driver call, no waker and no destructor runs while it is held.
fn lock() -> MutexGuard<'static, Watcher> {
    fork::lock(&WATCHER)
}

/// Changes the watcher, and starts or unparks its thread.
fn update<R>(change: impl FnOnce(&mut Watcher) -> R) -> R {
    let mut watcher = lock();
    let result = change(&mut watcher);
    if !watcher.has_thread && !process_is_exiting() {
        // Without a thread, tasks are woken by host functions alone; the next update tries again.
        let name = String::from("rmm-async");
        watcher.has_thread = std::thread::Builder::new().name(name).spawn(watch).is_ok();
    }
    drop(watcher);
    WORK.notify_one();
    result
}

/// A place that the thread watches, until this is dropped.
#[derive(Debug)]
pub(crate) struct Watched(u64);

impl Watched {
    pub(crate) fn new(place: &Arc<Place>) -> Self {
        let place = Arc::clone(place);
        Self(update(|watcher| {
            let number = watcher.next;
            watcher.next += 1;
            watcher.watched.insert(number, place);
            number
        }))
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if fork::is_child() {
            return;
        }
        let place = lock().watched.remove(&self.0);
        // Not under the lock: it may destroy the event.
        drop(place);
    }
}

/// Drops `kept` on the thread, once the work before the place is over.
pub(crate) fn abandon(place: Arc<Place>, kept: Box<dyn Send>) {
    update(|watcher| watcher.abandoned.push(Abandoned { place, _kept: kept }));
}

/// Drops a waker on the thread. For host functions: calls no driver.
pub(crate) fn discard(waker: Waker) {
    update(|watcher| watcher.discarded.push(waker));
}

/// Blocks the calling thread until the buffers of all futures that were dropped early are freed.
///
/// Each is freed when the work that uses it is complete, by a thread of this crate, which then
/// refers to no event of a dropped future either. To be called before a device is reset, or where a
/// test counts leaks. In a destructor, or a waker, that this thread runs it returns at once, with
/// some not freed yet.
///
/// ```
/// use rmm_async::{completed, wait_for_abandoned};
/// use rmm_containers::PinnedVec;
/// use rmm_core::CudaStream;
///
/// # let _machine = rmm_sim::enter();
/// let stream = CudaStream::new()?;
/// let staging = PinnedVec::from_slice(&[1, 2, 3])?;
/// let vector = staging.device_slice().to_device(&stream)?;
/// drop(completed(&stream)?.keep(staging)); // does not wait for the copy
/// wait_for_abandoned();
/// assert_eq!(vector.to_vec()?, [1, 2, 3]);
/// # Ok::<(), rmm_core::Error>(())
/// ```
pub fn wait_for_abandoned() {
    // In a child, the thread and what it frees are the parent's.
    if fork::is_child() || IS_WATCHER.get() {
        return;
    }
    let has_some = |watcher: &mut Watcher| {
        let is_pending = !watcher.abandoned.is_empty() || !watcher.discarded.is_empty();
        watcher.has_thread && (watcher.is_busy || is_pending)
    };
    drop(ROUND.wait_while(lock(), has_some).unwrap_or_else(PoisonError::into_inner));
}

/// What the thread looks at in one round.
struct Round {
    watched: Vec<Arc<Place>>,
    abandoned: Vec<Abandoned>,
    discarded: Vec<Waker>,
}

/// Waits for something to watch, and returns it an interval later.
fn next_round() -> Round {
    let is_idle = |watcher: &mut Watcher| watcher.is_idle();
    drop(WORK.wait_while(lock(), is_idle).unwrap_or_else(PoisonError::into_inner));
    std::thread::park_timeout(INTERVAL);
    let mut watcher = lock();
    watcher.is_busy = true;
    Round {
        watched: watcher.watched.values().cloned().collect(),
        abandoned: std::mem::take(&mut watcher.abandoned),
        discarded: std::mem::take(&mut watcher.discarded),
    }
}

/// The thread. It lives until the process exits.
fn watch() {
    IS_WATCHER.set(true);
    loop {
        let round = next_round();
        if process_is_exiting() {
            // The driver may be gone. The system frees all memory.
            let _leaked = ManuallyDrop::new(round);
            let mut watcher = lock();
            (watcher.has_thread, watcher.is_busy) = (false, false);
            drop(watcher);
            ROUND.notify_all();
            return;
        }
        let remaining = query(round);
        let mut watcher = lock();
        watcher.abandoned.extend(remaining);
        watcher.is_busy = false;
        drop(watcher);
        ROUND.notify_all();
    }
}

/// Wakes tasks and drops buffers whose work is over. Returns the other buffers.
fn query(round: Round) -> Vec<Abandoned> {
    let Round { watched, abandoned, discarded } = round;
    let relaxed = (!watched.is_empty() || !abandoned.is_empty()).then(RelaxedCapture::enter);
    for place in watched {
        if !matches!(place.event.is_complete(), Ok(false)) {
            place.signal.wake();
        }
    }
    let (over, remaining): (Vec<_>, Vec<_>) =
        abandoned.into_iter().partition(|abandoned| abandoned.place.is_over());
    drop(relaxed);
    for abandoned in over {
        catch(|| drop(abandoned));
    }
    for waker in discarded {
        catch(|| drop(waker));
    }
    remaining
}
