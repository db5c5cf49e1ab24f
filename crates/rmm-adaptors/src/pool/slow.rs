//! The steps of an allocation that cost a driver call, in their order: polling, growth to the soft
//! limit, a wait on the stream, growth to the hard limit, a wait on the host, giving back.

use std::alloc::Layout;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{MutexGuard, PoisonError};

use rmm_core::{
    CUDA_ALLOCATION_ALIGNMENT, CudaStream, Device, Error, RelaxedCapture, StreamRef, SyncResource,
};

use super::core::PoolCore;
use super::extend::Keep;
use super::heap::{ListId, NodeId, Point};
use super::state::{PoolState, UpstreamBlock, give_back_all};
use crate::trace;

#[cfg(all(test, not(rmm_loom)))]
mod tests;

/// How often a request is tried again because other threads' calls to upstream have ended
/// meanwhile. They may have left something over, or freed it in turn; a limit keeps threads from
/// waking each other for ever.
pub(super) const RETRIES: u32 = 4;

/// A request on its way through the steps.
#[derive(Clone, Copy)]
pub(super) struct Request<'a> {
    pub(super) upstream: &'a dyn SyncResource,
    /// The stream whose work will use the memory; `None` if anybody may, at once.
    pub(super) stream: Option<StreamRef<'a>>,
    /// The stream's list, or the clean one.
    pub(super) list: ListId,
    pub(super) layout: Layout,
    /// Bytes, a multiple of the granule, with room for the alignment.
    pub(super) size: u64,
    /// Its own calls to upstream that have ended, as [`UpstreamCall`] counts them.
    pub(super) calls: &'a Cell<u64>,
}

/// The block, or why there is none, with the lock that was held.
pub(super) type Outcome<'s, E> = (MutexGuard<'s, PoolState>, Result<NodeId, E>);

/// A call to upstream under way, with the lock released: counted for the others, and for the
/// request that makes it, whatever becomes of it.
pub(super) struct UpstreamCall<'s, 'r> {
    shared: &'s PoolCore,
    pending: u64,
    returning: u32,
    /// The calls of the request that makes it, if one does.
    calls: Option<&'r Cell<u64>>,
}

impl<'s, 'r> UpstreamCall<'s, 'r> {
    /// A request asks for `bytes`.
    pub(super) fn asking(
        shared: &'s PoolCore,
        mut state: MutexGuard<'s, PoolState>,
        request: Request<'r>,
        bytes: u64,
    ) -> Self {
        state.pending += bytes;
        drop(state);
        Self { shared, pending: bytes, returning: 0, calls: Some(request.calls) }
    }

    /// Memory goes back, for a request that makes these calls or for none.
    fn returning(
        shared: &'s PoolCore,
        mut state: MutexGuard<'s, PoolState>,
        calls: Option<&'r Cell<u64>>,
    ) -> Self {
        state.returning += 1;
        drop(state);
        Self { shared, pending: 0, returning: 1, calls }
    }

    /// Takes the lock again and ends the call in one step.
    pub(super) fn settle(mut self) -> MutexGuard<'s, PoolState> {
        let mut state = self.shared.lock();
        self.end(&mut state);
        state
    }

    fn end(&mut self, state: &mut PoolState) {
        state.pending -= std::mem::take(&mut self.pending);
        state.returning -= std::mem::take(&mut self.returning);
        state.settled += 1;
        if let Some(calls) = self.calls {
            calls.set(calls.get() + 1);
        }
        self.shared.settled.notify_all();
    }
}

impl Drop for UpstreamCall<'_, '_> {
    fn drop(&mut self) {
        if self.pending > 0 || self.returning > 0 {
            // Upstream has panicked.
            let mut state = self.shared.lock();
            self.end(&mut state);
        }
    }
}

