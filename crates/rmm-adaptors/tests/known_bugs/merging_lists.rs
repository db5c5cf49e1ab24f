//! A small allocator that merges the free lists of streams, with the bug of RMM before #2490 or
//! without it.
//!
//! A file of its own, since the conformance suite shows the same bug on a GPU.

use std::alloc::Layout;

use rmm_core::{Annotator, CudaEvent, DevicePtr, Error, StreamId, StreamRef};

/// One free list per stream, of blocks of one layout.
#[derive(Debug)]
pub(crate) struct MergingLists {
    layout: Layout,
    /// Whether a stream that takes over another's list records its own event again. Not doing so is
    /// the bug.
    records_merges: bool,
    annotator: Annotator,
    lists: Vec<List>,
}

/// The blocks that a stream freed or took over, and the event after the last free.
#[derive(Debug)]
struct List {
    stream: StreamId,
    event: CudaEvent,
    blocks: Vec<DevicePtr>,
}

impl MergingLists {
    /// An empty allocator for blocks of this layout.
    pub(crate) fn new(layout: Layout, records_merges: bool) -> Self {
        Self { layout, records_merges, annotator: Annotator::new("merging"), lists: Vec::new() }
    }

    /// Adds a block that no work uses to the stream's list.
    pub(crate) fn add(&mut self, stream: StreamRef<'_>, block: DevicePtr) -> Result<(), Error> {
        let own = self.list(stream)?;
        self.lists[own].blocks.push(block);
        self.lists[own].event.record(stream)
    }

    /// Allocates a block; `None` if there is none.
    pub(crate) fn allocate(&mut self, stream: StreamRef<'_>) -> Result<Option<DevicePtr>, Error> {
        let own = self.list(stream)?;
        if self.lists[own].blocks.is_empty() {
            self.merge_another(own, stream)?;
        }
        let block = self.lists[own].blocks.pop();
        if let Some(block) = block {
            self.annotator.allocated(block, self.layout, Some(stream));
        }
        Ok(block)
    }

    /// Frees a block.
    pub(crate) fn free(&mut self, stream: StreamRef<'_>, block: DevicePtr) -> Result<(), Error> {
        self.annotator.freed(block, self.layout, Some(stream));
        self.add(stream, block)
    }

    /// The index of the stream's list.
    fn list(&mut self, stream: StreamRef<'_>) -> Result<usize, Error> {
        if let Some(known) = self.lists.iter().position(|list| list.stream == stream.id()) {
            return Ok(known);
        }
        let event = CudaEvent::new()?;
        self.lists.push(List { stream: stream.id(), event, blocks: Vec::new() });
        Ok(self.lists.len() - 1)
    }

    fn merge_another(&mut self, own: usize, stream: StreamRef<'_>) -> Result<(), Error> {
        let Some(other) = self.lists.iter().position(|list| !list.blocks.is_empty()) else {
            return Ok(());
        };
        stream.wait(&self.lists[other].event)?;
        let blocks = std::mem::take(&mut self.lists[other].blocks);
        self.lists[own].blocks.extend(blocks);
        if self.records_merges { self.lists[own].event.record(stream) } else { Ok(()) }
    }
}
