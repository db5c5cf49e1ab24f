//! Streams that are being captured into graphs.
//!
//! A graph uses the same addresses at each launch, on whichever stream it is launched. So on a captured stream the pool hands out
//! only memory that no work uses, calls neither the driver nor upstream for it, and keeps what is freed there: it stays allocated
//! until the program says that the graphs are gone.

use std::alloc::Layout;

use rmm_core::{CaptureScope, CudaStream, DevicePtr, Error, StreamRef};
use rmm_sys::CuStream;

use super::heap::{Block, ListId, NodeId, Piece};
use super::shared::Shared;
use super::state::{Chunk, State};

/// A block that was freed on a captured stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept {
    node: NodeId,
    pointer: DevicePtr,
    layout: Layout,
}

/// Whether the stream is captured. The driver is asked if the program has announced captures.
///
/// # Errors
/// If the driver does not tell.
pub(super) fn is_captured(stream: Option<StreamRef<'_>>) -> Result<bool, Error> {
    if CaptureScope::is_announced() { asks_captured(stream) } else { Ok(false) }
}

/// Whether the stream is captured, by the driver's word.
///
/// # Errors
/// If it does not tell.
pub(super) fn asks_captured(stream: Option<StreamRef<'_>>) -> Result<bool, Error> {
    // The legacy default stream never is, and the driver does not tell of it while one that blocks with it is.
    let stream = stream.filter(|stream| !stream.is_default());
    stream.map_or(Ok(false), StreamRef::is_capturing)
}

impl State {
    /// Takes memory for a captured stream: what nobody uses.
    pub(super) fn take_for_graph(
        &mut self,
        stream: StreamRef<'_>,
        layout: Layout,
        size: u64,
    ) -> Result<NodeId, Error> {
        let mut node = self.heap.take(ListId::CLEAN, size);
        if node.is_none() {
            self.clean_all();
            node = self.heap.take(ListId::CLEAN, size);
        }
        node.ok_or_else(|| {
            let why = "a stream that is being captured gets memory only that is reserved and that nothing uses, and there is no \
                       such block of this size; reserve more before the capture begins";
            let error = Error::unsupported("pool", why).with_layout(layout);
            error.with_exhaustion(self.exhaustion(None)).with_stream(stream.id())
        })
    }

    /// Keeps a block that was freed on a captured stream.
    pub(super) fn keep_for_graph(&mut self, pointer: DevicePtr, layout: Layout) {
        let Some(node) = self.forget_live(pointer) else { return };
        self.statistics.frees += 1;
        self.statistics.graph_bytes += self.heap.block(node).size;
        self.kept.push(Kept { node, pointer, layout });
    }

    /// The memory from upstream, without the pieces that hold blocks of graphs or of one of these lists.
    pub(super) fn chunks_but(&self, lists: &[ListId]) -> Vec<Chunk> {
        let in_lists = self
            .heap
            .blocks()
            .filter(|block| block.free_in.is_some_and(|list| lists.contains(&list)));
        let kept = self.kept.iter().map(|kept| self.heap.block(kept.node));
        let held: Vec<Block> = in_lists.chain(kept).collect();
        let holds = |piece: &Piece| held.iter().any(|block| piece.overlaps(block));
        let pieces: Vec<Piece> = self.heap.pieces().filter(|piece| !holds(piece)).collect();
        pieces.into_iter().filter_map(|piece| self.chunk_of(piece)).collect()
    }
}

impl Shared {
    /// Gives the blocks that were freed on captured streams to everybody.
    pub(super) fn release_graph_memory(&self) {
        let kept = std::mem::take(&mut self.lock().kept);
        for &Kept { pointer, layout, .. } in &kept {
            self.annotator.taken_back(pointer, layout, None);
        }
        let mut state = self.lock();
        for Kept { node, .. } in kept {
            let bytes = state.heap.free(node, ListId::CLEAN, 0).unwrap_or(0);
            state.statistics.graph_bytes -= bytes;
        }
    }

    /// Whether a stream of the device may be captured, as far as can be found out: then the device must not be waited for. The pool's
    /// context must be current.
    pub(super) fn may_capture(state: &State) -> bool {
        let late = state.order.lists().filter_map(|list| state.order.late_handle(list));
        // The legacy default stream tells of all that block with it.
        let mut streams = late.chain([CuStream::LEGACY]);
        CaptureScope::is_announced()
            // SAFETY: as in `seal_late`; the legacy default stream always exists.
            || streams.any(|stream| unsafe { CudaStream::may_be_capturing_raw(stream) })
    }

    /// Waits for all streams one by one: the device can not be waited for while one of them is being captured, or at all. Returns the
    /// lists of blocks that may still be used because their stream could not be reached for a capture. A stream for which
    /// this fails otherwise is on a device that is lost and works on nothing. The pool's context must be current.
    #[cold]
    pub(super) fn wait_for_each(&self, may_capture: bool) -> Vec<ListId> {
        let mut state = self.lock();
        let mut unknown = Vec::new();
        for list in state.order.lists() {
            let _captured = Self::seal_late(&mut state, list);
            let waited = state.order.synchronize(list);
            if may_capture && (waited.is_err() || state.order.is_unsealed(list)) {
                unknown.push(list);
            }
        }
        if may_capture {
            unknown.extend(state.lost());
        }
        unknown
    }
}
