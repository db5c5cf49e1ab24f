//! Everything that a pool's lock protects: the heap, the timeline of streams, the transfer cache,
//! and where segments and live blocks are. Nothing here calls the driver or releases the lock.

#![forbid(unsafe_code)]

use std::alloc::Layout;
use std::collections::HashSet;

use rmm_core::{CUDA_ALLOCATION_ALIGNMENT, DevicePtr, PoolUsage, StreamId};

use super::asleep::Phase;
use super::live::LiveBlocks;
use super::span_table::SpanTable;
use super::upstream_block::{Extent, UpstreamBlock};
use crate::suballocators::pool::caches::transfer::{Batch, TransferCache};
use crate::suballocators::pool::caches::{CachedBlock, Caches, Class, LargeDemand};
use crate::suballocators::pool::heap::{Heap, NodeId, PendingExtent, Piece, SegmentId};
use crate::suballocators::pool::timeline::Timeline;
use crate::suballocators::pool::values::contention::Contention;
use crate::suballocators::pool::values::exchange::Exchanges;
use crate::suballocators::pool::values::growth::Pace;
use crate::suballocators::pool::values::idle_time::IdleTime;
use crate::suballocators::pool::values::policy::ReleasePolicy;
use crate::suballocators::pool::values::reclaim_turns::ReclaimTurns;
use crate::suballocators::pool::values::statistics::PoolStatistics;
use crate::suballocators::pool::values::tide::Tide;
use crate::suballocators::pool::values::units::{ListId, Point, granules};
use crate::sync::hash::BuildIdHasher;

/// A block that was freed on a stream under capture. It is live in the heap.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GraphBlock {
    pub(crate) node: NodeId,
    pub(crate) pointer: DevicePtr,
    pub(crate) layout: Layout,
}

/// What a pool counts for its [`ReleasePolicy`].
#[derive(Debug, Default)]
struct ReleaseTrigger {
    /// Bytes freed since the last look at unused memory.
    freed: u64,
    /// Operations at the time of that look.
    since: u64,
    /// The most bytes handed out at once since then.
    peak: u64,
}

/// Fewer freed bytes are not worth a look.
const RELEASE_STEP: u64 = 2 << 20;

#[derive(Debug)]
pub(crate) struct PoolState {
    pub(crate) heap: Heap,
    pub(crate) timeline: Timeline,
    /// Where segments start. Index: [`SegmentId`].
    bases: Vec<DevicePtr>,
    /// By the address that was handed out.
    pub(crate) live: LiveBlocks,
    /// Blocks on their way between thread caches; live in the heap.
    pub(crate) transfer: TransferCache,
    pub(crate) large_demand: LargeDemand,
    pub(crate) span_table: SpanTable,
    /// The quarantine: the list of blocks whose last use no event covers, once there was one. Only
    /// a wait for the whole device makes them idle.
    quarantine: Option<ListId>,
    /// Where the rests of reservations start: live blocks that no one uses.
    pub(crate) set_aside: HashSet<u64, BuildIdHasher>,
    /// Blocks that were freed on streams under capture. They are live in the heap.
    pub(crate) graph_blocks: Vec<GraphBlock>,
    /// The list of the stream that was found captured when all were asked last.
    pub(crate) last_captured: Option<ListId>,
    /// Whether the memory from upstream is still there after the context has ended.
    pub(crate) outlives_context: bool,
    /// Bytes that calls to upstream in progress, with the lock released, are asking for.
    pub(crate) pending: u64,
    /// Calls to upstream in progress, with the lock released, that release memory.
    pub(crate) releasing: u32,
    /// Calls to upstream that have ended so far.
    pub(crate) settled: u64,
    /// The heap as it was when all that was freed had become idle, and no idle upstream block was
    /// left: its operations, and its live and reserved bytes.
    trimmed: Option<(u64, u64, u64)>,
    /// Sessions that have released the lock and will take it again.
    pub(crate) away: u32,
    /// Those of them that run code of the program, for which no thread waits long.
    pub(crate) in_program: u32,
    pub(crate) phase: Phase,
    /// Whether what all streams are done with is merged before a large block is split off memory
    /// that has free neighbours.
    pub(crate) merges_first: bool,
    pub(crate) statistics: PoolStatistics,
    pub(crate) exchanges: Exchanges,
    pub(crate) tide: Tide,
    pub(crate) contention: Contention,
    pub(crate) reclaim_turns: ReclaimTurns,
    /// Granules by which blocks that came back exceed the class that they counted as, modulo 2^32.
    pub(crate) excess_back: u32,
    /// The most bytes that were live when a request climbed the ladder, without those that caches
    /// held, and with those of the request.
    program_peak: u64,
    release_trigger: ReleaseTrigger,
    /// The span of time after which unused memory is released, if it is.
    pub(crate) idle_time: Option<IdleTime>,
}

