//! CUDA graphs: memory for streams under capture.
//!
//! A graph uses the same addresses at each launch, on any stream. So on a stream under capture the
//! pool allocates only memory that no work uses, and calls neither the driver nor upstream for it.
//! What is freed there stays allocated until the program says that the graphs are gone.
//!
//! A pool [for graphs](crate::PoolMemoryResourceBuilder::for_graphs) does otherwise: it serves
//! captured streams as all others, from what they have freed themselves and by growth.

#![forbid(unsafe_code)]

use std::alloc::Layout;

use rmm_core::{DevicePtr, Error, StreamRef, fork};

use crate::suballocators::pool::caches::Class;
use crate::suballocators::pool::heap::NodeId;
use crate::suballocators::pool::state::core::PoolCore;
use crate::suballocators::pool::state::pool_state::{GraphBlock, PoolState};
use crate::suballocators::pool::values::units::ListId;

impl PoolState {
    /// Takes an idle block for a stream under capture.
    ///
    /// # Errors
    /// If there is none of the size.
    pub(crate) fn take_for_graph(
        &mut self,
        stream: StreamRef<'_>,
        layout: Layout,
        size: u64,
    ) -> Result<NodeId, Error> {
        let mut node = self.heap.take(ListId::ANY_STREAM, size);
        if node.is_none() {
            self.reclaim_some(usize::MAX);
            self.heap.separate_absorbed();
            let is_idle = |list, _| list == ListId::ANY_STREAM;
            node = self.heap.coalesce_across_streams(size, ListId::ANY_STREAM, 0, is_idle);
        }
        node.ok_or_else(|| {
            let why = "during a capture the pool allocates only reserved memory that no work uses, \
                       and has no such block of this size; reserve more before the capture begins";
            let error = Error::unsupported("pool", why).with_layout(layout);
            error.with_usage(self.usage(None)).with_stream(stream.id())
        })
    }

    fn keep_for_graph(
        &mut self,
        pointer: DevicePtr,
        layout: Layout,
        class: Option<Class>,
    ) -> Option<u64> {
        let node = self.forget_live(pointer)?;
        let bytes = self.heap.block(node).size;
        self.note_back(bytes, class.map(Class::block_size));
        self.statistics.frees += 1;
        self.statistics.graph_bytes += bytes;
        self.graph_blocks.push(GraphBlock { node, pointer, layout });
        Some(bytes)
    }
}

impl PoolCore {
    /// Keeps a block that was freed on a stream under capture. Returns its bytes, or `None` if the
    /// address is not that of a live block.
    pub(crate) fn keep_for_graph(&self, pointer: DevicePtr, layout: Layout) -> Option<u64> {
        let mut state = self.lock();
        self.dissolve_span_at(&mut state, pointer);
        state.keep_for_graph(pointer, layout, self.class(layout))
    }

    /// Makes the blocks that were freed on streams under capture available to any stream.
    pub(crate) fn release_graph_memory(&self) {
        if fork::is_child() {
            return;
        }
        self.end_graphs();
        let kept = std::mem::take(&mut self.lock().graph_blocks);
        for &GraphBlock { pointer, layout, .. } in &kept {
            self.annotator.freed(pointer, layout, None);
        }
        let mut state = self.lock();
        for GraphBlock { node, .. } in kept {
            let bytes = state.heap.free(node, ListId::ANY_STREAM, 0);
            state.statistics.graph_bytes -= bytes.expect("what graphs keep is live in the heap");
        }
    }
}
