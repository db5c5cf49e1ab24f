//! What a pool has from upstream: blocks, and contiguous extents of them.

use std::alloc::Layout;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use rmm_core::{AnyResource, DevicePtr, SynchronousResource as _};

/// The payload of a panic.
pub(crate) type Panic = Box<dyn Any + Send>;

/// Memory from upstream, from one call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UpstreamBlock {
    pub(crate) base: DevicePtr,
    pub(crate) layout: Layout,
}

/// Contiguous memory from upstream, in pieces: each came from a call of its own.
#[derive(Clone, Debug)]
pub(crate) struct Extent {
    pub(crate) base: DevicePtr,
    /// Bytes of each.
    pub(crate) pieces: Vec<u64>,
}

impl Extent {
    /// The address and bytes of each piece.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = (DevicePtr, u64)> + '_ {
        self.pieces.iter().scan(self.base, |next, &bytes| {
            let base = *next;
            next.0 += bytes;
            Some((base, bytes))
        })
    }
}

impl UpstreamBlock {
    /// Its address and bytes.
    pub(crate) fn range(&self) -> (DevicePtr, u64) {
        (self.base, self.layout.size() as u64)
    }

    /// Releases the memory to the upstream that it came from.
    pub(crate) fn release(self, upstream: &AnyResource<()>) {
        // SAFETY: (1) the memory came from this upstream with this layout, and is in no heap any
        // more. (2) All use of it has completed: it was part of an idle block, or at the pool's end
        // `blocks_to_release` found nothing in it that may be in use.
        unsafe { upstream.deallocate_sync(self.base, self.layout) };
    }
}

/// Releases all of the blocks to upstream, also if it panics over one.
///
/// # Errors
/// The payload of the first panic.
pub(crate) fn release_each(
    chunks: impl IntoIterator<Item = UpstreamBlock>,
    upstream: &AnyResource<()>,
) -> Result<(), Panic> {
    let mut outcome = Ok(());
    for chunk in chunks {
        let released = catch_unwind(AssertUnwindSafe(|| chunk.release(upstream)));
        outcome = outcome.and(released);
    }
    outcome
}