/// Upper bound on the blocks that one call reclaims: less than a millisecond's work.
pub(crate) const RECLAIM_BATCH: usize = 4096;

impl PoolState {
    pub(crate) fn new() -> Self {
        Self {
            heap: Heap::new(),
            timeline: Timeline::new(),
            bases: Vec::new(),
            live: LiveBlocks::new(),
            transfer: TransferCache::default(),
            large_demand: LargeDemand::new(),
            span_table: SpanTable::default(),
            quarantine: None,
            set_aside: HashSet::default(),
            graph_blocks: Vec::new(),
            last_captured: None,
            outlives_context: false,
            pending: 0,
            releasing: 0,
            settled: 0,
            trimmed: None,
            away: 0,
            in_program: 0,
            phase: Phase::Awake,
            merges_first: false,
            excess_back: 0,
            statistics: PoolStatistics::default(),
            program_peak: 0,
            release_trigger: ReleaseTrigger::default(),
            idle_time: None,
            exchanges: Exchanges::default(),
            tide: Tide::default(),
            contention: Contention::default(),
            reclaim_turns: ReclaimTurns::default(),
        }
    }

    /// Whether calls to upstream are in progress.
    pub(crate) fn others_call(&self) -> bool {
        self.pending > 0 || self.releasing > 0
    }

    /// Adds memory from upstream as an idle block. Returns its segment.
    pub(crate) fn add_extent(&mut self, extent: &Extent) -> SegmentId {
        let segment = self.heap.add_segment(&extent.pieces);
        if segment.index() == self.bases.len() {
            self.bases.push(extent.base);
        }
        self.bases[segment.index()] = extent.base;
        self.note_growth(extent.pieces.len() as u64);
        segment
    }

    /// Takes the memory of a claim for there and hands the block out.
    pub(crate) fn commit(
        &mut self,
        extent: &PendingExtent,
        pieces: &[(u64, u64)],
        size: u64,
        list: ListId,
    ) -> NodeId {
        let rest = (list, self.open_point(list));
        let node = self.heap.commit(extent, pieces, size, rest);
        self.note_rest(list);
        self.note_growth(pieces.len() as u64);
        node
    }

    /// Abandons a reservation.
    pub(crate) fn abort(&mut self, extent: PendingExtent, list: ListId) {
        let point = self.open_point(list);
        self.heap.abort(extent, list, point);
        self.note_rest(list);
    }

    /// How the program has used the heap so far.
    pub(crate) fn pace(&self) -> Pace {
        if self.statistics.frees == 0 { Pace::Loading } else { Pace::Steady }
    }

    fn note_growth(&mut self, pieces: u64) {
        self.statistics.upstream_allocations += pieces;
        self.exchanges.note_growth(pieces, self.heap.reserved());
        self.statistics.reserved_bytes = self.heap.reserved();
        self.statistics.peak_reserved_bytes =
            self.statistics.peak_reserved_bytes.max(self.heap.reserved());
    }

