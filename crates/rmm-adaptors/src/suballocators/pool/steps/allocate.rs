//! An allocation: the thread's cache, else a batch of the transfer cache, else the free lists, else
//! the [ladder](super::ladder).

#![forbid(unsafe_code)]

use std::alloc::Layout;

use rmm_core::{
    AnyResource, CUDA_ALLOCATION_ALIGNMENT, CaptureScope, DevicePtr, Error, RelaxedCapture,
    StreamRef, fork,
};

use super::ladder::allocate_slow;
use crate::shared::trace;
use crate::suballocators::pool::caches::{Class, Take};
use crate::suballocators::pool::heap::NodeId;
use crate::suballocators::pool::state::core::PoolCore;
use crate::suballocators::pool::state::pool_state::PoolState;
use crate::suballocators::pool::state::probe::{asks_captured, is_captured};
use crate::suballocators::pool::state::session::{Request, Session};
use crate::suballocators::pool::values::units::ListId;

/// Bounds the bytes that wait for an event on the legacy default stream to this fraction of the
/// pool. Until then requests split what else is free. With a fourth, a recorded training of GPT-2
/// held 1.73 times its peak over `cudaMalloc` and called the driver 0.03 times an operation; with a
/// sixty-fourth 1.37 times and 0.10.
const WAITING_FRACTION: u64 = 64;

/// The bytes that may wait in a small pool, but at most a quarter of the pool.
const LEAST_WAITING: u64 = 128 << 20;

/// The same where memory can be extended, and is held for its bytes: there, generation of text with
/// GPT-2 held 1.047 times its peak, instead of 1.117 with 128 MiB. The price is twice as many
/// events, one for 73 operations.
const LEAST_WAITING_EXTENDABLE: u64 = 8 << 20;

/// In a pool that [merges first](PoolState::merges_first), requests from this size on do.
const LARGE: u64 = 1 << 20;

impl PoolCore {
    /// Allocates for a stream, or for any.
    #[inline]
    pub(crate) fn allocate(
        &self,
        upstream: &AnyResource<()>,
        stream: Option<StreamRef<'_>>,
        layout: Layout,
    ) -> Result<DevicePtr, Error> {
        let mut taken = Take::NotHere;
        if let Some(stream) = stream
            && self.is_identified(stream)
            && self.in_checked_epoch()
            && let Some(class) = self.small_class(layout)
        {
            taken = self.caches.take_own(stream.id(), class);
            if let Take::Done(address) = taken {
                let pointer = DevicePtr(address);
                self.annotator.allocated(pointer, layout, Some(stream));
                return Ok(pointer);
            }
        }
        self.allocate_missed(upstream, stream, layout, taken)
    }

    /// Allocates where the thread's own cache has no small block. `missed` is its answer.
    #[inline(never)]
    fn allocate_missed(
        &self,
        upstream: &AnyResource<()>,
        stream: Option<StreamRef<'_>>,
        layout: Layout,
        mut missed: Take,
    ) -> Result<DevicePtr, Error> {
        fork::check()?;
        // The handle may name another stream than at the last call.
        let stream = self.identified(stream)?;
        // Before the caches: what happens to another pool costs this one no hit.
        let mut may_hit = self.in_checked_epoch();
        if !may_hit {
            self.check_memory()?;
            may_hit = !CaptureScope::is_announced();
        }
        let class = self.class(layout);
        if missed == Take::NotHere
            && may_hit
            && let (Some(class), Some(stream)) = (class, stream)
        {
            let is_kept = self.caches.keeps(stream.id(), class);
            missed = if is_kept { self.caches.take(stream.id(), class) } else { Take::Missed };
            if let Take::Done(address) = missed {
                let pointer = DevicePtr(address);
                self.annotator.allocated(pointer, layout, Some(stream));
                return Ok(pointer);
            }
        }
        self.allocate_from_heap(upstream, stream, layout, class.map(|class| (class, missed)))
    }

