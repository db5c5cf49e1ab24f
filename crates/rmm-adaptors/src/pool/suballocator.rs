//! What other suballocators build on: a pool from which they take pieces, which they divide
//! themselves. What a piece becomes after it is returned, and all that is tried before a request is
//! refused, is the pool's.

#![forbid(unsafe_code)]

use std::alloc::Layout;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rmm_core::{
    Annotator, CUDA_ALLOCATION_ALIGNMENT, DevicePtr, Error, RelaxedCapture, RetiringStream,
    StreamKind, StreamRef, SyncResource,
};

use super::core::PoolCore;
use super::heap::ListId;
use super::probe::{asks_captured, is_captured};
use super::state::PoolState;
use super::{PoolMemoryResource, PoolStatistics};

/// A pool's memory and stream order, without its upstream's type.
#[derive(Debug)]
pub(crate) struct Suballocator {
    core: Arc<PoolCore>,
    /// Bytes of all pieces. Written only with the pool's lock held.
    in_pieces: AtomicU64,
}

/// A stream that owns pieces. The pool keeps its slot in the timeline until it
/// [leaves](Suballocator::leave).
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamLease {
    list: ListId,
    /// Whether it is a thread's default stream, which ends with the thread.
    is_bound: bool,
}

impl StreamLease {
    /// Whether the stream is a thread's default stream, which ends with the thread.
    pub(crate) fn is_bound(self) -> bool {
        self.is_bound
    }
}

/// On whose behalf memory is returned.
#[derive(Clone, Copy)]
pub(crate) enum OnBehalfOf<'a> {
    /// The owning stream's, in a call that was given it.
    Stream(StreamRef<'a>),
    /// Another stream's, or a request's, while the owning stream exists or is about to be
    /// destroyed.
    Other,
}

/// A part of a piece.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slice {
    pub(crate) bytes: u64,
    /// Whether it is allocated.
    pub(crate) is_live: bool,
}

/// Blocks from this size on split a free range only after events were polled and the range
/// coalesced: this memory never grows.
const LARGE: u64 = 1 << 20;

/// What memory is taken for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Block,
    Piece,
}

impl<U: SyncResource> PoolMemoryResource<U> {
    pub(crate) fn base(&self) -> Suballocator {
        Suballocator { core: Arc::clone(&self.inner.core), in_pieces: AtomicU64::new(0) }
    }
}

impl Suballocator {
    pub(crate) fn annotator(&self) -> &Annotator {
        &self.core.annotator
    }

    /// Whether blocks that are freed on the stream need no event before the stream reuses them, and
    /// it is known what stream that is.
    pub(crate) fn seals_late(stream: StreamRef<'_>) -> bool {
        use rmm_core::StreamLifetime::UntilDropped;
        matches!(
            stream.kind(),
            StreamKind::Owned | StreamKind::PerThread | StreamKind::Adopted(UntilDropped)
        )
    }