    /// Removes idle pieces, for the caller to release to upstream. Pieces that are idle no more
    /// stay.
    pub(crate) fn remove_pieces(&mut self, pieces: Vec<Piece>) -> Vec<UpstreamBlock> {
        let removed = self.heap.remove_pieces(pieces);
        self.statistics.upstream_frees += removed.len() as u64;
        self.statistics.reserved_bytes = self.heap.reserved();
        removed.into_iter().map(|piece| self.upstream_block(piece)).collect()
    }

    /// The upstream block of a piece.
    pub(crate) fn upstream_block(&self, piece: Piece) -> UpstreamBlock {
        let layout = usize::try_from(piece.size)
            .ok()
            .and_then(|size| Layout::from_size_align(size, CUDA_ALLOCATION_ALIGNMENT).ok())
            .expect("it came from a call with this layout");
        UpstreamBlock { base: DevicePtr(self.base(piece.segment).0 + piece.offset), layout }
    }

    /// The addresses and bytes of all upstream blocks.
    pub(crate) fn upstream_ranges(&self) -> impl Iterator<Item = (u64, u64)> {
        self.heap.pieces().map(|piece| (self.base(piece.segment).0 + piece.offset, piece.size))
    }

    /// Where a segment starts.
    pub(crate) fn base(&self, segment: SegmentId) -> DevicePtr {
        self.bases[segment.index()]
    }

    /// Takes a free block without a driver call: of the stream's own list, an idle one, or one that
    /// another stream freed and that this one is ordered after.
    pub(crate) fn take_free(&mut self, list: ListId, size: u64) -> Option<NodeId> {
        let own = self.timeline.visible_to(list, list);
        if let Some(node) = self.heap.take_own_or_idle(list, own, size) {
            return Some(node);
        }
        self.take_completed(size).or_else(|| self.take_waited_for(list, size))
    }

    /// Takes a block that has become complete since the last look, if a bounded search finds one:
    /// all that is complete by now becomes idle.
    fn take_completed(&mut self, size: u64) -> Option<NodeId> {
        let mut most = RECLAIM_BATCH;
        while most > 0 {
            let other = self.timeline.next_news()?;
            let done = self.timeline.done(other);
            let examined = self.heap.reclaim(other, done, most);
            most -= examined;
            if !self.heap.is_reclaimed(other, done) {
                self.timeline.note_news(other);
            }
            if examined > 0
                && let Some(node) = self.heap.take(ListId::ANY_STREAM, size)
            {
                return Some(node);
            }
        }
        None
    }

    /// Takes a block of another stream that this one has waited for.
    fn take_waited_for(&mut self, list: ListId, size: u64) -> Option<NodeId> {
        let Self { timeline, heap, .. } = self;
        let mut others = timeline.waited_for(list).filter(|&other| other != list);
        others.find_map(|other| {
            let has_enough = heap.free_bytes(other) >= size;
            let covered = timeline.visible_to(list, other);
            if has_enough { heap.take_visible(other, size, covered) } else { None }
        })
    }

    /// Takes a block from free neighbours, on any lists, that the stream may use.
    pub(crate) fn take_coalesced(&mut self, list: ListId, size: u64) -> Option<NodeId> {
        let point = self.open_point(list);
        let timeline = &self.timeline;
        let node = self.heap.coalesce_across_streams(size, list, point, |other, freed| {
            freed <= timeline.visible_to(list, other)
        })?;
        self.note_rest(list);
        Some(node)
    }

    /// The point of a block that is freed now. The remainder of a coalesced run gets it, too: as if
    /// the stream had used all of the run.
    fn open_point(&self, list: ListId) -> Point {
        if list == ListId::ANY_STREAM { 0 } else { self.timeline.open(list) }
    }

    fn note_rest(&mut self, list: ListId) {
        if list != ListId::ANY_STREAM {
            self.timeline.note_rest(list);
        }
    }

