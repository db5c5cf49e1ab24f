//! All that a pool's lock protects: the heap, the order of streams, and where segments and live
//! blocks are.

use std::alloc::Layout;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use rmm_core::{CUDA_ALLOCATION_ALIGNMENT, DevicePtr, PoolUsage, StreamId, SyncResource};

use super::caches::Caches;
use super::captured::Kept;
use super::depot::{Batch, Depot};
use super::heap::{Claim, Heap, ListId, NodeId, Piece, Point, SegmentId};
use super::live::LiveBlocks;
use super::order::Order;
use super::release::Unreleased;
use super::statistics::PoolStatistics;

/// Memory from upstream, from one call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chunk {
    pub(super) base: DevicePtr,
    pub(super) layout: Layout,
}

/// Memory from upstream in a row of addresses, piece by piece: each came from a call of its own.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) base: DevicePtr,
    /// Bytes of each.
    pub(super) pieces: Vec<u64>,
}

impl Chunk {
    /// Gives the memory back to the upstream that it came from.
    pub(super) fn give_back(self, upstream: &dyn SyncResource) {
        // SAFETY: the memory came from this upstream with this layout, and is in no heap any more.
        // All use of it has completed: it was one clean block, or at the pool's end
        // `chunks_to_return` found nothing in it that may be in use.
        unsafe { upstream.deallocate_sync(self.base, self.layout) };
    }
}

/// Gives all of them back, also where upstream panics over one: the first panic's payload is
/// returned.
pub(super) fn give_back_all(
    chunks: impl IntoIterator<Item = Chunk>,
    upstream: &dyn SyncResource,
) -> Result<(), Panic> {
    let mut outcome = Ok(());
    for chunk in chunks {
        let given = catch_unwind(AssertUnwindSafe(|| chunk.give_back(upstream)));
        outcome = outcome.and(given);
    }
    outcome
}

/// What code that panicked said.
pub(super) type Panic = Box<dyn Any + Send>;

#[derive(Debug)]
pub(super) struct State {
    pub(super) heap: Heap,
    pub(super) order: Order,
    /// Where segments start. Index: [`SegmentId`].
    bases: Vec<DevicePtr>,
    /// By the address that was handed out.
    live: LiveBlocks,
    /// Blocks that are handed out, for the heap, and kept by nobody.
    pub(super) depot: Depot,
    /// The list of blocks that no event can stand for, once there was one.
    lost: Option<ListId>,
    /// Blocks that were freed on captured streams. They are live in the heap.
    pub(super) kept: Vec<Kept>,
    /// Whether the memory from upstream is still there after the context has ended.
    pub(super) outlives_context: bool,
    /// Bytes that are being asked of upstream at the moment, with the lock released.
    pub(super) pending: u64,
    /// Calls to upstream under way, with the lock released, that give memory back.
    pub(super) returning: u32,
    /// Calls to upstream that have ended so far.
    pub(super) settled: u64,
    pub(super) statistics: PoolStatistics,
    pub(super) unreleased: Unreleased,
}

/// Blocks that one call looks at to clean them: less than a millisecond's work.
pub(super) const CLEANED_AT_ONCE: usize = 4096;

impl State {
    pub(super) fn new() -> Self {
        Self {
            heap: Heap::new(),
            order: Order::new(),
            bases: Vec::new(),
            live: LiveBlocks::new(),
            depot: Depot::default(),
            lost: None,
            kept: Vec::new(),
            outlives_context: false,
            pending: 0,
            returning: 0,
            settled: 0,
            statistics: PoolStatistics::default(),
            unreleased: Unreleased::default(),
        }
    }

    /// Whether calls to upstream are under way.
    pub(super) fn others_call(&self) -> bool {
        self.pending > 0 || self.returning > 0
    }

    /// Adds memory from upstream: clean, since upstream gives it for everybody's use. Returns its
    /// segment.
    pub(super) fn add_row(&mut self, row: &Row) -> SegmentId {
        let segment = self.heap.add_segment(&row.pieces);
        if segment.index() == self.bases.len() {
            self.bases.push(row.base);
        }
        self.bases[segment.index()] = row.base;
        self.note_growth(row.pieces.len() as u64);
        segment
    }

    /// Takes the memory of a claim for there and hands the block out.
    pub(super) fn meet(
        &mut self,
        claim: &Claim,
        pieces: &[(u64, u64)],
        size: u64,
        list: ListId,
    ) -> NodeId {
        let rest = (list, self.open_point(list));
        let node = self.heap.meet(claim, pieces, size, rest);
        self.note_rest(list);
        self.note_growth(pieces.len() as u64);
        node
    }

    /// Gives a claim up.
    pub(super) fn give_up(&mut self, claim: Claim, list: ListId) {
        let point = self.open_point(list);
        self.heap.give_up(claim, list, point);
        self.note_rest(list);
    }

    fn note_growth(&mut self, pieces: u64) {
        self.statistics.upstream_allocations += pieces;
        self.statistics.reserved_bytes = self.heap.reserved();
        self.statistics.peak_reserved_bytes =
            self.statistics.peak_reserved_bytes.max(self.heap.reserved());
    }

