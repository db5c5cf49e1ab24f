//! The slow path of an allocation: twelve steps, each of which costs more than the one before.
//!
//! 0. [`grow_before_flush`](Ladder::grow_before_flush): over virtual memory, flush large cached
//!    blocks only, and try steps 1 to 4 while the pool stays within what it retains
//! 1. [`take_free`](Ladder::take_free): the stream's own free list, idle blocks, blocks of other
//!    streams whose last use the stream is already ordered after
//! 2. [`poll`](Ladder::poll): ask the driver which events of a few streams are complete; the legacy
//!    default stream gets what was freed on it under its other identity
//! 3. [`coalesce`](Ladder::coalesce): merge free neighbours of several streams
//! 4. [`grow_to_soft_limit`](Ladder::grow_to_soft_limit)
//! 5. [`wait_on_stream`](Ladder::wait_on_stream): `cuStreamWaitEvent`, never the host
//! 6. [`grow_to_hard_limit`](Ladder::grow_to_hard_limit)
//! 7. [`release_idle`](Ladder::release_idle): before siblings, the pool itself releases idle memory
//! 8. [`ask_for_idle`](Ladder::ask_for_idle): siblings release idle memory
//! 9. [`wait_on_host`](Ladder::wait_on_host): wait for the device
//! 10. [`release_idle_and_grow`](Ladder::release_idle_and_grow)
//! 11. [`ask_to_wait`](Ladder::ask_to_wait): siblings wait for the device, and release memory
//! 12. an error that says [what ran short](Shortage)
//!
//! A request of limited [effort](rmm_core::Effort) leaves some of them out: without growth 0, 4,
//! 6 to 8, 10 and 11; without a wait of the host 7 to 11. With a deadline none begins after it, and
//! the wait of the host ends with it.
//!
//! Growth and waits on the host cost more than to ask about all streams, so they come after that:
//! [`poll_rest`](Ladder::poll_rest). `docs/architecture.md` has the table. Siblings are the other
//! suballocators that draw on the same memory ([`relief`](super::relief)).

use std::cmp::Reverse;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use rmm_core::siblings::{AskedFor, Asking, Unasked};
use rmm_core::{CudaStream, Effort, Error, RelaxedCapture, StreamRef};

use super::outlook;
use super::pressure::{self, Pressure};
use super::refusal::{Refusal, Shortage};
use super::relief::Scarce;
use crate::suballocators::pool::heap::NodeId;
use crate::suballocators::pool::state::probe::Polling;
use crate::suballocators::pool::state::session::{MAX_RETRIES, Request, Session};
use crate::suballocators::pool::values::units::ListId;

pub(crate) mod deadline;
#[cfg(all(test, not(rmm_loom)))]
mod tests;

/// Of how many streams a request compares the free memory before it makes its stream wait for one.
const LOOKED_AT: usize = 32;

/// Serves a request that no free block serves.
///
/// # Errors
/// Out of memory after all steps; or an error of the driver or upstream.
#[cold]
pub(crate) fn allocate_slow(
    session: &mut Session<'_>,
    request: Request<'_>,
) -> Result<NodeId, Error> {
    let core = session.core;
    // More may be held than the limit, if that was lowered.
    if request.size > core.hard_limit().max(session.heap.reserved()) {
        let shortage = Shortage::of(session, request, None, false);
        return Err(shortage.into_error(core, request, None));
    }
    let _context = core.context.enter()?;
    let _relaxed = RelaxedCapture::enter();
    session.statistics.slow_allocations += 1;
    session.is_hurried = Effort::current().deadline().is_some_and(deadline::is_near);
    session.pause_spans();
    // The lock is released now and then: the list must stay the stream's until the last call to
    // upstream has returned or panicked.
    session.pin(request.list);
    let outcome = catch_unwind(AssertUnwindSafe(|| climb_under_pressure(session, request)));
    if !session.is_locked() {
        // Refused at its deadline.
        return outcome.unwrap_or_else(|panic| resume_unwind(panic));
    }
    session.unpin();
    if session.has_called() {
        core.caches.note_shortage(session.operations());
    }
    if session.heap.is_of_several_streams() && session.has_called() {
        session.reclaim_turns.begin();
    }
    let outcome = outcome.unwrap_or_else(|panic| resume_unwind(panic));
    outcome.map_err(|error| {
        let operations = session.operations();
        session.contention.note_refusal(operations);
        explained(session, error)
    })
}

