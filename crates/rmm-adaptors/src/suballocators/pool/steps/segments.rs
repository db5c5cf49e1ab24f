//! Segments that come and go: reported to the program's callbacks, which may refuse.

use std::alloc::Layout;

use rmm_core::{AnyResource, CUDA_ALLOCATION_ALIGNMENT, DevicePtr, Error};

use crate::suballocators::pool::state::core::PoolCore;
use crate::suballocators::pool::state::segments::Segment;
use crate::suballocators::pool::state::session::Session;
use crate::suballocators::pool::state::upstream_block::{
    Extent, Panic, UpstreamBlock, release_each,
};

impl PoolCore {
    /// Reports memory that has come from upstream, before a block is in it. The pool's lock is not
    /// held.
    ///
    /// # Errors
    /// The refusal of a callback: then all of the memory is released, apart from what a callback
    /// does not let go.
    pub(crate) fn announce(
        &self,
        upstream: &AnyResource<()>,
        ranges: impl Iterator<Item = (DevicePtr, u64)>,
    ) -> Result<(), Error> {
        let segments: Vec<_> = ranges.map(|(base, bytes)| Segment { base, bytes }).collect();
        let mut added = segments.iter().map(|&segment| self.segments.add(self.name, segment));
        let Some(Err(error)) = added.find(Result::is_err) else { return Ok(()) };
        self.release_unused_segments(upstream, &segments);
        Err(error)
    }

    /// Releases segments in which no block was ever.
    fn release_unused_segments(&self, upstream: &AnyResource<()>, segments: &[Segment]) {
        for &segment in segments {
            if self.segments.take(self.name, segment).is_err() {
                self.segments.strand(segment);
            } else if let Some(block) = block_of(segment) {
                // A panic of upstream was reported when it began.
                let _ignored = release_each([block], upstream);
            }
        }
    }

    /// Reports each segment to the callbacks that do not have it.
    ///
    /// # Errors
    /// The refusal of a callback.
    pub(crate) fn add_segments(
        &self,
        mut ranges: impl Iterator<Item = (DevicePtr, u64)>,
    ) -> Result<(), Error> {
        ranges.try_for_each(|(base, bytes)| self.segments.add(self.name, Segment { base, bytes }))
    }

    /// Has the callbacks let go of each segment.
    ///
    /// # Errors
    /// The refusal of a callback: then some may not have a segment any more.
    pub(crate) fn remove_segments(
        &self,
        mut ranges: impl Iterator<Item = (DevicePtr, u64)>,
    ) -> Result<(), Error> {
        ranges.try_for_each(|(base, bytes)| self.remove_segment(base, bytes))
    }

    /// Has the callbacks let go of one.
    ///
    /// # Errors
    /// The refusal of a callback.
    pub(crate) fn remove_segment(&self, base: DevicePtr, bytes: u64) -> Result<(), Error> {
        let removed = self.segments.remove(self.name, Segment { base, bytes });
        removed.map_err(|stays| stays.error)
    }

    /// What is released at the pool's end: the blocks that the callbacks let go of, and segments
    /// that no block could be in.
    pub(crate) fn let_go_of_all(&self, mut blocks: Vec<UpstreamBlock>) -> Vec<UpstreamBlock> {
        self.segments.wait_for_callbacks();
        blocks.extend(self.segments.take_stranded().into_iter().filter_map(block_of));
        blocks.retain(|block| {
            let (base, bytes) = block.range();
            self.segments.take_last(self.name, Segment { base, bytes }).is_ok()
        });
        blocks
    }
}

impl Session<'_> {
    /// Releases blocks that are in the heap no more, apart from those that a callback does not let
    /// go of: they are in the heap again. Returns the bytes released.
    ///
    /// # Errors
    /// What upstream panicked with.
    pub(crate) fn release_or_keep(
        &mut self,
        upstream: &AnyResource<()>,
        blocks: &[UpstreamBlock],
    ) -> Result<u64, Panic> {
        let core = self.core;
        let mut kept = Vec::new();
        let outcome = self.release_to_upstream(|| {
            let mut leaving = blocks.to_vec();
            leaving.retain(|block| {
                let (base, bytes) = block.range();
                let segment = Segment { base, bytes };
                match core.segments.remove(core.name, segment) {
                    Ok(()) => return true,
                    Err(stays) if stays.is_usable => kept.push(segment),
                    Err(_) => core.segments.strand(segment),
                }
                false
            });
            let bytes = leaving.iter().map(|block| block.range().1).sum();
            release_each(leaving, upstream).map(|()| bytes)
        });
        for Segment { base, bytes } in kept {
            self.add_extent(&Extent { base, pieces: vec![bytes] });
        }
        outcome.and_then(|outcome| outcome)
    }
}

/// The block of a segment.
fn block_of(segment: Segment) -> Option<UpstreamBlock> {
    let bytes = usize::try_from(segment.bytes).ok()?;
    let layout = Layout::from_size_align(bytes, CUDA_ALLOCATION_ALIGNMENT).ok()?;
    Some(UpstreamBlock { base: segment.base, layout })
}