    /// Removes memory that nothing uses, to be given back upstream. Pieces of which that is not so
    /// any more stay.
    pub(super) fn remove_pieces(&mut self, pieces: Vec<Piece>) -> Vec<Chunk> {
        let removed = self.heap.remove_pieces(pieces);
        self.statistics.upstream_frees += removed.len() as u64;
        self.statistics.reserved_bytes = self.heap.reserved();
        removed.into_iter().map(|piece| self.chunk_of(piece)).collect()
    }

    /// The call to upstream that a piece came from.
    pub(super) fn chunk_of(&self, piece: Piece) -> Chunk {
        let layout = usize::try_from(piece.size)
            .ok()
            .and_then(|size| Layout::from_size_align(size, CUDA_ALLOCATION_ALIGNMENT).ok())
            .expect("it came from a call with this layout");
        Chunk { base: DevicePtr(self.base(piece.segment).0 + piece.offset), layout }
    }

    /// Where a segment starts.
    pub(super) fn base(&self, segment: SegmentId) -> DevicePtr {
        self.bases[segment.index()]
    }

    /// Takes memory that costs no driver call: the requester's own, clean memory, and what is
    /// already known to be free.
    pub(super) fn take_known(&mut self, list: ListId, size: u64) -> Option<NodeId> {
        if let Some(node) = self.heap.take_own_or_clean(list, size) {
            return Some(node);
        }
        let mut next = 0;
        while let Some(other) = self.heap.next_occupied(&mut next) {
            if other != list && self.heap.free_bytes(other) >= size {
                let covered = self.order.covered(list, other);
                if let Some(node) = self.heap.take_covered(other, size, covered) {
                    return Some(node);
                }
            }
        }
        None
    }

    /// Takes memory out of free neighbours that the requester may use, whichever lists they are in.
    pub(super) fn take_fused(&mut self, list: ListId, size: u64) -> Option<NodeId> {
        let point = self.open_point(list);
        let order = &self.order;
        let node = self
            .heap
            .fuse(size, list, point, |other, freed| freed <= order.covered(list, other))?;
        self.note_rest(list);
        Some(node)
    }

    /// The point of a block that is freed now. So does what is left of a run of blocks count: the
    /// requester's stream has not used it before, but might have.
    fn open_point(&self, list: ListId) -> Point {
        if list == ListId::CLEAN { 0 } else { self.order.open(list) }
    }

    fn note_rest(&mut self, list: ListId) {
        if list != ListId::CLEAN {
            self.order.note_rest(list);
        }
    }

    /// Claims a place for a block, parts of which have no memory yet.
    pub(super) fn claim(&mut self, list: ListId, size: u64, page: u64) -> Option<Claim> {
        let order = &self.order;
        self.heap.claim(size, page, |other, freed| freed <= order.covered(list, other))
    }

    /// Takes whatever can be had without asking anybody: a block, or else a run of neighbours.
    pub(super) fn take_known_or_fused(&mut self, list: ListId, size: u64) -> Option<NodeId> {
        self.take_known(list, size).or_else(|| self.take_fused(list, size))
    }

    /// Moves what is known to be done to the clean list, where it merges, and frees the slots of
    /// streams that are gone.
    ///
    /// Looks at a bounded number of blocks, and at those on which it depends whether pieces are
    /// clean. The rest stays where it is until a later call:
    /// [`take_known_or_fused`](Self::take_known_or_fused) finds it there as well.
    pub(super) fn clean_all(&mut self) {
        self.clean_some(CLEANED_AT_ONCE);
    }

    /// As [`clean_all`](Self::clean_all), with a number of blocks to look at.
    pub(super) fn clean_some(&mut self, most: usize) {
        let (mut most, mut next, mut left) = (most, 0, None);
        while let Some(list) = self.heap.next_occupied(&mut next) {
            let done = self.order.done(list);
            most -= self.heap.clean(list, done, most);
            if most == 0 && !self.heap.is_clean(list, done) {
                left.get_or_insert(next - 1);
            }
            if self.order.stream(list).is_none() && self.heap.is_empty(list) {
                self.order.recycle(list);
            }
        }
        if let Some(position) = left {
            // It goes on there the next time.
            self.heap.begin_with(position);
            self.heap.clean_pieces(|list| self.order.done(list));
        }
    }

    /// Closes the points of all lists that hold blocks: what is waited for from now on tells
    /// nothing of what is freed from now on.
    pub(super) fn cut(&mut self) -> Vec<(ListId, Point)> {
        self.order.cut(self.heap.occupied())
    }

    /// Hands a block out: notes it as live under its aligned address, which is returned.
    pub(super) fn hand_out(&mut self, node: NodeId, alignment: u64) -> DevicePtr {
        let block = self.heap.block(node);
        let base = self.base(block.segment);
        let address = (base.0 + block.offset).next_multiple_of(alignment);
        self.live.insert(DevicePtr(address), node);
        self.statistics.allocations += 1;
        self.statistics.peak_live_bytes = self.statistics.peak_live_bytes.max(self.heap.live());
        self.unreleased.peak = self.unreleased.peak.max(self.heap.live());
        DevicePtr(address)
    }

