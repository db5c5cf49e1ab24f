//! The trait of resources whose adjacent blocks may be used as one.

use std::alloc::Layout;

use super::concept::SynchronousResource;
use crate::{DevicePtr, Error};

/// A resource that allocates at a given address, and whose adjacent blocks may be used as one.
/// **Unstable**: may change in any release, and is for this library's pools.
///
/// A pool over such a resource grows in place by what is missing, and can return any block to it,
/// in the middle of an extent too. Each block is freed with its own layout, in any order. Blocks of
/// other resources may happen to be adjacent, but a kernel that runs from one into the other is an
/// error.
///
/// [`Introspect::as_extendable`](crate::Introspect::as_extendable) returns this interface, through
/// references and type erasure:
///
/// ```
/// use std::alloc::Layout;
/// use rmm_core::{AnyResource, DevicePtr, Introspect, SynchronousResource};
/// use rmm_resources::{CudaMemoryResource, VirtualMemoryResource};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let _machine = rmm_sim::enter();
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
/// Adjacent blocks are contiguous memory: a kernel may run from one into the next as within one
/// block. Those from [`allocate_at`](Self::allocate_at) are like those from
/// [`SynchronousResource::allocate_sync`], at the requested address. A block whose size is a
/// multiple of the page size takes up no more than its size; all blocks start at a multiple of it.
pub unsafe trait ExtendableResource: SynchronousResource {
    /// The granularity in bytes, a power of two of at least 256: addresses are multiples of it, and
    /// so are the sizes of blocks that are to be adjacent without gaps.
    fn page_size(&self) -> u64;

    /// Upper bound on the bytes of all blocks together, if known. A pool that lacks more fails
    /// without trying block by block.
    fn most_bytes(&self) -> Option<u64> {
        None
    }

    /// Whether blocks outlive the context that was current when they were allocated, as mapped
    /// memory does: then they must be freed also after its end, once no other context uses them.
    fn outlives_context(&self) -> bool {
        false
    }

    /// Allocates memory at exactly this address, otherwise as
    /// [`allocate_sync`](SynchronousResource::allocate_sync).
    ///
    /// # Errors
    /// `OutOfMemory` if there is not enough; `OutOfRange` if addresses are in use, or not of the
    /// resource; `InvalidArgument` if it is no multiple of the page size; others as documented.
    fn allocate_at(&self, address: DevicePtr, layout: Layout) -> Result<(), Error>;

    /// Returns the memory of blocks, which lose their contents and keep their addresses.
    ///
    /// # Errors
    /// Unsupported by default. After others, [`resume`](Self::resume) brings all contents back.
    ///
    /// # Safety
    /// They are allocated here with these layouts; no work uses them before they are resumed.
    unsafe fn suspend(&self, _blocks: &[(DevicePtr, Layout)]) -> Result<(), Error> {
        Err(Error::unsupported(self.name(), "it cannot return memory and keep the addresses"))
    }

    /// Makes suspended blocks usable again, at their addresses.
    ///
    /// # Errors
    /// The errors of [`allocate_at`](Self::allocate_at). It can be tried again.
    fn resume(&self, _blocks: &[(DevicePtr, Layout)]) -> Result<(), Error> {
        Ok(())
    }
}