/// The error, with who holds the memory of a device that is full, if the request is the program's,
/// or that of an adaptor which asks others itself. Not if it was of limited effort: the driver is
/// asked, for which threads wait for each other.
#[cold]
fn explained(session: &mut Session<'_>, error: Error) -> Error {
    if Effort::current() != Effort::Full {
        return error;
    }
    if !Asking::begin().is_outermost() && !Unasked::is_wanted() {
        return error;
    }
    let siblings = &session.core.siblings;
    session.unlocked(|| siblings.explain(error)).unwrap_or_else(|panic| resume_unwind(panic))
}

/// Climbs, and climbs again after each callback of the program that has freed memory.
fn climb_under_pressure(session: &mut Session<'_>, request: Request<'_>) -> Result<NodeId, Error> {
    let asking = Asking::begin();
    let may_ask = asking.is_outermost();
    let mut outcome = climb_until_settled(session, request, may_ask);
    // What a callback allocates itself may ask siblings, too.
    drop(asking);
    if !session.is_locked() {
        return outcome;
    }
    if !may_ask {
        if let Err(error) = &outcome
            && error.is_out_of_memory()
            && Unasked::is_wanted()
        {
            session.leave_unasked(request, error);
        }
        return outcome;
    }
    for callback in session.core.pressure.all() {
        if !Effort::current().may_wait() {
            break;
        }
        let Some(error) = outcome.as_ref().err().filter(|error| error.is_out_of_memory()) else {
            break;
        };
        let pressure = Pressure::on(session, request, error);
        let freed = session.outside(|| pressure::call(&*callback, &pressure));
        if freed.unwrap_or_else(|panic| resume_unwind(panic)) {
            session.phase.check_awake(session.core.name)?;
            let _asking = Asking::begin();
            outcome = climb_until_settled(session, request, may_ask);
            if !session.is_locked() {
                break;
            }
        }
    }
    outcome
}

/// Climbs, and climbs again while calls of other threads to upstream may have changed the outcome.
fn climb_until_settled(
    session: &mut Session<'_>,
    request: Request<'_>,
    may_ask: bool,
) -> Result<NodeId, Error> {
    let core = session.core;
    let effort = Effort::current();
    let mut retries = 0;
    loop {
        let settled = session.settled_of_others();
        let mut ladder = Ladder::new(session, request, may_ask);
        if let Some(node) = ladder.climb() {
            return Ok(node);
        }
        let error = ladder.upstream_error.take();
        if let Some(refusal) = ladder.refusal.take() {
            return Err(match refusal {
                Refusal::OutOfTime(shortage) => shortage.into_error(core, request, error),
                Refusal::Error(error) => error,
            });
        }
        let limit = core.hard_limit();
        let needed = outlook::least_needed(core, session, request);
        let reserved = session.heap.reserved();
        let fits_but_for_others = reserved.saturating_add(needed) <= limit
            && (reserved + session.pending).saturating_add(needed) > limit;
        // After calls of its own a request climbs once more: other threads may have left room that
        // was of no use to them.
        let is_first = retries == 0 && session.has_called();
        let has_changed = session.settled_of_others() != settled || is_first;
        // If upstream was not even asked, other threads' calls decide, unless they run code of the
        // program. If it refused, they are no reason to ask for ever.
        let others_decide = error.is_none()
            && fits_but_for_others
            && session.others_call()
            && session.in_program == 0
            && effort.may_wait();
        retries += u32::from(!others_decide);
        let may_succeed = retries <= MAX_RETRIES && (session.others_call() || has_changed);
        if !may_succeed || !session.wait_for_others(settled) {
            let is_full = effort == Effort::Full;
            let names_siblings = is_full && (may_ask || Unasked::is_wanted());
            let shortage = Shortage::of(session, request, error.as_ref(), names_siblings);
            return Err(shortage.into_error(core, request, error));
        }
    }
}

/// A request on its way through the steps.
struct Ladder<'l, 'p> {
    session: &'l mut Session<'p>,
    request: Request<'l>,
    /// Upstream's error, if it refused.
    upstream_error: Option<Error>,
    /// Whether the block could span memory that is added and memory that other streams freed, for
    /// which the stream has to wait.
    extends_by_waiting: bool,
    /// Whether all streams were polled.
    has_polled_all: bool,
    /// Whether siblings may be asked: not within the request of a resource above.
    may_ask: bool,
    /// How far the request may go.
    effort: Effort,
    /// Why no further step is taken, once that is so. The lock may not be held then.
    refusal: Option<Refusal>,
}

