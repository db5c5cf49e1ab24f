//! The part of a pool that other suballocators build on: they take pieces, hand out parts of them
//! in an order of their own, and give back what they do not need. Who may have memory after that,
//! and what is tried before it is refused, is the pool's.

use std::alloc::Layout;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rmm_core::{
    Annotator, CUDA_ALLOCATION_ALIGNMENT, Context, DevicePtr, Error, RelaxedCapture,
    RetiringStream, StreamKind, StreamRef, SyncResource,
};

use super::captured::{asks_captured, is_captured};
use super::heap::ListId;
use super::shared::Shared;
use super::state::State;
use super::{PoolMemoryResource, PoolStatistics};

/// A pool's memory and order, without its upstream's type.
#[derive(Debug)]
pub(crate) struct Base {
    shared: Arc<Shared>,
    /// Bytes of all pieces. Changes with the pool's lock held only.
    in_pieces: AtomicU64,
}

/// A stream that pieces are taken and given back for. The pool keeps its place in the order until
/// it [leaves](Base::leave).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner {
    list: ListId,
    /// Whether only calls that are given the stream reach it: it is a thread's own default stream.
    is_bound: bool,
}

impl Owner {
    /// Whether only calls that are given the stream reach it.
    pub(crate) fn is_bound(self) -> bool {
        self.is_bound
    }
}

/// On whose behalf memory is given back.
#[derive(Clone, Copy)]
pub(crate) enum Giver<'a> {
    /// The owner's, in a call that was given its stream.
    Owner(StreamRef<'a>),
    /// Somebody else's, while the owner's stream exists or is about to be destroyed.
    Other,
}

/// A part of a piece.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) bytes: u64,
    /// Whether it is handed out.
    pub(crate) is_live: bool,
}

/// Blocks from this size on are not cut out of free memory before the driver was asked what of it
/// is done and merges: there will never be more memory here.
const LARGE: u64 = 1 << 20;

/// What memory is taken for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Block,
    Piece,
}

impl<U: SyncResource> PoolMemoryResource<U> {
    pub(crate) fn base(&self) -> Base {
        Base { shared: Arc::clone(&self.inner.shared), in_pieces: AtomicU64::new(0) }
    }
}

impl Base {
    pub(crate) fn annotator(&self) -> &Annotator {
        &self.shared.annotator
    }

    pub(crate) fn context(&self) -> Context {
        self.shared.context
    }

    /// Whether blocks that are freed on the stream need no event until another stream wants them:
    /// while it lives it can be reached, and nothing else comes between two blocks of its own.
    pub(crate) fn seals_late(stream: StreamRef<'_>) -> bool {
        use rmm_core::StreamLifetime::UntilDropped;
        matches!(
            stream.kind(),
            StreamKind::Owned | StreamKind::PerThread | StreamKind::Adopted(UntilDropped)
        )
    }

    /// Gives a stream a place in the order for as long as it owns pieces.
    ///
    /// # Errors
    /// If it is of another device.
    pub(crate) fn join(&self, stream: StreamRef<'_>) -> Result<Owner, Error> {
        let mut state = self.shared.lock();
        let list = self.shared.list_of(&mut state, stream)?;
        state.order.pin(list);
        Ok(Owner { list, is_bound: stream.kind() == StreamKind::PerThread })
    }

    /// Looks whether the pool's context still works, if one of the process has ended: one load and
    /// a comparison if none has.
    ///
    /// # Errors
    /// If not: then nothing may be handed out any more.
    #[inline]
    pub(crate) fn look_after_context(&self) -> Result<(), Error> {
        if self.shared.is_calm() { Ok(()) } else { self.shared.look_after_context() }
    }

    /// Whether the stream is captured, as the pool asks it.
    ///
    /// # Errors
    /// If the driver does not tell.
    #[inline]
    pub(crate) fn is_captured(stream: Option<StreamRef<'_>>) -> Result<bool, Error> {
        is_captured(stream)
    }