    /// Reserves a range for a block, parts of which are unmapped.
    pub(crate) fn reserve(&mut self, list: ListId, size: u64, page: u64) -> Option<PendingExtent> {
        let timeline = &self.timeline;
        self.heap.reserve(size, page, |other, freed| freed <= timeline.visible_to(list, other))
    }

    /// Takes a free block, or else coalesces a run of free neighbours. Calls no driver.
    pub(crate) fn take_free_or_coalesced(&mut self, list: ListId, size: u64) -> Option<NodeId> {
        self.take_free(list, size).or_else(|| self.take_coalesced(list, size))
    }

    /// Moves blocks whose last use is known to be complete to the idle list, where they coalesce,
    /// and frees the slots of streams that are gone.
    ///
    /// Examines a bounded number of blocks, and those that decide whether a piece is idle. The rest
    /// stays where it is until a later call:
    /// [`take_free_or_coalesced`](Self::take_free_or_coalesced) finds it there as well.
    pub(crate) fn reclaim_completed(&mut self) {
        self.reclaim_some(RECLAIM_BATCH);
    }

    /// Moves blocks whose last use is known to be complete to the idle list, as
    /// [`reclaim_completed`](Self::reclaim_completed) does, and examines `most` blocks at most.
    pub(crate) fn reclaim_some(&mut self, most: usize) {
        let (mut most, mut next, mut left) = (most, 0, None);
        while let Some(list) = self.heap.next_occupied(&mut next) {
            let done = self.timeline.done(list);
            most -= self.heap.reclaim(list, done, most);
            if most == 0 && !self.heap.is_reclaimed(list, done) {
                left.get_or_insert(next - 1);
            }
            if self.timeline.stream(list).is_none() && self.heap.is_empty(list) {
                self.timeline.recycle(list);
            }
        }
        if let Some(position) = left {
            // The next call begins there.
            self.heap.begin_with(position);
            self.heap.reclaim_pieces(|list| self.timeline.done(list));
        }
    }

    /// Closes the points of all lists that hold blocks: a wait that begins now covers no later
    /// free.
    pub(crate) fn cut(&mut self) -> Vec<(ListId, Point)> {
        self.timeline.cut(self.heap.occupied())
    }

    /// Enters a block as live, under its aligned address, which is returned.
    pub(crate) fn hand_out(&mut self, node: NodeId, alignment: u64) -> DevicePtr {
        let block = self.heap.block(node);
        let base = self.base(block.segment);
        debug_assert!(alignment.is_power_of_two(), "that of a layout is");
        let address = (base.0 + block.offset + (alignment - 1)) & !(alignment - 1);
        self.live.insert(DevicePtr(address), node);
        self.statistics.allocations += 1;
        self.note_live();
        DevicePtr(address)
    }

    /// Notes how much is live.
    pub(crate) fn note_live(&mut self) {
        let live = self.heap.live();
        self.statistics.peak_live_bytes = self.statistics.peak_live_bytes.max(live);
        self.release_trigger.peak = self.release_trigger.peak.max(live);
        if let Some(idle_time) = &mut self.idle_time {
            idle_time.note_live(live);
        }
    }

    /// Removes a block from the table of live blocks; `None` if the address is not in it.
    pub(crate) fn forget_live(&mut self, pointer: DevicePtr) -> Option<NodeId> {
        let node = self.live.remove(pointer);
        self.statistics.unknown_frees += u64::from(node.is_none());
        node
    }

    /// Takes a block back into a list, at its current point. `class` is that of its layout. Returns
    /// its bytes, or `None` if the address is not that of a live block.
    pub(crate) fn take_back(
        &mut self,
        pointer: DevicePtr,
        list: ListId,
        class: Option<Class>,
    ) -> Option<u64> {
        let point = self.open_point(list);
        let bytes = self.take_back_at(pointer, class.map(Class::block_size), list, point)?;
        self.statistics.frees += 1;
        Some(bytes)
    }