impl<'l, 'p> Ladder<'l, 'p> {
    fn new(session: &'l mut Session<'p>, request: Request<'l>, may_ask: bool) -> Self {
        Self {
            session,
            request,
            upstream_error: None,
            extends_by_waiting: false,
            has_polled_all: false,
            may_ask,
            effort: Effort::current(),
            refusal: None,
        }
    }

    /// All steps in their order, until one has a block.
    fn climb(&mut self) -> Option<NodeId> {
        if let Some(node) = self.grow_before_flush() {
            return Some(node);
        }
        self.session.flush_caches();
        let peak = self.session.peak_with(self.request.size);
        let node = self.climb_flushed()?;
        self.session.note_program_peak(peak);
        Some(node)
    }

    /// The steps after a flush of the caches.
    fn climb_flushed(&mut self) -> Option<NodeId> {
        self.take_free()
            .or_else(|| self.after_pause(Self::poll))
            .or_else(|| self.after_pause(Self::coalesce))
            .or_else(|| self.after_pause(Self::grow_to_soft_limit))
            .or_else(|| self.after_pause(Self::wait_on_stream))
            .or_else(|| self.after_pause(Self::grow_to_hard_limit))
            .or_else(|| self.after_pause(Self::release_idle))
            .or_else(|| self.after_pause(Self::ask_for_idle))
            .or_else(|| self.after_pause(Self::wait_on_host))
            .or_else(|| self.after_pause(Self::release_idle_and_grow))
            .or_else(|| self.after_pause(Self::ask_to_wait))
    }

    /// Small cached blocks cost a lock each to refill, and seldom make room for a large
    /// request. While growth stays within what the pool retains, it grows instead of flushing them.
    fn grow_before_flush(&mut self) -> Option<NodeId> {
        if !self.may_grow_unflushed() {
            return None;
        }
        let core = self.session.core;
        core.flush_large_blocks_and_spans(self.session);
        self.take_free()
            .or_else(|| self.after_pause(Self::poll))
            .or_else(|| self.after_pause(Self::coalesce))
            .or_else(|| {
                // Others may have grown the pool meanwhile.
                self.session.pause();
                if self.may_grow_unflushed() { self.grow_to_soft_limit() } else { None }
            })
    }

    /// Whether growth leaves the pool with no more than it retains, whatever caches hold.
    fn may_grow_unflushed(&self) -> bool {
        let (core, session) = (self.session.core, &*self.session);
        if !core.caches.follows_demand() || !self.effort.may_grow() {
            return false;
        }
        let cached = core.caches.granted() + session.transfer.bytes();
        let peak = session.peak_beside(cached, self.request.size);
        let kept = core.retain_target_extendable(peak, session.pace());
        let more = core.growth.whole_pages(self.request.size);
        let held = (session.heap.reserved() + session.pending).saturating_add(more);
        held <= kept.min(core.soft_limit()).min(core.hard_limit())
    }

    /// Takes a step, before which threads that wait for the lock have it: with many blocks each
    /// takes long.
    fn after_pause(&mut self, step: impl FnOnce(&mut Self) -> Option<NodeId>) -> Option<NodeId> {
        if self.refusal.is_some() {
            return None;
        }
        self.session.pause();
        step(self)
    }

    /// Takes a block of the stream's own free list, else an idle block, else a block of
    /// another stream that this one is ordered after.
    fn take_free(&mut self) -> Option<NodeId> {
        self.session.take_free(self.request.list, self.request.size)
    }

    /// Asks the driver which events of other streams are complete, and looks again. Stops
    /// after a few streams that lag behind: a pool that is full makes the stream wait for one.
    fn poll(&mut self) -> Option<NodeId> {
        self.poll_with(Polling::Bounded).or_else(|| self.wait_on_own_stream())
    }

    /// Takes what was freed on the legacy default stream under its other identity, after an event
    /// on it. Both are one stream, so its wait for the event delays nothing.
    fn wait_on_own_stream(&mut self) -> Option<NodeId> {
        let stream = self.request.stream.filter(|stream| stream.is_default())?;
        let identities = [StreamRef::legacy(), StreamRef::legacy_of_own_work()];
        let other = identities.into_iter().find(|other| other.id() != stream.id())?;
        let list = self.session.timeline.find(other.id())?;
        // SAFETY: the legacy default stream always exists.
        if unsafe { CudaStream::may_be_capturing_raw(stream.as_raw()) } {
            return None;
        }
        self.wait_for_one(stream, vec![list], Polling::Bounded)
    }

    /// Asks about all streams, if `poll` has not, and looks again.
    fn poll_rest(&mut self) -> Option<NodeId> {
        if self.has_polled_all {
            return None;
        }
        self.poll_with(Polling::Full).or_else(|| self.coalesce())
    }