    /// Ends what [`join`](Self::join) began: the owner has no pieces any more. A stream that
    /// retires leaves an event for what it gave back.
    pub(crate) fn leave(&self, owner: Owner, retiring: Option<&RetiringStream<'_>>) {
        let mut state = self.shared.lock();
        if let Some(stream) = retiring
            && state.order.is_unsealed(owner.list)
            && let Ok(_context) = self.shared.context.enter()
        {
            // If it fails the blocks cannot be waited for any more, only found free after a wait
            // for the whole device.
            let _unknown = state.order.seal(owner.list, |event| stream.record(event));
        }
        state.order.unpin(owner.list);
        if state.order.stream(owner.list).is_none() && state.heap.is_empty(owner.list) {
            state.order.recycle(owner.list);
        }
    }

    /// A block by all the steps of the pool.
    ///
    /// # Errors
    /// As a pool's.
    pub(crate) fn allocate(
        &self,
        upstream: &dyn SyncResource,
        stream: Option<StreamRef<'_>>,
        layout: Layout,
    ) -> Result<DevicePtr, Error> {
        self.shared.allocate(upstream, stream, layout)
    }

    /// A block of `size` bytes for `layout`, if there is one without making anybody wait.
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

    /// A piece of `size` bytes for the stream, if there is one without making anybody wait.
    ///
    /// # Errors
    /// If the driver does not tell whether the stream is captured.
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
        let mut state = self.shared.lock();
        let list = match stream {
            Some(stream) => self.shared.list_of(&mut state, stream)?,
            None => ListId::CLEAN,
        };
        if is_captured(stream)? {
            return Ok(None);
        }
        let divides = size >= LARGE && state.heap.would_divide(list, size);
        let mut node = if divides { None } else { state.take_known(list, size) };
        if node.is_none() {
            // A capture that was not announced shows here at the latest, before anything is asked
            // for its sake.
            if asks_captured(stream)? {
                return Ok(None);
            }
            let _context = self.shared.context.enter()?;
            let _relaxed = RelaxedCapture::enter();
            // What the stream itself has freed may be a part of the range, too.
            Shared::poll_others(&mut state, if divides { ListId::CLEAN } else { list });
            state.clean_all();
            node = state.take_known_or_fused(list, size);
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

    /// Takes a block back, as the pool does on captured streams too.
    pub(crate) fn deallocate(
        &self,
        stream: Option<StreamRef<'_>>,
        pointer: DevicePtr,
        layout: Layout,
    ) {
        self.shared.deallocate(stream, pointer, layout);
    }

    /// Takes a block back of which the [annotator](Self::annotator) knows, and whose stream is not
    /// captured.
    pub(crate) fn take_back(&self, stream: Option<StreamRef<'_>>, pointer: DevicePtr) {
        self.shared.deallocate_block(stream, pointer, None);
    }

    /// Makes a block of its own of a part of a piece: `bytes` from `before` on. What is left on
    /// either side are pieces.
    pub(crate) fn carve(&self, piece: u64, before: u64, bytes: u64) {
        let mut state = self.shared.lock();
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

    /// Takes pieces back, each given by its start and its parts in their order: parts that are
    /// handed out become blocks of their own, the others are free.
    pub(crate) fn take_apart<'p>(
        &self,
        owner: Owner,
        giver: Giver<'_>,
        pieces: impl IntoIterator<Item = (u64, &'p [Part])>,
    ) {
        let mut state = self.shared.lock();
        let is_reached = !owner.is_bound || matches!(giver, Giver::Owner(_));
        // What a thread's own stream used cannot be marked from elsewhere: only a wait for the
        // device tells that it is done.
        let list = if is_reached { owner.list } else { state.lost_list() };
        let point = state.order.open(list);
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
            && state.order.note_free(list, freed)
            && let Giver::Owner(stream) = giver
        {
            // If it fails the blocks stay this stream's own, until a later seal covers them.
            self.shared.seal_at_free(&mut state, list, stream);
        }
    }

    /// The pool's counters, and the bytes that are in pieces: these count as live.
    pub(crate) fn statistics(&self) -> (PoolStatistics, u64) {
        let state = self.shared.lock();
        (state.statistics(&self.shared.caches), self.in_pieces.load(Ordering::Relaxed))
    }
}

/// Enters a live block in the books under its start. It was entered before, as part of another:
/// nothing is handed out.
fn note_live(state: &mut State, node: super::heap::NodeId) {
    state.hand_out(node, 1);
    state.statistics.allocations -= 1;
}
