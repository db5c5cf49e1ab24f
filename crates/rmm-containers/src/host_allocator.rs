//! Host collections in the memory of a resource.

use std::alloc::Layout;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use allocator_api2::alloc::{AllocError, Allocator};
use rmm_core::{DevicePtr, HasProperty, HasResource, HostAccessible, SyncResource};

/// An allocator for collections of the host, over a resource whose memory the host may use: pinned
/// or managed memory for a vector that both sides read.
///
/// It allocates with [`allocate_sync`](SyncResource::allocate_sync). Clones are the same allocator,
/// over one resource that lives as long as the last of them. A resource that is out of memory ends
/// the program where the collection says so, as with any other allocator; `try_reserve` and its
/// like report it.
///
/// Work on a device that uses the memory must be done before the collection touches, moves or frees
/// it.
///
#[cfg_attr(feature = "allocator-api2", doc = "```")]
#[cfg_attr(not(feature = "allocator-api2"), doc = "```text")] // the name is private then
/// use std::alloc::{Layout, alloc, dealloc};
///
/// use allocator_api2::vec::Vec;
/// use rmm_containers::HostAllocator;
/// use rmm_core::{DevicePtr, Error, HasProperty, HostAccessible, SyncResource};
///
/// #[derive(Debug)]
/// struct Heap; // in its place: a resource of pinned or managed memory
/// # // SAFETY: the system's allocator keeps the contract.
/// # unsafe impl SyncResource for Heap {
/// #     fn allocate_sync(&self, layout: Layout) -> Result<DevicePtr, Error> {
/// #         // SAFETY: the layout is not empty, as `HostAllocator` says.
/// #         let pointer = unsafe { alloc(layout) };
/// #         Ok(DevicePtr(pointer.expose_provenance() as u64))
/// #     }
/// #     unsafe fn deallocate_sync(&self, pointer: DevicePtr, layout: Layout) {
/// #         // SAFETY: allocated above with this layout.
/// #         unsafe { dealloc(std::ptr::with_exposed_provenance_mut(pointer.0 as usize), layout) };
/// #     }
/// #     fn name(&self) -> &'static str {
/// #         "heap"
/// #     }
/// # }
/// # // SAFETY: it is host memory.
/// # unsafe impl HasProperty<HostAccessible> for Heap {}
/// let mut numbers = Vec::new_in(HostAllocator::new(Heap));
/// numbers.extend([1, 2, 3]);
/// assert_eq!(numbers.as_slice(), [1, 2, 3]);
/// assert_eq!(numbers.allocator().resource().name(), "heap");
/// ```
#[doc(alias = "cuda::pmr_adaptor")]
#[derive(Debug)]
pub struct HostAllocator<R> {
    /// Shared, so that a clone allocates from this very resource, whatever a clone of the resource
    /// would be.
    resource: Arc<R>,
}

impl<R: SyncResource + HasProperty<HostAccessible>> HostAllocator<R> {
    /// An allocator over `resource`, which may be a reference or a handle to one that others use
    /// too.
    pub fn new(resource: R) -> Self {
        Self { resource: Arc::new(resource) }
    }

    /// The resource.
    #[doc(alias = "upstream_resource")]
    pub fn resource(&self) -> &R {
        &self.resource
    }
}

impl<R: SyncResource> HasResource for HostAllocator<R> {
    type Resource = R;

    fn memory_resource(&self) -> &R {
        &self.resource
    }
}

impl<R> Clone for HostAllocator<R> {
    fn clone(&self) -> Self {
        Self { resource: Arc::clone(&self.resource) }
    }
}

// SAFETY: the resource hands out memory that stays valid until it is freed here, aligned as asked
// for, and that the host may use, which is what it claims by `HostAccessible`. All clones share it,
// and it does not move with them.
unsafe impl<R: SyncResource + HasProperty<HostAccessible>> Allocator for HostAllocator<R> {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        let pointer = if layout.size() == 0 {
            // No resource gives an address for nothing, and the host's collections want one.
            NonNull::new(ptr::without_provenance_mut(layout.align()))
        } else {
            let pointer = self.resource.allocate_sync(layout).map_err(|_| AllocError)?;
            // An address that the host may use is one of its own: it fits.
            let address = usize::try_from(pointer.0).map_err(|_| AllocError)?;
            NonNull::new(ptr::with_exposed_provenance_mut(address))
        };
        let pointer = pointer.ok_or(AllocError)?;
        Ok(NonNull::slice_from_raw_parts(pointer, layout.size()))
    }

    unsafe fn deallocate(&self, pointer: NonNull<u8>, layout: Layout) {
        if layout.size() == 0 {
            return;
        }
        let pointer = DevicePtr(pointer.as_ptr().expose_provenance() as u64);
        // SAFETY: by the caller's contract the memory came from `allocate` of this allocator or a
        // clone, and so from this resource. The layout fits it, which here means that it is the one
        // it was asked for with, as `allocate` gives no byte more. It is not used any more.
        unsafe { self.resource.deallocate_sync(pointer, layout) };
    }
}