    fn poll_with(&mut self, effort: Polling) -> Option<NodeId> {
        let Request { list, size, .. } = self.request;
        let (node, is_all) = self.session.poll_for(list, size, effort);
        self.has_polled_all = is_all;
        node
    }

    /// Merges free neighbours of several lists, all of which the stream may use.
    fn coalesce(&mut self) -> Option<NodeId> {
        self.session.take_coalesced(self.request.list, self.request.size)
    }

    /// Asks upstream for memory up to the soft limit. If growth would leave the pool with
    /// much more than the program has ever used, idle upstream blocks are released first.
    fn grow_to_soft_limit(&mut self) -> Option<NodeId> {
        if !self.effort.may_grow() {
            return None;
        }
        let soft_limit = self.session.core.soft_limit();
        if let Some(node) = self.poll_before_growth(soft_limit) {
            return Some(node);
        }
        self.session.release_surplus(self.request);
        match self.session.grow(self.request, soft_limit) {
            Ok(node) => Some(node),
            Err(error) => {
                self.upstream_error = error;
                None
            }
        }
    }

    /// Asks about all streams if the pool may grow otherwise.
    fn poll_before_growth(&mut self, limit: u64) -> Option<NodeId> {
        let may_grow = outlook::may_grow(self.session.core, self.session, self.request, limit);
        if may_grow { self.poll_rest() } else { None }
    }

    /// Makes the stream wait for another, or for several whose blocks are neighbours. If
    /// that lets it extend memory it waits for all: the block may span what they freed and what is
    /// added.
    fn wait_on_stream(&mut self) -> Option<NodeId> {
        if self.may_extend_by_waiting()
            && let Some(node) = self.poll_rest()
        {
            return Some(node);
        }
        self.extends_by_waiting = self.effort.may_grow() && self.may_extend_by_waiting();
        let stream = self.request.stream?;
        // SAFETY: the stream is borrowed.
        if unsafe { CudaStream::may_be_capturing_raw(stream.as_raw()) } {
            return None;
        }
        // If memory is spread over many streams, a few of them are enough.
        let (few, are_all) = self.some_others();
        let mut node = self.wait_for_one(stream, few, Polling::Bounded);
        if !are_all {
            node = node.or_else(|| self.wait_for_one(stream, self.others(), Polling::Bounded));
        }
        node.or_else(|| self.wait_for_one(stream, self.others(), Polling::Full))
            .or_else(|| self.wait_for_neighbours(stream))
    }

    /// Whether the stream could extend memory if it waited for others. Then the pool grows.
    fn may_extend_by_waiting(&self) -> bool {
        let session = &*self.session;
        outlook::extends_by_waiting(session.core, session, self.request)
    }

    /// All other lists that hold blocks.
    fn others(&self) -> Vec<ListId> {
        let own = self.request.list;
        self.session.heap.occupied().filter(|&other| other != own).collect()
    }

    /// Some other lists that hold blocks, others each time; and whether they are all.
    fn some_others(&mut self) -> (Vec<ListId>, bool) {
        let mut some: Vec<ListId> = Vec::with_capacity(LOOKED_AT);
        let mut next = 0;
        while let Some(other) = self.session.heap.next_occupied(&mut next) {
            if other == self.request.list {
                continue;
            }
            if some.len() == LOOKED_AT {
                return (some, false);
            }
            some.push(other);
        }
        (some, true)
    }

    /// Makes the stream wait for the one of `others` with the most free memory that has a block.
    fn wait_for_one(
        &mut self,
        stream: StreamRef<'_>,
        mut others: Vec<ListId>,
        effort: Polling,
    ) -> Option<NodeId> {
        let Request { list, size, .. } = self.request;
        let session = &mut *self.session;
        others.sort_by_key(|&other| (Reverse(session.heap.free_bytes(other)), other.index()));
        for other in others {
            let Some((node, point)) = session.heap.fit(other, size) else { continue };
            if !self.has_polled_all {
                // It may be complete by now.
                session.poll(other);
            }
            if session.order_after(list, stream, other, point, effort) {
                return Some(session.heap.make_live(node, size));
            }
        }
        None
    }