    /// Whether this is the address of a block that is handed out, or cached.
    pub(super) fn is_live(&self, pointer: DevicePtr) -> bool {
        self.live.contains(pointer)
    }

    /// Ends a block's being handed out, for the books; `None` if the address is not that of a live
    /// block.
    pub(super) fn forget_live(&mut self, pointer: DevicePtr) -> Option<NodeId> {
        let node = self.live.remove(pointer);
        self.statistics.unknown_frees += u64::from(node.is_none());
        node
    }

    /// Takes a block back into a list, at its current point. Returns its bytes, or `None` if the
    /// address is not that of a live block.
    pub(super) fn take_back(&mut self, pointer: DevicePtr, list: ListId) -> Option<u64> {
        let point = self.open_point(list);
        let bytes = self.take_back_at(pointer, list, point)?;
        self.statistics.frees += 1;
        Some(bytes)
    }

    fn take_back_at(&mut self, pointer: DevicePtr, list: ListId, point: Point) -> Option<u64> {
        let node = self.forget_live(pointer)?;
        self.heap.free(node, list, point)
    }

    /// Takes the blocks of all batches back into their lists, or those of one list.
    pub(super) fn empty_depot(&mut self, list: Option<ListId>) {
        for batch in self.depot.take_all(list) {
            self.take_back_batch(batch);
        }
    }

    /// Takes the blocks of a batch back into their list.
    pub(super) fn take_back_batch(&mut self, batch: Batch) {
        for &address in &batch.addresses {
            self.take_back_at(DevicePtr(address), batch.list, batch.point);
        }
        self.depot.recycle(batch);
    }

    /// Takes a block that left a cache back into its stream's list, at its current point. Returns
    /// the list if its stream should be sealed now.
    pub(super) fn take_back_cached(&mut self, stream: StreamId, address: u64) -> Option<ListId> {
        // A stream that has a cache has a list.
        let list = self.order.find(stream).unwrap_or_else(|| self.lost_list());
        // That it was freed was counted when it was put into the cache.
        let bytes = self.take_back_at(DevicePtr(address), list, self.open_point(list))?;
        self.order.note_free(list, bytes).then_some(list)
    }

    /// The list of blocks that no event can stand for.
    pub(super) fn lost_list(&mut self) -> ListId {
        *self.lost.get_or_insert_with(|| {
            let made = self.heap.add_list();
            let lost = self.order.add_lost();
            debug_assert_eq!(made, lost, "slots and lists are made together");
            lost
        })
    }

    /// The list of blocks that no event can stand for, if there is one.
    pub(super) fn lost(&self) -> Option<ListId> {
        self.lost
    }

    /// The most bytes that were ever handed out at once, or will be with so many more.
    pub(super) fn peak_with(&self, more: u64) -> u64 {
        self.statistics.peak_live_bytes.max(self.heap.live().saturating_add(more))
    }

    /// What there is, for an error.
    pub(super) fn usage(&self, limit: Option<u64>) -> PoolUsage {
        PoolUsage::new(self.heap.reserved(), self.heap.live())
            .with_largest_free(self.heap.largest_free())
            .with_longest_range(self.heap.longest_free_run())
            .with_limit(limit)
    }

    /// Host bytes of all tables.
    fn bookkeeping_bytes(&self) -> u64 {
        let bases = self.bases.capacity() * size_of::<DevicePtr>();
        let kept = self.kept.capacity() * size_of::<Kept>();
        self.heap.bookkeeping_bytes()
            + self.order.bookkeeping_bytes()
            + self.depot.bookkeeping_bytes()
            + self.live.bookkeeping_bytes()
            + (bases + kept) as u64
    }

    /// Frees host memory that the tables do not need now.
    pub(super) fn shrink(&mut self) {
        let lists = self.order.shrink();
        self.heap.shrink_to(lists);
        self.live.shrink();
        self.kept.shrink_to_fit();
    }

    /// The counters so far.
    pub(super) fn statistics(&self, caches: &Caches) -> PoolStatistics {
        let asked = self.order.counts;
        let (mut cached_bytes, counts) = caches.totals();
        cached_bytes += self.depot.bytes();
        PoolStatistics {
            allocations: self.statistics.allocations + counts.taken,
            cached_allocations: counts.taken,
            frees: self.statistics.frees + counts.put,
            // Threads at work in their caches may be ahead of what the heap knows of.
            live_bytes: self.heap.live().saturating_sub(cached_bytes),
            cached_bytes,
            largest_free_bytes: self.heap.largest_free(),
            events_recorded: asked.records,
            event_queries: asked.queries,
            stream_waits: asked.waits,
            bookkeeping_bytes: self.bookkeeping_bytes() + caches.bookkeeping_bytes(),
            ..self.statistics
        }
    }
}