    /// `counted`: the bytes that it counted as.
    fn take_back_at(
        &mut self,
        pointer: DevicePtr,
        counted: Option<u64>,
        list: ListId,
        point: Point,
    ) -> Option<u64> {
        let node = self.forget_live(pointer)?;
        let bytes = self.heap.free(node, list, point)?;
        self.note_back(bytes, counted);
        Some(bytes)
    }

    /// Notes that a block of `bytes` bytes counts as `counted` no longer.
    pub(crate) fn note_back(&mut self, bytes: u64, counted: Option<u64>) {
        let more = counted.map_or(0, |counted| bytes.saturating_sub(counted));
        self.excess_back = self.excess_back.wrapping_add(granules(more));
    }

    /// Takes the blocks of all batches back into their lists, or those of one list.
    pub(crate) fn flush_transfer(&mut self, list: Option<ListId>) {
        for batch in self.transfer.flush(list) {
            self.take_back_batch(batch);
        }
    }

    /// Takes the blocks of a batch back into their list.
    pub(crate) fn take_back_batch(&mut self, batch: Batch) {
        for &address in &batch.addresses {
            let counted = Some(batch.block_size());
            self.take_back_at(DevicePtr(address), counted, batch.list, batch.point);
        }
        // Their point may be complete already.
        self.timeline.note_news(batch.list);
        self.transfer.recycle(batch);
    }

    /// Takes a block that left a cache back into its stream's list, at its current point. Returns
    /// the list if an event should be recorded on its stream now.
    pub(crate) fn take_back_cached(
        &mut self,
        stream: StreamId,
        CachedBlock { address, size }: CachedBlock,
    ) -> Option<ListId> {
        self.statistics.flushed_blocks += 1;
        // A stream that has a cache has a list.
        let list = self.timeline.find(stream).unwrap_or_else(|| self.quarantine_list());
        // That it was freed was counted when it was put into a cache.
        let point = self.open_point(list);
        let bytes = self.take_back_at(DevicePtr(address), Some(size), list, point)?;
        self.timeline.note_free(list, bytes).then_some(list)
    }

    /// The quarantine; creates it if there is none.
    pub(crate) fn quarantine_list(&mut self) -> ListId {
        *self.quarantine.get_or_insert_with(|| {
            let made = self.heap.add_list();
            let quarantine = self.timeline.add_quarantine();
            debug_assert_eq!(made, quarantine, "slots and lists are made together");
            quarantine
        })
    }

    /// The list of a block whose uses are complete: idle memory, but for what graphs use again.
    pub(crate) fn list_after_uses(&mut self) -> ListId {
        if self.timeline.isolates { self.quarantine_list() } else { ListId::ANY_STREAM }
    }

    /// The quarantine, if there is one.
    pub(crate) fn quarantine(&self) -> Option<ListId> {
        self.quarantine
    }

    /// The peak of what the program uses, once `more` are allocated.
    pub(crate) fn peak_with(&self, more: u64) -> u64 {
        let peak = if self.heap.is_extendable() {
            self.program_peak
        } else {
            self.statistics.peak_live_bytes
        };
        peak.max(self.heap.live().saturating_add(more))
    }

    /// The peak of what the program uses, once `more` are allocated, while caches hold as much as
    /// `cached`.
    pub(crate) fn peak_beside(&self, cached: u64, more: u64) -> u64 {
        let live = self.heap.live().saturating_sub(cached);
        self.program_peak.max(live.saturating_add(more))
    }

    /// Notes what the program has used at once: a [`peak_with`](Self::peak_with) that was asked for
    /// right after a flush of the caches.
    pub(crate) fn note_program_peak(&mut self, peak: u64) {
        self.program_peak = self.program_peak.max(peak);
    }

    /// Allocations and frees in the heap so far.
    pub(crate) fn operations(&self) -> u64 {
        self.statistics.allocations + self.statistics.frees
    }

