//! Memory that can be asked for at an address, so that a block can be extended.

use std::alloc::Layout;

use super::SyncResource;
use crate::{DevicePtr, Error};

/// A resource whose memory can be asked for at an address, and whose blocks, where they are
/// neighbours, may be used as one.
///
/// A pool over such a resource extends the memory that it has by what is missing, and gives any of
/// its blocks back, the ones in the middle too. Each block is given back as it was asked for, in
/// whichever order. Over other resources two blocks may well be neighbours, and work that runs from
/// one into the other is an error.
///
/// [`Introspect::as_extendable`](crate::Introspect::as_extendable) finds out, through references and erased types:
///
/// ```
/// use std::alloc::Layout;
/// use rmm_core::{AnyResource, DevicePtr, Introspect, SyncResource};
/// use rmm_resources::{CudaMemoryResource, VirtualMemoryResource};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let machine = rmm_sim::Machine::new();
/// # let _entered = machine.enter();
/// let resource: AnyResource = AnyResource::new(VirtualMemoryResource::new()?);
/// let extendable = resource.as_extendable().ok_or("it is")?;
/// let page = Layout::from_size_align(extendable.page_size().try_into()?, 256)?;
/// let first = resource.allocate_sync(page)?;
/// let second = DevicePtr(first.0 + page.size() as u64);
/// extendable.allocate_at(second, page)?; // one block of two pages, from `first`
/// // SAFETY: allocated above with these layouts, and not used.
/// unsafe {
///     resource.deallocate_sync(first, page);
///     resource.deallocate_sync(second, page);
/// }
/// assert!(CudaMemoryResource::new().as_extendable().is_none());
/// # Ok(())
/// # }
/// ```
///
/// # Safety
/// Blocks that are neighbours are one piece of memory: work may run from one into the next as
/// within one block. Those from [`allocate_at`](Self::allocate_at) are blocks as those from
/// [`SyncResource::allocate_sync`], and lie where they were asked for. A block whose size is a
/// multiple of the page size takes up no more than its size; all blocks start at a multiple of it.
pub unsafe trait ExtendableResource: SyncResource {
    /// What addresses, and the sizes of blocks that shall have no gaps between them, are multiples
    /// of: bytes, a power of two that is not below 256.
    fn page_size(&self) -> u64;

    /// The most bytes that all blocks together can have, where that is known: who lacks more need
    /// not ask piece by piece.
    fn most_bytes(&self) -> Option<u64> {
        None
    }

    /// Whether blocks outlive the context that was current when they were allocated, as physical
    /// memory does that is mapped: then blocks that nothing uses are to be freed also after the
    /// context has ended.
    fn outlives_context(&self) -> bool {
        false
    }

    /// Allocates memory at exactly this address, as [`allocate_sync`](SyncResource::allocate_sync)
    /// does at one of its own choice.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`](crate::ErrorKind::OutOfMemory) if memory cannot be had;
    /// [`ErrorKind::OutOfRange`](crate::ErrorKind::OutOfRange) if these addresses cannot, since
    /// they are in use or not the resource's;
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) if the address is no
    /// multiple of the page size; other kinds as the resource says.
    fn allocate_at(&self, address: DevicePtr, layout: Layout) -> Result<(), Error>;
}