    /// Allocates a block of the size class from the heap, or, where memory is too scarce for that,
    /// one of the exact size. `missed` is the class and the cache's answer.
    #[inline]
    fn allocate_from_heap(
        &self,
        upstream: &AnyResource<()>,
        stream: Option<StreamRef<'_>>,
        layout: Layout,
        missed: Option<(Class, Take)>,
    ) -> Result<DevicePtr, Error> {
        let needed = self.block_size(layout)?;
        let size = missed.map_or(needed, |(class, _)| class.block_size());
        let allocated = self.allocate_block(upstream, stream, layout, size, missed);
        trace::tell_waits(self.name);
        match allocated {
            Ok(pointer) => Ok(pointer),
            Err(refused) if size > needed && !refused.is_final => {
                self.noted(self.allocate_undersized(upstream, stream, layout, needed))
            }
            Err(refused) => self.noted(Err(refused.error)),
        }
    }

    /// The outcome of a request that failed at least once.
    #[cold]
    fn noted(&self, outcome: Result<DevicePtr, Error>) -> Result<DevicePtr, Error> {
        if outcome.is_err() {
            self.state.note_failed();
        }
        outcome
    }

    /// Allocates a block of the exact size, which is smaller than its class.
    #[cold]
    fn allocate_undersized(
        &self,
        upstream: &AnyResource<()>,
        stream: Option<StreamRef<'_>>,
        layout: Layout,
        needed: u64,
    ) -> Result<DevicePtr, Error> {
        let allocated = self.allocate_block(upstream, stream, layout, needed, None);
        let pointer = allocated.map_err(|refused| refused.error)?;
        self.caches.note_undersized();
        Ok(pointer)
    }

    /// Notes that the heap serves a request for a large block, and decides whether such blocks are
    /// cached.
    #[inline]
    fn weigh_large(&self, state: &mut PoolState, list: ListId, size: u64) {
        let are_cached = self.caches.keeps_large();
        let hits = || self.caches.large_hits();
        let should_be = state.large_demand.note_request(list, size, are_cached, hits);
        if should_be != are_cached {
            self.caches.keep_large(should_be);
            // Those that are cached would be out of reach until memory is short.
            self.flush_large_blocks(state);
        }
    }

    /// Takes a free block without a driver call, but for an event on the legacy default stream if
    /// much waits for that.
    #[inline]
    fn take_free(
        &self,
        state: &mut PoolState,
        stream: Option<StreamRef<'_>>,
        list: ListId,
        size: u64,
    ) -> Option<NodeId> {
        let reserved = state.heap.reserved();
        let least =
            if state.heap.is_extendable() { LEAST_WAITING_EXTENDABLE } else { LEAST_WAITING };
        let waiting = (reserved / WAITING_FRACTION).max(least.min(reserved / 4));
        if let Some(stream) = stream
            && state.timeline.is_fence_due(list, waiting)
        {
            // If none can be recorded the blocks go on waiting.
            self.fence(state, stream, list);
        }
        state.take_free(list, size)
    }

    /// Makes idle what another stream is done with.
    #[cold]
    fn reclaim_in_turn(&self, state: &mut PoolState, list: ListId) {
        // If the context has ended, a later step says so.
        let Ok(_context) = self.context.enter() else { return };
        let _relaxed = RelaxedCapture::enter();
        state.reclaim_in_turn(list);
    }

    /// Makes idle, and merges, what all streams are done with.
    #[cold]
    fn merge_idle(&self, state: &mut PoolState) {
        // If the context has ended, a later step says so.
        let Ok(_context) = self.context.enter() else { return };
        let _relaxed = RelaxedCapture::enter();
        // Blocks that the stream itself has freed may be part of a range, too.
        state.poll_others(ListId::ANY_STREAM);
        state.reclaim_completed();
    }

