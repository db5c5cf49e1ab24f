//! Memory from upstream in one contiguous range, block by block: all of them or none.

use std::alloc::Layout;
use std::panic::{AssertUnwindSafe, catch_unwind};

use rmm_core::{
    AnyResource, CUDA_ALLOCATION_ALIGNMENT, DevicePtr, Error, ErrorKind, ExtendableResource,
    Introspect, SynchronousResource,
};

use crate::shared::trace;
use crate::suballocators::pool::state::core::PoolCore;
use crate::suballocators::pool::state::pool_state::PoolState;
use crate::suballocators::pool::state::upstream_block::Extent;
use crate::suballocators::pool::values::units::GRANULE;

impl PoolCore {
    /// Asks upstream for contiguous memory, in blocks that can be returned one by one if upstream
    /// supports that.
    ///
    /// # Errors
    /// Upstream's.
    pub(crate) fn allocate_extent(
        &self,
        upstream: &AnyResource<()>,
        layout: Layout,
    ) -> Result<Extent, Error> {
        let bytes = layout.size() as u64;
        if let Some(upstream) = self.extendable(upstream) {
            let piece = self.growth.piece_size(bytes, bytes);
            if piece < bytes {
                let extent =
                    trace::growing(self.name, bytes, || allocate_in_pieces(upstream, bytes, piece));
                if !extent.as_ref().is_err_and(|error| error.kind() == ErrorKind::OutOfRange) {
                    return extent;
                }
                // The addresses behind the first piece are taken.
            }
        }
        let base = trace::growing(self.name, bytes, || upstream.allocate_sync(layout))?;
        Ok(Extent { base, pieces: vec![bytes] })
    }

    /// Adds memory from upstream to the heap, and notes whether it can be extended.
    pub(crate) fn add_extent(
        &self,
        state: &mut PoolState,
        upstream: &AnyResource<()>,
        extent: &Extent,
    ) {
        let segment = state.add_extent(extent);
        state.outlives_context =
            upstream.as_extendable().is_some_and(ExtendableResource::outlives_context);
        if self.growth.extends {
            state.heap.make_extendable(segment);
        }
    }
}

/// The bytes to multiples of which a resource rounds requests up, where it is known: pages below
/// adaptors, the largest of several.
pub(crate) fn granularity(resource: &(dyn SynchronousResource + 'static)) -> u64 {
    let mut largest = GRANULE;
    for resource in resource.stack() {
        if let Some(extendable) = resource.as_extendable() {
            return largest.max(extendable.page_size());
        }
        if resource.as_trimmable().is_some() {
            // A suballocator, which divides pages itself.
            break;
        }
        for other in resource.other_upstreams() {
            largest = largest.max(granularity(other));
        }
    }
    largest
}

/// Refuses more bytes than upstream can ever have: to find that out piece by piece would take
/// seconds.
///
/// # Errors
/// Out of memory.
pub(crate) fn check_capacity(upstream: &dyn ExtendableResource, bytes: u64) -> Result<(), Error> {
    match upstream.most_bytes() {
        Some(most) if bytes > most => {
            let message = format!("{bytes} bytes are more than the {most} that there are");
            Err(Error::out_of_memory(upstream.name())
                .with_source(Error::out_of_range("extend", message)))
        }
        _ => Ok(()),
    }
}

/// Allocates an extent at addresses of upstream's choice.
fn allocate_in_pieces(
    upstream: &dyn ExtendableResource,
    bytes: u64,
    piece: u64,
) -> Result<Extent, Error> {
    check_capacity(upstream, bytes)?;
    let first = usize::try_from(piece)
        .ok()
        .and_then(|size| Layout::from_size_align(size, CUDA_ALLOCATION_ALIGNMENT).ok())
        .ok_or_else(|| Error::out_of_memory("pool"))?;
    let base = upstream.allocate_sync(first)?;
    let allocated = Allocated { upstream, blocks: vec![(base, first)] };
    let rest = cut(&[(piece, bytes - piece)], piece);
    allocate_all(upstream, base, &rest).map_err(|(_, error)| error)?;
    allocated.keep();
    let pieces = std::iter::once(piece).chain(rest.into_iter().map(|(_, bytes)| bytes));
    Ok(Extent { base, pieces: pieces.collect() })
}

/// Cuts ranges (offsets and bytes) into pieces of at most `most` bytes.
pub(crate) fn cut(ranges: &[(u64, u64)], most: u64) -> Vec<(u64, u64)> {
    let mut pieces = Vec::new();
    for &(start, bytes) in ranges {
        let mut offset = start;
        while offset < start + bytes {
            let size = most.min(start + bytes - offset);
            pieces.push((offset, size));
            offset += size;
        }
    }
    pieces
}

/// Allocates all of the pieces (offsets from `base` and bytes), or none.
///
/// # Errors
/// The offset of the piece that failed, and upstream's error.
pub(crate) fn allocate_all(
    upstream: &dyn ExtendableResource,
    base: DevicePtr,
    pieces: &[(u64, u64)],
) -> Result<(), (u64, Error)> {
    let mut allocated = Allocated { upstream, blocks: Vec::with_capacity(pieces.len()) };
    for &(offset, size) in pieces {
        let base = DevicePtr(base.0 + offset);
        let layout = usize::try_from(size)
            .ok()
            .and_then(|size| Layout::from_size_align(size, CUDA_ALLOCATION_ALIGNMENT).ok())
            .ok_or_else(|| Error::out_of_memory("pool"))
            .and_then(|layout| upstream.allocate_at(base, layout).map(|()| layout));
        allocated.blocks.push((base, layout.map_err(|error| (offset, error))?));
    }
    allocated.keep();
    Ok(())
}

/// Upstream blocks of a caller that needs all of them: returned to upstream when dropped before
/// [`keep`](Self::keep).
struct Allocated<'u> {
    upstream: &'u dyn ExtendableResource,
    /// # Invariant
    /// Allocated from `upstream`, each with its layout, and known to no one else.
    blocks: Vec<(DevicePtr, Layout)>,
}

impl Allocated<'_> {
    /// All are there: none is released.
    fn keep(mut self) {
        self.blocks.clear();
    }
}

impl Drop for Allocated<'_> {
    fn drop(&mut self) {
        for (base, layout) in self.blocks.drain(..) {
            // A panic of upstream was reported when it began. It must not leave a `Drop`, nor keep
            // the others from going back.
            let _ignored = catch_unwind(AssertUnwindSafe(|| {
                // SAFETY: the field's invariant, and the block is in the list no more.
                unsafe { self.upstream.deallocate_sync(base, layout) };
            }));
        }
    }
}