    /// Makes the stream wait for all owners of a run of free neighbours that is long enough.
    fn wait_for_neighbours(&mut self, stream: StreamRef<'_>) -> Option<NodeId> {
        let Request { list, size, .. } = self.request;
        let session = &mut *self.session;
        if !self.extends_by_waiting {
            let owners = session.heap.owners_of_run(size)?;
            for (other, point) in owners.into_iter().filter(|&(other, _)| other != list) {
                session.order_after(list, stream, other, point, Polling::Full);
            }
            if let Some(node) = session.take_coalesced(list, size) {
                return Some(node);
            }
        }
        // Where one cannot be waited for, another run may do; and a block that is extended may span
        // the memory of any of them.
        for other in self.others() {
            let newest = self.session.timeline.newest(other);
            self.session.order_after(list, stream, other, newest, Polling::Full);
        }
        self.session.take_coalesced(list, size)
    }

    /// Asks upstream for memory up to the hard limit.
    fn grow_to_hard_limit(&mut self) -> Option<NodeId> {
        let core = self.session.core;
        let hard_limit = core.hard_limit();
        if !self.effort.may_grow() || !self.extends_by_waiting && core.soft_limit() >= hard_limit {
            return None;
        }
        if let Some(node) = self.poll_before_growth(hard_limit) {
            return Some(node);
        }
        let grown = self.session.grow(self.request, hard_limit);
        self.served(grown)
    }

    /// The block, or notes upstream's error.
    fn served(&mut self, outcome: Result<NodeId, Option<Error>>) -> Option<NodeId> {
        match outcome {
            Ok(node) => Some(node),
            Err(error) => {
                self.upstream_error = error.or(self.upstream_error.take());
                None
            }
        }
    }

    /// If siblings would be asked for idle memory next, releases the pool's own first. A
    /// pool without siblings does so after the wait of the host.
    fn release_idle(&mut self) -> Option<NodeId> {
        let has_siblings = |scarce: Scarce| self.session.core.siblings.has_others(scarce.limit());
        let is_refused = self.upstream_error.is_some();
        if is_refused && self.scarce().is_some_and(has_siblings) {
            self.release_idle_and_grow()
        } else {
            None
        }
    }

    /// Asks siblings for idle memory, until the request is served.
    fn ask_for_idle(&mut self) -> Option<NodeId> {
        self.ask_siblings(AskedFor::Idle)
    }

    /// Asks siblings to wait for the device and for all memory that is idle then. Does
    /// nothing if a stream may be under capture.
    fn ask_to_wait(&mut self) -> Option<NodeId> {
        self.ask_siblings(AskedFor::Wait)
    }

    fn ask_siblings(&mut self, asked_for: AskedFor) -> Option<NodeId> {
        let scarce = self.scarce()?;
        let outcome = self.session.ask_siblings(self.request, scarce, asked_for);
        self.served(outcome)
    }

    /// What has refused the request, if siblings may be asked.
    fn scarce(&self) -> Option<Scarce> {
        if !self.may_ask || !self.effort.may_wait() {
            return None;
        }
        match &self.upstream_error {
            Some(error) if !error.is_out_of_memory() => None,
            Some(error) => Some(error.limit_id().map_or(Scarce::Memory, Scarce::Within)),
            // The pool's own limit: pools over this one can help.
            None => Some(Scarce::Within(self.session.core.siblings.id())),
        }
    }

    /// Waits on this thread until the device has completed all work, after which all free
    /// memory is idle and coalesced. Does nothing if that cannot help, or if a stream may be under
    /// capture: the wait would invalidate the capture.
    fn wait_on_host(&mut self) -> Option<NodeId> {
        let Request { list, size, .. } = self.request;
        let core = self.session.core;
        if let Some(node) = self.poll_rest() {
            return Some(node);
        }
        let may_grow = self.effort.may_grow();
        let can_merge = self.session.heap.has_free_run(size)
            || may_grow && outlook::could_extend(core, self.session, self.request, |_, _| true);
        let can_release = may_grow
            && self.session.heap.idle_bytes() > 0
            && outlook::could_grow_without_idle(core, self.session, self.request);
        let helps = can_merge || can_release;
        if !helps || !self.effort.may_wait() || !self.session.may_wait_for_device() {
            return None;
        }
        let Some(deadline) = self.effort.deadline() else {
            self.session.wait_for_device();
            return self.session.take_free_or_coalesced(list, size);
        };
        self.poll_until(deadline)
    }

    /// Releases every idle upstream block and asks for one that is large enough.
    fn release_idle_and_grow(&mut self) -> Option<NodeId> {
        // The driver may wait for the device before it takes memory back.
        if !self.effort.may_wait() || !self.effort.may_grow() {
            return None;
        }
        let outcome = self.session.release_idle_and_grow(self.request);
        self.served(outcome)
    }
}