    /// Allocates a block of `size` bytes.
    fn allocate_block(
        &self,
        upstream: &AnyResource<()>,
        stream: Option<StreamRef<'_>>,
        layout: Layout,
        size: u64,
        missed: Option<(Class, Take)>,
    ) -> Result<DevicePtr, Refused> {
        let mut state = self.lock();
        state.phase.check_awake(self.name)?;
        self.note_contention(&mut state);
        let list = match stream {
            Some(stream) => self.list_of(&mut state, stream)?,
            None => ListId::ANY_STREAM,
        };
        let missed = stream.zip(missed);
        let mut user = stream;
        let node = match self.find(&mut state, (stream, list), (layout, size), missed)? {
            Found::HandedOut(pointer) => {
                drop(state);
                self.annotator.allocated(pointer, layout, stream);
                return Ok(pointer);
            }
            Found::Free(node) => {
                if let Some((stream, missed)) = missed {
                    self.answer_miss(&mut state, stream, missed);
                }
                node
            }
            Found::ForGraph(node) => {
                // A graph may be launched on any stream, so any stream may use what it gets.
                user = None;
                node
            }
            Found::Nothing => {
                let request = Request { upstream, stream, list, layout, size };
                let mut session = Session::resume(self, state);
                let served = allocate_slow(&mut session, request);
                let node = served.map_err(|error| {
                    // A smaller block would have to be waited for, too.
                    Refused { error, is_final: session.is_out_of_time }
                })?;
                state = session.into_guard();
                node
            }
        };
        let pointer = state.hand_out(node, layout.align().max(CUDA_ALLOCATION_ALIGNMENT) as u64);
        drop(state);
        self.annotator.allocated(pointer, layout, user);
        Ok(pointer)
    }

    /// Finds memory that the pool has, without a wait: cached blocks, a span, free blocks, or, for
    /// a stream under capture, idle blocks. `missed`: the stream, and the answer of its cache.
    #[inline]
    fn find(
        &self,
        state: &mut PoolState,
        (stream, list): (Option<StreamRef<'_>>, ListId),
        (layout, size): (Layout, u64),
        missed: Option<(StreamRef<'_>, (Class, Take))>,
    ) -> Result<Found, Error> {
        if let Some((stream, missed)) = missed {
            if let Some(pointer) = self.take_many(state, stream, list, missed) {
                return Ok(Found::HandedOut(pointer));
            }
            if self.caches.may_pass_by(stream.id(), missed.0) {
                self.weigh_large(state, list, size);
            }
        }
        let withholds = !state.timeline.isolates;
        let mut for_graph = withholds && is_captured(stream)?;
        if !for_graph && state.timeline.polls && state.reclaim_turns.is_due() {
            self.reclaim_in_turn(state, list);
        }
        if state.merges_first
            && !for_graph
            && size >= LARGE
            && state.heap.would_split_range(list, size)
        {
            for_graph = withholds && asks_captured(stream)?;
            if !for_graph {
                self.merge_idle(state);
            }
        }
        if !for_graph {
            if let Some((stream, missed)) = missed
                && let Some(pointer) = self.take_span(state, stream, list, missed)
            {
                return Ok(Found::HandedOut(pointer));
            }
            if let Some(node) = self.take_free(state, stream, list, size) {
                return Ok(Found::Free(node));
            }
            // A capture that was not announced is found here at the latest: before the driver is
            // asked for more on the stream's behalf.
            if withholds && size <= self.hard_limit().max(state.heap.reserved()) {
                for_graph = asks_captured(stream)?;
            }
        }
        let Some(stream) = stream else { return Ok(Found::Nothing) };
        if for_graph {
            self.flush_caches(state);
            return state.take_for_graph(stream, layout, size).map(Found::ForGraph);
        }
        // Blocks that wait for an event are within reach before the pool grows.
        if state.timeline.awaits_fence(list)
            && self.fence(state, stream, list)
            && let Some(node) = state.take_free(list, size)
        {
            return Ok(Found::Free(node));
        }
        Ok(Found::Nothing)
    }
}

/// Why a block was not allocated.
struct Refused {
    error: Error,
    /// Whether there is no time left to ask for a smaller one.
    is_final: bool,
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self { error, is_final: false }
    }
}

/// What the pool has for a request.
enum Found {
    /// A block that is entered and counted: from a cache, or of a span.
    HandedOut(DevicePtr),
    Free(NodeId),
    /// An idle block for a stream under capture.
    ForGraph(NodeId),
    /// The [ladder](super::ladder) has to get memory.
    Nothing,
}
