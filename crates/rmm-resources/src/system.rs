//! Pageable host memory that devices access directly (HMM, ATS).

use std::alloc::Layout;
use std::fmt;

use rmm_core::{
    CUDA_ALLOCATION_ALIGNMENT, Device, DeviceAccessible, DevicePtr, Error, HasProperty,
    HostAccessible, Resource, StreamRef, SynchronousResource,
};
use rmm_sys::CuDeviceAttribute;

use crate::capability::require;
use crate::host_block;
use crate::traits::{free_when_done, name_and_properties};

/// Pageable host memory, from the program's global allocator, on machines whose device can access
/// it directly: through the host's page tables (ATS, such as Grace Hopper) or by page faults (HMM).
///
/// Blocks are aligned to at least 256 bytes, or to the requested power of two. It has no state: all
/// values are equal, and each frees the memory of any other. Any thread may use it.
///
/// Allocating ignores the stream. Freeing in stream order synchronizes with the stream first, since
/// freed memory may be reused at once; if that fails, because the stream is being captured or its
/// work has failed, the memory stays allocated.
///
/// ```
/// use std::alloc::Layout;
/// use rmm_core::{CudaStream, Resource, copy};
/// use rmm_resources::SystemMemoryResource;
/// use rmm_sys::CuDeviceAttribute;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let can = CuDeviceAttribute::PAGEABLE_MEMORY_ACCESS;
/// # let _machine = rmm_sim::Machine::builder().attribute(can, 1).enter();
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

    /// Makes the resource, after a check that the current device supports it.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](rmm_core::ErrorKind::Unsupported) if the current device cannot
    /// access pageable host memory; other kinds if there is no driver or no device.
    pub fn new() -> Result<Self, Error> {
        Self::for_resource(Self::NAME)
    }

    /// Makes the resource for another one, whose name errors carry, after a check that the current
    /// device supports it.
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

/// The layout to allocate: padded so that the block shares no 256-byte granule with other data.
fn widened(layout: Layout) -> Result<Layout, Error> {
    let bytes = layout.size().checked_next_multiple_of(CUDA_ALLOCATION_ALIGNMENT);
    bytes
        .and_then(|bytes| {
            Layout::from_size_align(bytes, layout.align().max(CUDA_ALLOCATION_ALIGNMENT)).ok()
        })
        // The size exceeds the address space.
        .ok_or_else(|| Error::out_of_memory(SystemMemoryResource::NAME).with_layout(layout))
}

// SAFETY: the allocator's blocks are disjoint until they are freed, aligned to the layout, and
// every stream may use them at once: that the device can access them was checked when the resource
// was made.
unsafe impl SynchronousResource for SystemMemoryResource {
    fn do_allocate_sync(&self, layout: Layout) -> Result<DevicePtr, Error> {
        host_block::allocate(Self::NAME, widened(layout)?)
            .map_err(|error| error.with_layout(layout))
    }

    unsafe fn do_deallocate_sync(&self, pointer: DevicePtr, layout: Layout) {
        // A layout that cannot be widened was never allocated.
        if let Ok(widened) = widened(layout) {
            // SAFETY: by the caller's contract the block came from `allocate_sync` with this
            // layout, is not freed already, and all uses have completed.
            unsafe { host_block::free(pointer, widened) }
        }
    }

    name_and_properties!(Self::NAME; DeviceAccessible, HostAccessible);
}

// SAFETY: memory that is usable at once is usable by later work, and memory is freed after the work
// that used it has completed.
unsafe impl Resource for SystemMemoryResource {
    fn do_allocate(&self, _stream: StreamRef<'_>, layout: Layout) -> Result<DevicePtr, Error> {
        self.do_allocate_sync(layout)
    }

    free_when_done!();
    rmm_core::__by_clone!(to_any);
}

// SAFETY: the resource is made only if the device can access pageable host memory.
unsafe impl HasProperty<DeviceAccessible> for SystemMemoryResource {}
// SAFETY: it is memory of the program's allocator.
unsafe impl HasProperty<HostAccessible> for SystemMemoryResource {}