    /// The stream, unless it is the default stream of another context than the memory's.
    #[inline]
    pub(crate) fn in_context<'s>(&self, stream: StreamRef<'s>) -> Option<StreamRef<'s>> {
        self.core.in_context(stream)
    }

    /// Whether it is known without a driver call in whose order a block is freed on the stream.
    #[inline]
    pub(crate) fn is_identified(&self, stream: StreamRef<'_>) -> bool {
        self.core.is_identified(stream)
    }

    /// Gives a stream a slot in the timeline for as long as it owns pieces.
    ///
    /// # Errors
    /// If it is of another device.
    pub(crate) fn join(&self, stream: StreamRef<'_>) -> Result<StreamLease, Error> {
        let mut state = self.core.lock();
        let list = self.core.list_of(&mut state, stream)?;
        state.timeline.pin(list);
        Ok(StreamLease { list, is_bound: stream.kind() == StreamKind::PerThread })
    }

    /// Checks that the pool's memory is there and awake, as every way to a block does: one load and
    /// a comparison if no context of the process has ended and no memory has fallen asleep.
    ///
    /// # Errors
    /// If not: then nothing may be allocated.
    #[inline]
    pub(crate) fn check_memory(&self) -> Result<(), Error> {
        if self.core.is_calm() { Ok(()) } else { self.core.check_memory() }
    }

    /// As [`check_memory`](Self::check_memory), for a free, which is accepted while memory sleeps.
    ///
    /// # Errors
    /// If a context has ended or failed.
    #[inline]
    pub(crate) fn check_contexts(&self) -> Result<(), Error> {
        if self.core.is_calm() { Ok(()) } else { self.core.check_contexts() }
    }

    /// Whether no context has ended, no memory has fallen asleep, and no capture is announced: one
    /// load and a comparison.
    #[inline]
    pub(crate) fn is_calm(&self) -> bool {
        self.core.is_calm()
    }

    /// Whether the stream is under capture, as far as captures are announced.
    ///
    /// # Errors
    /// If the driver cannot say.
    #[inline]
    pub(crate) fn is_captured(stream: Option<StreamRef<'_>>) -> Result<bool, Error> {
        is_captured(stream)
    }

    /// Ends what [`join`](Self::join) began: the owner has no pieces any more. On a stream that
    /// retires an event is recorded for what it returned.
    pub(crate) fn leave(&self, owner: StreamLease, retiring: Option<&RetiringStream<'_>>) {
        let mut state = self.core.lock();
        if let Some(stream) = retiring
            && state.timeline.is_unsealed(owner.list)
            && let Ok(_context) = self.core.context.enter()
        {
            // If it fails, only a wait for the whole device can show that the blocks are idle.
            let _unknown = state.timeline.seal(owner.list, |event| stream.record(event));
        }
        state.timeline.unpin(owner.list);
        if state.timeline.stream(owner.list).is_none() && state.heap.is_empty(owner.list) {
            state.timeline.recycle(owner.list);
        }
    }

    /// Allocates a block by all steps of the pool.
    ///
    /// # Errors
    /// As a pool's.
    pub(crate) fn allocate(
        &self,
        upstream: &dyn SyncResource,
        stream: Option<StreamRef<'_>>,
        layout: Layout,
    ) -> Result<DevicePtr, Error> {
        self.core.allocate(upstream, stream, layout)
    }

    /// Allocates a block of `size` bytes for `layout`, if that needs no wait.
    ///
    /// # Errors
    /// If the stream is of another device.
    pub(crate) fn find(
        &self,
        stream: Option<StreamRef<'_>>,
        layout: Layout,
        size: u64,
    ) -> Result<Option<DevicePtr>, Error> {
        let found = self.look(stream, size, layout.align() as u64, Use::Block)?;
        if let Some(pointer) = found {
            self.annotator().allocated(pointer, layout, stream);
        }
        Ok(found)
    }

    /// Allocates a piece of `size` bytes for the stream, if that needs no wait.
    ///
    /// # Errors
    /// If the driver cannot say whether the stream is under capture.
    pub(crate) fn find_piece(
        &self,
        stream: StreamRef<'_>,
        size: u64,
    ) -> Result<Option<u64>, Error> {
        let found = self.look(Some(stream), size, 1, Use::Piece)?;
        Ok(found.map(|pointer| pointer.0))
    }

    fn look(
        &self,
        stream: Option<StreamRef<'_>>,
        size: u64,
        alignment: u64,
        purpose: Use,
    ) -> Result<Option<DevicePtr>, Error> {
        let stream = self.core.identified(stream)?;
        let mut state = self.core.lock();
        let list = match stream {
            Some(stream) => self.core.list_of(&mut state, stream)?,
            None => ListId::ANY_STREAM,
        };
        if is_captured(stream)? {
            return Ok(None);
        }
        let divides = size >= LARGE && state.heap.would_divide(list, size);
        let mut node = if divides { None } else { state.take_free(list, size) };
        if node.is_none() {
            // A capture that was not announced is found here at the latest: before the driver is
            // asked for more on the stream's behalf.
            if asks_captured(stream)? {
                return Ok(None);
            }
            let _context = self.core.context.enter()?;
            let _relaxed = RelaxedCapture::enter();
            // Blocks that the stream itself has freed may be part of the range, too.
            state.poll_others(if divides { ListId::ANY_STREAM } else { list });
            state.reclaim_completed();
            node = state.take_free_or_coalesced(list, size);
        }
        let Some(node) = node else { return Ok(None) };
        let alignment = alignment.max(CUDA_ALLOCATION_ALIGNMENT as u64);
        let pointer = state.hand_out(node, alignment);
        if purpose == Use::Piece {
            state.statistics.allocations -= 1;
            self.in_pieces.fetch_add(size, Ordering::Relaxed);
        }
        Ok(Some(pointer))
    }

    /// Frees a block, also on a stream under capture.
    pub(crate) fn deallocate(
        &self,
        stream: Option<StreamRef<'_>>,
        pointer: DevicePtr,
        layout: Layout,
    ) {
        self.core.deallocate(stream, pointer, layout);
    }

    /// Frees a block whose free was [annotated](Self::annotator) already, on a stream that is not
    /// under capture.
    pub(crate) fn take_back(&self, stream: Option<StreamRef<'_>>, pointer: DevicePtr) {
        self.core.deallocate_past_caches(stream, pointer);
    }

    /// Splits a block off a piece: `bytes` from offset `before` on. The remainders on either side
    /// stay pieces.
    pub(crate) fn split_off(&self, piece: u64, before: u64, bytes: u64) {
        let mut state = self.core.lock();
        let Some(mut node) = state.forget_live(DevicePtr(piece)) else { return };
        for size in [before, bytes] {
            if size > 0 {
                let rest = state.heap.split_live(node, size);
                note_live(&mut state, node);
                let Some(rest) = rest else {
                    self.in_pieces.fetch_sub(bytes, Ordering::Relaxed);
                    return;
                };
                node = rest;
            }
        }
        note_live(&mut state, node);
        self.in_pieces.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Dissolves pieces, each given by its start and its slices in order: live slices become blocks
    /// of their own, the others are free.
    pub(crate) fn dissolve<'p>(
        &self,
        owner: StreamLease,
        giver: OnBehalfOf<'_>,
        pieces: impl IntoIterator<Item = (u64, &'p [Slice])>,
    ) {
        let mut state = self.core.lock();
        let list = owner.list;
        let point = state.timeline.open(list);
        let mut freed = 0;
        for (piece, parts) in pieces {
            let mut next = state.forget_live(DevicePtr(piece));
            debug_assert!(next.is_some(), "a piece is live until it is taken apart");
            for part in parts {
                let Some(node) = next else { break };
                next = state.heap.split_live(node, part.bytes);
                if part.is_live {
                    note_live(&mut state, node);
                } else {
                    let bytes = state.heap.free(node, list, point);
                    freed += bytes.expect("what was split from a live block is live");
                }
                self.in_pieces.fetch_sub(part.bytes, Ordering::Relaxed);
            }
        }
        if freed > 0
            && state.timeline.note_free(list, freed)
            && let OnBehalfOf::Stream(stream) = giver
        {
            // If it fails the blocks stay this stream's own, until a later event covers them.
            self.core.seal_at_free(&mut state, list, stream);
        }
    }

    /// The pool's counters, and the bytes in pieces, which count as live.
    pub(crate) fn statistics(&self) -> (PoolStatistics, u64) {
        let state = self.core.lock();
        (state.statistics(&self.core.caches), self.in_pieces.load(Ordering::Relaxed))
    }
}

/// Enters a live block under its start in the table. It was part of another entry before, so this
/// is no allocation.
fn note_live(state: &mut PoolState, node: super::heap::NodeId) {
    state.hand_out(node, 1);
    state.statistics.allocations -= 1;
}
