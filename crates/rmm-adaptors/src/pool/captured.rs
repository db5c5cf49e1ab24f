//! Streams that are being captured into graphs.
//!
//! A graph uses the same addresses at each launch, on whichever stream it is launched. So on a
//! captured stream the pool hands out only memory that no work uses, calls neither the driver nor
//! upstream for it, and keeps what is freed there: it stays allocated until the program says that
//! the graphs are gone.

use std::alloc::Layout;

use rmm_core::{CaptureScope, CudaStream, DevicePtr, Error, StreamRef};
use rmm_sys::CuStream;

use super::heap::{ListId, NodeId};
use super::shared::Shared;
use super::state::State;

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
    // The legacy default stream never is, and the driver does not tell of it while one that blocks
    // with it is.
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
            self.clean_some(usize::MAX);
            node = self.heap.take(ListId::CLEAN, size);
        }
        node.ok_or_else(|| {
            let why = "a stream that is being captured gets memory only that is reserved and that nothing uses, and there is no \
                       such block of this size; reserve more before the capture begins";
            let error = Error::unsupported("pool", why).with_layout(layout);
            error.with_usage(self.usage(None)).with_stream(stream.id())
        })
    }

    /// Keeps a block that was freed on a captured stream. Returns its bytes, or `None` if the
    /// address is not that of a live block.
    pub(super) fn keep_for_graph(&mut self, pointer: DevicePtr, layout: Layout) -> Option<u64> {
        let node = self.forget_live(pointer)?;
        let bytes = self.heap.block(node).size;
        self.statistics.frees += 1;
        self.statistics.graph_bytes += bytes;
        self.kept.push(Kept { node, pointer, layout });
        Some(bytes)
    }
}

impl Shared {
    /// Gives the blocks that were freed on captured streams to everybody.
    pub(super) fn release_graph_memory(&self) {
        let kept = std::mem::take(&mut self.lock().kept);
        for &Kept { pointer, layout, .. } in &kept {
            self.annotator.freed(pointer, layout, None);
        }
        let mut state = self.lock();
        for Kept { node, .. } in kept {
            let bytes = state.heap.free(node, ListId::CLEAN, 0);
            state.statistics.graph_bytes -= bytes.expect("what graphs keep is live in the heap");
        }
    }

    /// Whether a stream of the device may be captured, as far as can be found out: then the device
    /// must not be waited for. The pool's context must be current.
    pub(super) fn may_capture(state: &State) -> bool {
        let late = state.order.lists().filter_map(|list| state.order.late_handle(list));
        // The legacy default stream tells of all that block with it.
        let mut streams = late.chain([CuStream::LEGACY]);
        CaptureScope::is_announced()
            // SAFETY: as in `seal_late`; the legacy default stream always exists.
            || streams.any(|stream| unsafe { CudaStream::may_be_capturing_raw(stream) })
    }
}
