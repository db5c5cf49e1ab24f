//! The pool's lock, held by a request that may have to release it on its way.
//!
//! No call to upstream, and no wait for the device, runs with the lock held. A [`Session`] owns the
//! lock's guard, and [`ask_upstream`](Session::ask_upstream),
//! [`release_to_upstream`](Session::release_to_upstream) and the waits are the only ways to let go
//! of it: what other threads have to know meanwhile is counted there, and counted out again also if
//! upstream panics. Code of the program, which may run in such a call, is waited for only for a
//! [short time](SHORT_CALL): it may wait for a request of this pool.

#![forbid(unsafe_code)]

use std::alloc::Layout;
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rmm_core::siblings::{Awaited, awaited, in_program, is_in_program};
use rmm_core::{AnyResource, CaptureScope, Device, Effort, Error, StreamRef, fork, wait};

use super::core::{PoolCore, UpstreamCode};
use super::pool_state::PoolState;
use super::upstream_block::Panic;
use crate::shared::trace;
use crate::suballocators::pool::values::units::ListId;

/// How often a request tries again because calls of other threads to upstream have ended meanwhile:
/// they may have left memory, or freed some. The limit keeps threads from waking each other for
/// ever.
pub(crate) const MAX_RETRIES: u32 = 4;

/// Code of the program that ends within this time is waited for, as a subscriber of spans does: it
/// does not wait for this thread.
const SHORT_CALL: Duration = Duration::from_millis(100);

/// A request that no free block has served yet.
#[derive(Clone, Copy)]
pub(crate) struct Request<'a> {
    pub(crate) upstream: &'a AnyResource<()>,
    /// The stream whose work will use the memory; `None` if any stream may, at once.
    pub(crate) stream: Option<StreamRef<'a>>,
    /// The stream's list, or [`ListId::ANY_STREAM`].
    pub(crate) list: ListId,
    pub(crate) layout: Layout,
    /// Bytes, a multiple of the granule, with room for the alignment.
    pub(crate) size: u64,
}

/// The right to use a pool's state.
pub(crate) struct Session<'p> {
    pub(crate) core: &'p PoolCore,
    /// `None` only while the lock is released.
    state: Option<MutexGuard<'p, PoolState>>,
    /// Calls to upstream that this session has made and that have ended.
    calls: u64,
    /// The list that is kept for its stream.
    pinned: Option<ListId>,
    /// Whether the request has too little time to let others have the lock: it may not get the
    /// processor back for milliseconds.
    pub(crate) is_hurried: bool,
    /// Whether it has no time left.
    pub(crate) is_out_of_time: bool,
}

impl<'p> Session<'p> {
    pub(crate) fn new(core: &'p PoolCore) -> Self {
        Self::resume(core, core.lock())
    }

    /// A session of a pool whose lock is held already.
    pub(crate) fn resume(core: &'p PoolCore, state: MutexGuard<'p, PoolState>) -> Self {
        Self {
            core,
            state: Some(state),
            calls: 0,
            pinned: None,
            is_hurried: false,
            is_out_of_time: false,
        }
    }

    /// Keeps the list for its stream, also while the lock is released, until it is
    /// [unpinned](Self::unpin).
    pub(crate) fn pin(&mut self, list: ListId) {
        self.timeline.pin(list);
        self.pinned = Some(list);
    }

    /// Undoes [`pin`](Self::pin).
    pub(crate) fn unpin(&mut self) {
        if let Some(list) = self.pinned.take() {
            self.timeline.unpin(list);
        }
    }

    /// Whether the lock is held. It is between the calls of a session, but after a request has
    /// [stepped out](Self::step_out) and was refused meanwhile.
    pub(crate) fn is_locked(&self) -> bool {
        self.state.is_some()
    }

