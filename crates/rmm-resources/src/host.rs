//! Pageable host memory.

use std::alloc::Layout;

use rmm_core::{
    DevicePtr, Error, HasProperty, HostAccessible, MemoryKind, Resource, StreamRef,
    SynchronousResource,
};

use crate::host_block;
use crate::kind::known_kind;
use crate::traits::{free_when_done, name_and_properties};

/// Pageable host memory, from the program's global allocator.
///
/// The host may access it and devices may not: see
/// [`SystemMemoryResource`](crate::SystemMemoryResource) for devices that can. No driver is needed.
/// It supports every alignment that the allocator supports. It has no state: all values are equal,
/// and each frees the memory of any other. Any thread may use it.
///
/// Allocating ignores the stream. Freeing in stream order synchronizes with the stream first, since
/// freed memory may be reused at once; if that fails, because the stream is being captured or its
/// work has failed, the memory stays allocated.
///
/// ```
/// use std::alloc::Layout;
/// use rmm_core::{AnyResource, HostAccessible, SynchronousResource};
/// use rmm_resources::HostMemoryResource;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let resource: AnyResource<HostAccessible> = AnyResource::new(HostMemoryResource::new());
/// let layout = Layout::from_size_align(1000, 4096)?;
/// let pointer = resource.allocate_sync(layout)?;
/// assert_eq!(pointer.0 % 4096, 0);
/// // SAFETY: allocated above with this layout, and not used.
/// unsafe { resource.deallocate_sync(pointer, layout) };
/// # Ok(())
/// # }
/// ```
///
/// It is not a resource for device memory:
///
/// ```compile_fail,E0277
/// use rmm_core::DeviceResourceRef;
/// use rmm_resources::HostMemoryResource;
///
/// let resource = HostMemoryResource::new();
/// let borrowed = DeviceResourceRef::new(&resource);
/// ```
#[doc(alias = "cuda::new_delete_resource")]
#[doc(alias = "rmm::mr::new_delete_resource")]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct HostMemoryResource;

impl HostMemoryResource {
    const NAME: &str = "host";

    /// Makes the resource, without a driver call.
    pub const fn new() -> Self {
        Self
    }
}

// SAFETY: the allocator's blocks are disjoint until they are freed, and aligned to the layout.
unsafe impl SynchronousResource for HostMemoryResource {
    fn do_allocate_sync(&self, layout: Layout) -> Result<DevicePtr, Error> {
        host_block::allocate(Self::NAME, layout)
    }

    unsafe fn do_deallocate_sync(&self, pointer: DevicePtr, layout: Layout) {
        // SAFETY: the caller's contract.
        unsafe { host_block::free(pointer, layout) }
    }

    name_and_properties!(Self::NAME; HostAccessible; MemoryKind);
}

// SAFETY: the memory may be used on return, so by all later work on the stream; it is freed after
// the work that used it has completed.
unsafe impl Resource for HostMemoryResource {
    fn do_allocate(&self, _stream: StreamRef<'_>, layout: Layout) -> Result<DevicePtr, Error> {
        self.do_allocate_sync(layout)
    }

    free_when_done!();
    rmm_core::__by_clone!(to_any);
}

// SAFETY: the program's global allocator returns memory that the host may access.
unsafe impl HasProperty<HostAccessible> for HostMemoryResource {}

known_kind!(HostMemoryResource, Host);
