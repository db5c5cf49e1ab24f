//! Ordinary memory of the host.

use std::alloc::Layout;

use rmm_core::{
    AnyResource, DevicePtr, Error, HasProperty, HostAccessible, MemoryKind, Request, Resource,
    StreamRef, SyncResource,
};

use crate::capability::is_done;
use crate::host_block;
use crate::kind::known_kind;

/// Ordinary memory of the host, from the program's global allocator.
///
/// The host may use it and devices may not: see
/// [`SystemMemoryResource`](crate::SystemMemoryResource) for devices that can. No driver is needed.
/// Any alignment is honoured that the allocator honours. It has no state, so any two are equal:
/// memory from one may be freed by another. Any thread may use it.
///
/// Allocating ignores the stream. Freeing in stream order waits for the stream first, since what is
/// freed is anyone's at once; if the stream cannot be waited for, because it is being captured or
/// its work has failed, the memory stays allocated.
///
/// ```
/// use std::alloc::Layout;
/// use rmm_core::{AnyResource, HostAccessible, SyncResource};
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
/// It is no resource for device memory:
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

    /// The resource. Calls nothing.
    pub const fn new() -> Self {
        Self
    }
}

// SAFETY: the allocator hands out each piece of memory once until it is freed, aligned as asked
// for.
unsafe impl SyncResource for HostMemoryResource {
    fn allocate_sync(&self, layout: Layout) -> Result<DevicePtr, Error> {
        host_block::allocate(Self::NAME, layout)
    }

    unsafe fn deallocate_sync(&self, pointer: DevicePtr, layout: Layout) {
        // SAFETY: the caller's contract.
        unsafe { host_block::free(pointer, layout) }
    }

    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn provide<'a>(&'a self, request: &mut Request<'a>) {
        request.handle(self);
        request.properties(self).has::<HostAccessible>().has_value::<MemoryKind>();
    }
}

// SAFETY: memory that is usable at once is usable by later work, and memory is freed when the work
// that used it is done.
unsafe impl Resource for HostMemoryResource {
    fn do_allocate(&self, _stream: StreamRef<'_>, layout: Layout) -> Result<DevicePtr, Error> {
        self.allocate_sync(layout)
    }

    unsafe fn do_deallocate(&self, stream: StreamRef<'_>, pointer: DevicePtr, layout: Layout) {
        if layout.size() > 0 && is_done(stream) {
            // SAFETY: the caller's contract, and the uses that are ordered before this place on the
            // stream have completed.
            unsafe { self.deallocate_sync(pointer, layout) }
        }
    }

    fn to_any(&self) -> Option<AnyResource<()>>
    where
        Self: 'static,
    {
        Some(AnyResource::of(self))
    }
}

// SAFETY: it is the program's own memory.
unsafe impl HasProperty<HostAccessible> for HostMemoryResource {}

known_kind!(HostMemoryResource, Host);