impl PoolCore {
    #[cold]
    pub(super) fn allocate_slowly<'s>(
        &'s self,
        mut state: MutexGuard<'s, PoolState>,
        request: Request<'_>,
    ) -> Outcome<'s, Error> {
        if request.size > self.growth.hard_limit {
            let error = self.exhausted(&state, request, None);
            return (state, Err(error));
        }
        let _context = match self.context.enter() {
            Ok(context) => context,
            Err(error) => return (state, Err(error)),
        };
        let _relaxed = RelaxedCapture::enter();
        state.statistics.slow_allocations += 1;
        // The lock is released now and then: the list must stay the stream's, until upstream's last
        // call has returned or panicked.
        state.timeline.pin(request.list);
        let steps = catch_unwind(AssertUnwindSafe(|| self.try_steps(state, request)));
        match steps {
            Ok((mut state, outcome)) => {
                state.timeline.unpin(request.list);
                (state, outcome)
            }
            Err(panic) => {
                self.lock().timeline.unpin(request.list);
                resume_unwind(panic)
            }
        }
    }

    fn try_steps<'s>(
        &'s self,
        mut state: MutexGuard<'s, PoolState>,
        request: Request<'_>,
    ) -> Outcome<'s, Error> {
        let mut retries = 0;
        loop {
            // Calls of others that have ended so far.
            let others = |state: &PoolState| state.settled - request.calls.get();
            let settled = others(&state);
            let (guard, outcome) = self.steps(state, request);
            state = guard;
            let error = match outcome {
                Ok(node) => return (state, Ok(node)),
                Err(error) => error,
            };
            let limit = self.growth.hard_limit;
            let needed = self.least_needed(&state, request);
            let fits_but_for_others = state.heap.reserved().saturating_add(needed) <= limit
                && (state.heap.reserved() + state.pending).saturating_add(needed) > limit;
            let others_are_underway = state.others_call();
            // After calls of its own it looks once more: they may have given room that was no use
            // to them.
            let is_first = retries == 0 && request.calls.get() > 0;
            let has_changed = others(&state) != settled || is_first;
            // Where upstream was not even asked others' calls decide. Where it refused, these are
            // no reason to ask for ever.
            if error.is_some() || !fits_but_for_others {
                retries += 1;
                if retries > RETRIES || !(others_are_underway || has_changed) {
                    let error = self.exhausted(&state, request, error);
                    return (state, Err(error));
                }
            }
            state = self.wait_for_others(state, settled + request.calls.get());
        }
    }

    /// Waits on this thread until a call to upstream has ended since so many had, if one is under
    /// way.
    pub(super) fn wait_for_others<'s>(
        &'s self,
        mut state: MutexGuard<'s, PoolState>,
        settled: u64,
    ) -> MutexGuard<'s, PoolState> {
        while state.settled == settled && state.others_call() {
            state = self.settled.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state
    }

    /// All steps once. The error is upstream's, if there was one.
    fn steps<'s>(
        &'s self,
        mut state: MutexGuard<'s, PoolState>,
        request: Request<'_>,
    ) -> Outcome<'s, Option<Error>> {
        let Request { list, size, .. } = request;
        self.flush_caches(&mut state);
        if let Some(node) = state.take_free(list, size) {
            return (state, Ok(node));
        }
        Self::poll_others(&mut state, list);
        state.reclaim_completed();
        if let Some(node) = state.take_free_or_coalesced(list, size) {
            return (state, Ok(node));
        }
        state = self.give_back_surplus(state, request);
        let (guard, grown) = self.grow(state, request, self.growth.soft_limit);
        state = guard;
        let soft_error = match grown {
            Ok(node) => return (state, Ok(node)),
            Err(error) => error,
        };
        let extends_by_waiting = self.extends_by_waiting(&state, request);
        if let Some(node) = Self::take_by_waiting(&mut state, request, extends_by_waiting) {
            return (state, Ok(node));
        }
        if extends_by_waiting || self.growth.soft_limit < self.growth.hard_limit {
            let (guard, grown) = self.grow(state, request, self.growth.hard_limit);
            state = guard;
            if let Ok(node) = grown {
                return (state, Ok(node));
            }
        }
        let (guard, taken) = self.take_after_device_wait(state, request);
        state = guard;
        if let Some(node) = taken {
            return (state, Ok(node));
        }
        let (state, grown) = self.give_back_and_grow(state, request);
        (state, grown.map_err(|error| error.or(soft_error)))
    }

    /// Gives unused pieces back if growth would leave the pool with much more than the program has
    /// ever used: a program whose requests grow would otherwise stack up pieces that are each too
    /// small. Never waits for work; what is still in use stays.
    fn give_back_surplus<'s>(
        &'s self,
        state: MutexGuard<'s, PoolState>,
        request: Request<'_>,
    ) -> MutexGuard<'s, PoolState> {
        if self.extendable(request.upstream).is_some() {
            // Later, when it is known how much is missing.
            return state;
        }
        let enough = self.growth.retain_target(state.peak_with(request.size));
        self.make_room(state, request, request.size, enough)
    }

    /// Gives pieces back that nothing uses, until `missing` bytes more would leave the pool with no
    /// more than `most`. Never waits for work.
    pub(super) fn make_room<'s>(
        &'s self,
        mut state: MutexGuard<'s, PoolState>,
        request: Request<'_>,
        missing: u64,
        most: u64,
    ) -> MutexGuard<'s, PoolState> {
        // Requests may be as large as half of what the numbers hold, and several may be under way.
        let held =
            |state: &PoolState| (state.heap.reserved() + state.pending).saturating_add(missing);
        if held(&state) <= most {
            return state;
        }
        // The others' were asked about just now.
        if request.list != ListId::ANY_STREAM {
            Self::poll(&mut state, request.list);
        }
        state.reclaim_completed();
        let mut excess = held(&state) - most;
        let mut pieces = state.heap.unused_pieces();
        let enough = pieces.iter().position(|piece| {
            let is_enough = excess == 0;
            excess = excess.saturating_sub(piece.size);
            is_enough
        });
        pieces.truncate(enough.unwrap_or(pieces.len()));
        let chunks = state.remove_pieces(pieces);
        self.give_back_for(request, state, &chunks)
    }

    /// Asks upstream for more, with the lock released meanwhile, and takes the block out of it.
    /// `None` as the error means that the limit leaves no room.
    fn grow<'s>(
        &'s self,
        mut state: MutexGuard<'s, PoolState>,
        request: Request<'_>,
        limit: u64,
    ) -> Outcome<'s, Option<Error>> {
        let extendable = self.extendable(request.upstream);
        if let Some(upstream) = extendable {
            let (guard, extended) = self.extend(state, upstream, request, (limit, Keep::PeakUse));
            state = guard;
            if !matches!(extended, Err(None)) {
                return (state, extended);
            }
        }
        let held = state.heap.reserved() + state.pending;
        let page = extendable.map(|upstream| upstream.page_size() as u64);
        let pages = page.and_then(|page| self.growth.extension(held, request.size, limit, page));
        let chunk = pages.or_else(|| self.growth.chunk_size(held, request.size, limit));
        let Some(mut bytes) = chunk else { return (state, Err(None)) };
        loop {
            let layout = usize::try_from(bytes)
                .ok()
                .and_then(|bytes| Layout::from_size_align(bytes, CUDA_ALLOCATION_ALIGNMENT).ok());
            let Some(layout) = layout else { return (state, Err(None)) };
            let underway = UpstreamCall::asking(self, state, request, bytes);
            let grown = self.allocate_extent(request.upstream, layout);
            state = underway.settle();
            match grown {
                Ok(extent) => {
                    self.add_extent(&mut state, request.upstream, &extent);
                    let taken = state.take_free(request.list, request.size);
                    return (state, taken.ok_or(None));
                }
                Err(error) if !error.is_out_of_memory() => return (state, Err(Some(error))),
                // Upstream has less than a step: then only what is needed.
                Err(_) if bytes > request.size => bytes = request.size,
                Err(error) => return (state, Err(Some(error))),
            }
        }
    }

    /// Makes the stream wait for others, those with the most free memory first, until it gets a
    /// block. If that lets it extend memory it is made to wait for all of them: the block may lie
    /// in what they freed and what is added.
    fn take_by_waiting(
        state: &mut PoolState,
        request: Request<'_>,
        extends: bool,
    ) -> Option<NodeId> {
        let stream = request.stream?;
        // SAFETY: the stream is borrowed.
        if unsafe { CudaStream::may_be_capturing_raw(stream.as_raw()) } {
            return None;
        }
        let mut others: Vec<ListId> =
            state.heap.occupied().filter(|&other| other != request.list).collect();
        others
            .sort_by_key(|&other| (std::cmp::Reverse(state.heap.free_bytes(other)), other.index()));
        for &other in &others {
            if let Some((node, point)) = state.heap.fit(other, request.size)
                && Self::wait_for(state, request.list, stream, other, point)
            {
                return Some(state.heap.make_live(node, request.size));
            }
        }
        // A run of neighbours may be long enough, if the stream waits for all of their owners.
        if !extends && !state.heap.has_free_run(request.size) {
            return None;
        }
        for &other in &others {
            let newest = state.timeline.newest(other);
            Self::wait_for(state, request.list, stream, other, newest);
        }
        state.take_coalesced(request.list, request.size)
    }

    /// Makes the stream with list `list` wait for another's up to `point`. Says whether it is
    /// ordered after it now.
    fn wait_for(
        state: &mut PoolState,
        list: ListId,
        stream: StreamRef<'_>,
        other: ListId,
        point: u64,
    ) -> bool {
        if state.timeline.visible_to(list, other) >= point {
            return true;
        }
        if !state.timeline.is_sealed_up_to(other, point) && Self::seal_late(state, other).is_err() {
            return false;
        }
        let waits = state.timeline.wait(list, other, point, |event| stream.wait(event)).is_ok();
        if waits {
            trace::waited();
        }
        waits
    }

    /// Waits on this thread until the device has done everything, after which all free memory is
    /// clean and merged. Does nothing if that cannot help, or a stream may be captured: the wait
    /// would spoil the capture.
    fn take_after_device_wait<'s>(
        &'s self,
        mut state: MutexGuard<'s, PoolState>,
        request: Request<'_>,
    ) -> (MutexGuard<'s, PoolState>, Option<NodeId>) {
        let can_merge = state.heap.has_free_run(request.size)
            || self.could_extend(&state, request, |_, _| true);
        let can_give_back =
            state.heap.idle_bytes() > 0 && self.could_grow_without_idle(&state, request);
        if !can_merge && !can_give_back || Self::may_capture(&state) {
            return (state, None);
        }
        state = self.wait_for_device(state);
        let taken = state.take_free_or_coalesced(request.list, request.size);
        (state, taken)
    }

    /// Waits on this thread until the device has done everything, with the lock released meanwhile.
    pub(super) fn wait_for_device<'s>(
        &'s self,
        mut state: MutexGuard<'s, PoolState>,
    ) -> MutexGuard<'s, PoolState> {
        let cut = state.cut();
        state.statistics.host_waits += 1;
        drop(state);
        let waited = trace::waiting(self.name, Device::synchronize_current);
        let mut state = self.lock();
        if waited.is_ok() {
            state.timeline.finish_cut(&cut);
            state.reclaim_completed();
        }
        state
    }

    /// The fewest bytes that have to be asked for to serve a request. Where memory can be extended,
    /// free parts of pieces that are in use may be a part of the block, too; not all may be at one
    /// place, so it can be more.
    fn least_needed(&self, state: &PoolState, request: Request<'_>) -> u64 {
        if self.extendable(request.upstream).is_none() {
            return request.size;
        }
        let heap = &state.heap;
        let in_use = heap.reserved().saturating_sub(heap.live()).saturating_sub(heap.idle_bytes());
        request.size.saturating_sub(in_use)
    }

    /// Whether the free memory that `usable` accepts and what the limit allows to be added to it
    /// would make a block, if what is idle elsewhere were given back.
    fn could_extend(
        &self,
        state: &PoolState,
        request: Request<'_>,
        usable: impl Fn(ListId, Point) -> bool,
    ) -> bool {
        let Some(upstream) = self.extendable(request.upstream) else { return false };
        let page = upstream.page_size() as u64;
        let held = state.heap.reserved() + state.pending - state.heap.idle_bytes();
        state.heap.least_missing(request.size, page, usable).is_some_and(|missing| {
            self.growth.extension(held, missing, self.growth.hard_limit, page).is_some()
        })
    }

    /// Whether the block could lie in memory that is added and what others freed, for which there
    /// has to be a wait.
    fn extends_by_waiting(&self, state: &PoolState, request: Request<'_>) -> bool {
        let covered = |other, freed| freed <= state.timeline.visible_to(request.list, other);
        let is_waited_for = |other: ListId| !covered(other, state.timeline.newest(other));
        state.heap.occupied().any(is_waited_for)
            && self.could_extend(state, request, |_, _| true)
            && !self.could_extend(state, request, covered)
    }

    /// Whether the limit would leave room for the request if everything idle were given back.
    pub(super) fn could_grow_without_idle(&self, state: &PoolState, request: Request<'_>) -> bool {
        let held = state.heap.reserved() + state.pending - state.heap.idle_bytes();
        let needed = self.least_needed(state, request);
        self.growth.chunk_size(held, needed, self.growth.hard_limit).is_some()
    }

    /// Gives every unused piece back to upstream and asks for one that is large enough.
    fn give_back_and_grow<'s>(
        &'s self,
        mut state: MutexGuard<'s, PoolState>,
        request: Request<'_>,
    ) -> Outcome<'s, Option<Error>> {
        if let Some(upstream) = self.extendable(request.upstream)
            && self.could_extend(&state, request, |_, _| true)
        {
            // Less than all may be enough.
            let (guard, extended) =
                self.extend(state, upstream, request, (self.growth.hard_limit, Keep::WithinLimit));
            state = guard;
            if extended.is_ok() {
                return (state, extended);
            }
        }
        let unused = state.heap.unused_pieces();
        if unused.is_empty() || !self.could_grow_without_idle(&state, request) {
            return (state, Err(None));
        }
        let chunks = state.remove_pieces(unused);
        let state = self.give_back_for(request, state, &chunks);
        self.grow(state, request, self.growth.hard_limit)
    }

    /// Gives unused pieces back, the largest first, while at least `keep` bytes stay reserved.
    /// Returns the bytes given back.
    pub(super) fn give_back_beyond(
        &self,
        mut state: MutexGuard<'_, PoolState>,
        upstream: &dyn SyncResource,
        keep: u64,
    ) -> u64 {
        let mut reserved = state.heap.reserved();
        let mut pieces = state.heap.unused_pieces();
        pieces.retain(|piece| {
            let goes = reserved - piece.size >= keep;
            reserved -= if goes { piece.size } else { 0 };
            goes
        });
        let chunks = state.remove_pieces(pieces);
        let bytes = chunks.iter().map(|chunk: &UpstreamBlock| chunk.layout.size() as u64).sum();
        drop(self.give_back(state, upstream, &chunks, None));
        bytes
    }

    /// Gives memory back upstream for the sake of a request, with the lock released meanwhile.
    fn give_back_for<'s>(
        &'s self,
        request: Request<'_>,
        state: MutexGuard<'s, PoolState>,
        chunks: &[UpstreamBlock],
    ) -> MutexGuard<'s, PoolState> {
        self.give_back(state, request.upstream, chunks, Some(request.calls))
    }

    /// Gives memory back upstream, with the lock released meanwhile, and counts that as one of a
    /// request's `calls`.
    fn give_back<'s>(
        &'s self,
        state: MutexGuard<'s, PoolState>,
        upstream: &dyn SyncResource,
        chunks: &[UpstreamBlock],
        calls: Option<&Cell<u64>>,
    ) -> MutexGuard<'s, PoolState> {
        if chunks.is_empty() {
            return state;
        }
        let underway = UpstreamCall::returning(self, state, calls);
        let given = give_back_all(chunks.iter().copied(), upstream);
        let state = underway.settle();
        if let Err(panic) = given {
            drop(state);
            resume_unwind(panic);
        }
        state
    }
}