    /// Counts a free of `bytes` bytes. Returns whether the policy, or the time, asks for a look at
    /// unused memory.
    #[inline]
    pub(crate) fn release_is_due(&mut self, policy: ReleasePolicy, bytes: u64) -> bool {
        let is_time = self.idle_time.as_mut().is_some_and(|idle| idle.note_free(bytes));
        is_time | self.policy_asks(policy, bytes)
    }

    #[inline]
    fn policy_asks(&mut self, policy: ReleasePolicy, bytes: u64) -> bool {
        match policy {
            ReleasePolicy::Never => false,
            ReleasePolicy::Above { bytes: kept } => {
                self.release_trigger.freed += bytes;
                let reserved = self.heap.reserved();
                reserved > kept && self.release_trigger.freed >= RELEASE_STEP.max(reserved / 64)
            }
            ReleasePolicy::Unused { operations } => {
                self.operations() - self.release_trigger.since >= operations
            }
        }
    }

    /// Begins to count anew for the policy, and for the time if its span is over. Returns the bytes
    /// that stay reserved.
    pub(crate) fn restart_release(&mut self, policy: ReleasePolicy) -> u64 {
        let keep = match policy {
            ReleasePolicy::Never => u64::MAX,
            ReleasePolicy::Above { bytes } => bytes,
            ReleasePolicy::Unused { .. } => self.release_trigger.peak,
        };
        self.release_trigger =
            ReleaseTrigger { freed: 0, since: self.operations(), peak: self.heap.live() };
        let used = self.idle_time.as_mut().and_then(|idle| idle.end_span(self.heap.live()));
        keep.min(used.unwrap_or(u64::MAX))
    }

    fn trim_state(&self) -> (u64, u64, u64) {
        (self.operations(), self.heap.live(), self.heap.reserved())
    }

    /// Notes whether there is nothing more to trim until something is freed.
    pub(crate) fn note_trimmed(&mut self) {
        let is_done = self.heap.occupied().next().is_none() && self.heap.unused_pieces().is_empty();
        self.trimmed = is_done.then(|| self.trim_state());
    }

    /// Whether nothing was freed since a trim that left nothing to return. Not of a pool that
    /// sleeps.
    pub(crate) fn is_trimmed(&self, caches: &Caches) -> bool {
        self.trimmed == Some(self.trim_state())
            && self.phase.is_awake()
            && caches.are_unused()
            && self.transfer.bytes() == 0
            && self.heap.occupied().next().is_none()
    }

    /// Frees the slots of all streams that may be gone and hold nothing here.
    pub(crate) fn sweep_all(&mut self) {
        let lists: Vec<ListId> = self.timeline.lists().collect();
        for list in lists {
            if self.timeline.may_be_gone(list) && self.heap.is_empty(list) {
                self.timeline.recycle(list);
            }
        }
    }

    /// What there is, for an error.
    pub(crate) fn usage(&self, limit: Option<u64>) -> PoolUsage {
        PoolUsage::new(self.heap.reserved(), self.heap.live())
            .with_largest_free(self.heap.largest_free())
            .with_longest_range(self.heap.longest_free_run())
            .with_limit(limit)
    }

    /// Host bytes of all tables.
    pub(crate) fn bookkeeping_bytes(&self) -> u64 {
        let bases = self.bases.capacity() * size_of::<DevicePtr>();
        let kept = self.graph_blocks.capacity() * size_of::<GraphBlock>();
        self.heap.bookkeeping_bytes()
            + self.timeline.bookkeeping_bytes()
            + self.transfer.bookkeeping_bytes()
            + self.live.bookkeeping_bytes()
            + self.span_table.bookkeeping_bytes()
            + (bases + kept + self.set_aside.capacity() * size_of::<u64>()) as u64
    }

    /// Frees host memory that the tables do not need now.
    pub(crate) fn shrink(&mut self) {
        let lists = self.timeline.shrink();
        self.heap.shrink_to(lists);
        self.live.shrink();
        self.graph_blocks.shrink_to_fit();
        self.set_aside.shrink_to_fit();
    }
}

#[cfg(all(test, not(rmm_loom)))]
mod tests;