    /// Ends the session with the lock held.
    pub(crate) fn into_guard(self) -> MutexGuard<'p, PoolState> {
        self.state.expect("the lock is held between the calls of a session")
    }

    /// Runs `work` with the lock released. Also if `work` panics the lock is held again afterwards.
    ///
    /// # Errors
    /// What `work` panicked with.
    pub(crate) fn unlocked<T>(&mut self, work: impl FnOnce() -> T) -> Result<T, Panic> {
        self.away += 1;
        self.state = None;
        let core: Arc<dyn Awaited> = self.core.this.upgrade().expect("it is borrowed here");
        let outcome = catch_unwind(AssertUnwindSafe(|| awaited(core, work)));
        self.state = Some(self.core.lock());
        self.come_back();
        outcome
    }

    /// Runs `code` with the lock released. Nothing of the request is under way: the pool may fall
    /// asleep meanwhile.
    ///
    /// # Errors
    /// What it panicked with.
    pub(crate) fn outside<T>(&mut self, code: impl FnOnce() -> T) -> Result<T, Panic> {
        self.state = None;
        let outcome = catch_unwind(AssertUnwindSafe(code));
        self.state = Some(self.core.lock());
        outcome
    }

    /// Lets threads have the lock that wait for it, in the middle of long work. What was found out
    /// about the state may be out of date then.
    pub(crate) fn pause(&mut self) {
        if !self.is_hurried && self.core.state.is_waited_for() {
            let core = self.core;
            let paused = self.unlocked(|| core.state.let_others_in());
            paused.unwrap_or_else(|panic| resume_unwind(panic));
        }
    }

    fn come_back(&mut self) {
        self.away -= 1;
        if self.away == 0 && !self.phase.is_awake() {
            self.core.settled.notify_all();
        }
    }

    /// Waits on this thread until no other session is in the middle of its work. None begins any,
    /// since the pool is not awake.
    ///
    /// # Errors
    /// Not ready if one runs code of the program for long: that may wait for this thread, or be its
    /// own.
    pub(crate) fn wait_until_alone(&mut self) -> Result<(), Error> {
        if self.wait_while(|session| session.away > 0, SHORT_CALL, None) {
            return Ok(());
        }
        let why = "a call of the pool is in progress, within a callback or an adaptor of the \
                   program: call this after it";
        Err(Error::not_ready(self.core.name, why))
    }

    /// Waits on this thread while `goes_on`. Returns `false` if it still does when code of the
    /// program has run for the time of `patience`, or at the deadline.
    fn wait_while(
        &mut self,
        goes_on: impl Fn(&Self) -> bool,
        patience: Duration,
        deadline: Option<Instant>,
    ) -> bool {
        let mut gives_up_at = None;
        while goes_on(self) {
            if self.in_program == 0 {
                gives_up_at = None;
            } else {
                gives_up_at = gives_up_at.or_else(|| Some(Instant::now() + patience));
            }
            let Some(end) = gives_up_at.into_iter().chain(deadline).min() else {
                self.wait_once();
                continue;
            };
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            self.wait_at_most(left);
        }
        true
    }

    /// Waits for the signal that a call to upstream has ended.
    fn wait_once(&mut self) {
        fork::check_wait();
        let state = self.state.take().expect("the lock is held between the calls of a session");
        let state = self.core.settled.wait(state).unwrap_or_else(PoisonError::into_inner);
        self.state = Some(state);
    }

    /// Waits for the signal that a call to upstream has ended, but no longer than `time`.
    fn wait_at_most(&mut self, time: Duration) {
        fork::check_wait();
        let state = self.state.take().expect("the lock is held between the calls of a session");
        let waited = self.core.settled.wait_timeout(state, time);
        self.state = Some(waited.unwrap_or_else(PoisonError::into_inner).0);
    }

    /// Calls upstream for `bytes`, which count as pending meanwhile.
    ///
    /// # Errors
    /// What upstream panicked with.
    pub(crate) fn ask_upstream<T>(
        &mut self,
        bytes: u64,
        call: impl FnOnce() -> T,
    ) -> Result<T, Panic> {
        self.pending += bytes;
        let outcome = self.call_upstream(call);
        self.pending -= bytes;
        self.note_end_of_call();
        outcome
    }

    /// Calls upstream to release memory.
    ///
    /// # Errors
    /// What upstream panicked with.
    pub(crate) fn release_to_upstream<T>(&mut self, call: impl FnOnce() -> T) -> Result<T, Panic> {
        self.releasing += 1;
        let outcome = self.call_upstream(call);
        self.releasing -= 1;
        self.note_end_of_call();
        outcome
    }

    fn call_upstream<T>(&mut self, call: impl FnOnce() -> T) -> Result<T, Panic> {
        wait::about_to_wait();
        match self.core.upstream_code {
            UpstreamCode::Library => self.unlocked(call),
            UpstreamCode::Program => self.unlocked(|| in_program(call)),
        }
    }

    fn note_end_of_call(&mut self) {
        self.settled += 1;
        self.calls += 1;
        self.core.settled.notify_all();
    }

    /// Whether this session has called upstream.
    pub(crate) fn has_called(&self) -> bool {
        self.calls > 0
    }

    /// How many calls to upstream of other sessions have ended so far.
    pub(crate) fn settled_of_others(&self) -> u64 {
        self.settled - self.calls
    }

    /// Waits on this thread until a call to upstream of another session has ended since `settled`
    /// of them had, if one is in progress. Returns `false` if one that runs code of the program for
    /// long is all that is left: that may wait for this thread, or be its own. Also if the thread's
    /// effort does not allow the wait, or not for so long.
    pub(crate) fn wait_for_others(&mut self, settled: u64) -> bool {
        let effort = Effort::current();
        let patience = if is_in_program() { Duration::ZERO } else { SHORT_CALL };
        let is_unsettled =
            |session: &Self| session.settled_of_others() == settled && session.others_call();
        if !effort.may_wait() {
            return !is_unsettled(self);
        }
        self.away += 1;
        let has_waited = self.wait_while(is_unsettled, patience, effort.deadline());
        self.come_back();
        has_waited
    }

    /// Lets go of the lock and of the list. Nothing of the request is under way then: the pool may
    /// fall asleep.
    pub(crate) fn step_out(&mut self) {
        fork::check_wait();
        self.unpin();
        self.state = None;
    }

    /// Takes the lock again, if that needs no wait. Returns whether it is held.
    pub(crate) fn step_in(&mut self) -> bool {
        self.state = self.core.state.lock_soon();
        self.is_locked()
    }

    /// Waits on this thread until the device has completed all work. Then everything freed before
    /// is idle.
    pub(crate) fn wait_for_device(&mut self) {
        // If it fails nothing is known to be idle, and the request goes on to its next step.
        let _ignored = self.try_wait_for_device();
    }

    /// Waits on this thread until the device has completed all work.
    ///
    /// # Errors
    /// The driver's, or one that says that a capture is announced by now: then nothing is known.
    pub(crate) fn try_wait_for_device(&mut self) -> Result<(), Error> {
        let cut = self.cut();
        self.statistics.host_waits += 1;
        let name = self.core.name;
        let wait = || {
            CaptureScope::unless_announced(Device::synchronize_current).unwrap_or_else(|| {
                let why = "a capture has begun, which a wait for the device would invalidate";
                Err(Error::unsupported(name, why))
            })
        };
        let waited = self.unlocked(|| trace::waiting(name, wait));
        // A subscriber of the program may panic.
        waited.unwrap_or_else(|panic| resume_unwind(panic))?;
        self.timeline.finish_cut(&cut);
        self.reclaim_completed();
        Ok(())
    }
}

impl Deref for Session<'_> {
    type Target = PoolState;

    fn deref(&self) -> &PoolState {
        self.state.as_deref().expect("the lock is held between the calls of a session")
    }
}

impl DerefMut for Session<'_> {
    fn deref_mut(&mut self) -> &mut PoolState {
        self.state.as_deref_mut().expect("the lock is held between the calls of a session")
    }
}
