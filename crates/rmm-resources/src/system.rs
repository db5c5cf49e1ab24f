//! Ordinary memory of the host that devices use as it is.

use std::alloc::Layout;
use std::fmt;

use rmm_core::{
    AnyResource, CUDA_ALLOCATION_ALIGNMENT, Device, DeviceAccessible, DevicePtr, Error,
    HasProperty, HostAccessible, Request, Resource, StreamRef, SyncResource,
};
use rmm_sys::CuDeviceAttribute;

use crate::capability::{is_done, require};
use crate::host_block;

/// Ordinary memory of the host, from the program's global allocator, on machines whose device can
/// use it as it is: over the host's own page tables (ATS, such as Grace Hopper) or by faults that
/// the system serves (HMM).
///
/// Blocks are aligned to 256 bytes at least, and to any power of two that is asked for. It has no
/// state, so any two are equal: memory from one may be freed by another. Any thread may use it.
///
/// Allocating ignores the stream. Freeing in stream order waits for the stream first, since what is
/// freed is anyone's at once; if the stream cannot be waited for, because it is being captured or
/// its work has failed, the memory stays allocated.
///
/// ```
/// use std::alloc::Layout;
/// use rmm_core::{CudaStream, Resource, copy};
/// use rmm_resources::SystemMemoryResource;
/// use rmm_sys::CuDeviceAttribute;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let can = CuDeviceAttribute::PAGEABLE_MEMORY_ACCESS;
/// # let machine = rmm_sim::Machine::builder().attribute(can, 1).build();
/// # let _entered = machine.enter();
/// let resource = SystemMemoryResource::new()?;
/// let stream = CudaStream::new()?;
/// let layout = Layout::from_size_align(1000, 256)?;
/// let pointer = resource.allocate(&stream, layout)?;
/// // SAFETY: the memory is used on its own stream only, and within its bounds.
/// unsafe { copy::fill(pointer, 7, 1000, &stream) }?;
/// // SAFETY: allocated above with this layout; its only stream is the one it is freed on.
/// unsafe { resource.deallocate(&stream, pointer, layout) };
/// # Ok(())
/// # }
/// ```
#[doc(alias = "rmm::mr::system_memory_resource")]
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SystemMemoryResource(());

impl SystemMemoryResource {
    const NAME: &str = "system";

    /// The resource, for the devices that are like the current one.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](rmm_core::ErrorKind::Unsupported) if the current device cannot
    /// use ordinary memory of the host; if there is no driver or no device.
    pub fn new() -> Result<Self, Error> {
        Self::for_resource(Self::NAME)
    }

    /// As [`new`](Self::new); errors name the resource that it is for.
    pub(crate) fn for_resource(name: &'static str) -> Result<Self, Error> {
        let needed = CuDeviceAttribute::PAGEABLE_MEMORY_ACCESS;
        require(name, Device::current()?, needed, "cannot use pageable memory of the host")?;
        Ok(Self(()))
    }
}

impl fmt::Debug for SystemMemoryResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SystemMemoryResource")
    }
}

/// The layout that the allocator is asked for: what devices use does not share its first and last
/// 256 bytes with other things.
fn widened(layout: Layout) -> Result<Layout, Error> {
    let bytes = layout.size().checked_next_multiple_of(CUDA_ALLOCATION_ALIGNMENT);
    bytes
        .and_then(|bytes| {
            Layout::from_size_align(bytes, layout.align().max(CUDA_ALLOCATION_ALIGNMENT)).ok()
        })
        // More than the address space has.
        .ok_or_else(|| Error::out_of_memory(SystemMemoryResource::NAME).with_layout(layout))
}

// SAFETY: the allocator hands out each piece of memory once until it is freed, aligned as asked
// for, and every stream may use it at once: that the device reaches it was asked when the resource
// was made.
unsafe impl SyncResource for SystemMemoryResource {
    fn allocate_sync(&self, layout: Layout) -> Result<DevicePtr, Error> {
        if layout.size() == 0 {
            return Ok(DevicePtr::NULL);
        }
        host_block::allocate(Self::NAME, widened(layout)?)
            .map_err(|error| error.with_layout(layout))
    }

    unsafe fn deallocate_sync(&self, pointer: DevicePtr, layout: Layout) {
        // A layout that cannot be widened was never allocated.
        if let Ok(widened) = widened(layout) {
            // SAFETY: by the caller's contract the block came from `allocate_sync` with this
            // layout, is not freed already, and all uses have completed.
            unsafe { host_block::free(pointer, widened) }
        }
    }

    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn provide<'a>(&'a self, request: &mut Request<'a>) {
        request.handle(self);
        request.properties(self).has::<DeviceAccessible>().has::<HostAccessible>();
    }
}

// SAFETY: memory that is usable at once is usable by later work, and memory is freed when the work
// that used it is done.
unsafe impl Resource for SystemMemoryResource {
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

// SAFETY: the resource exists only where the device uses ordinary memory of the host.
unsafe impl HasProperty<DeviceAccessible> for SystemMemoryResource {}
// SAFETY: it is the program's own memory.
unsafe impl HasProperty<HostAccessible> for SystemMemoryResource {}
