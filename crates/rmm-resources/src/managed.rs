//! `cudaMallocManaged`.

use std::alloc::Layout;

use rmm_core::{
    DeviceAccessible, DevicePtr, Error, HasProperty, HostAccessible, MemoryKind, Resource,
    StreamRef, SynchronousResource, check,
};
use rmm_sys::MEM_ATTACH_GLOBAL;

use crate::capability::{calls_for, calls_for_freeing, check_alignment};
use crate::kind::known_kind;
use crate::traits::{free_when_done, name_and_properties};

/// Managed memory from `cudaMallocManaged`, which migrates between host and devices on access.
///
/// Every stream of every device may access it, and so may the host. It can oversubscribe device
/// memory. On devices whose attribute `CONCURRENT_MANAGED_ACCESS` is 0 (on Windows, and before
/// Pascal) the host must not access it while any work runs on the device.
///
/// Alignments above 256 are refused with
/// [`ErrorKind::InvalidArgument`](rmm_core::ErrorKind::InvalidArgument). It has no state: all
/// values are equal, and each frees the memory of any other. Any thread may use it.
///
/// Allocating does not wait for the stream, and no call invalidates a capture. Freeing in stream
/// order synchronizes with the stream first; if that fails, because the stream is being captured or
/// its work has failed, the memory stays allocated.
///
/// ```
/// use std::alloc::Layout;
/// use rmm_core::{DeviceResourceRef, HostResourceRef, SynchronousResource};
/// use rmm_resources::ManagedMemoryResource;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let _machine = rmm_sim::enter();
/// let resource = ManagedMemoryResource::new();
/// let (on_device, on_host) = (DeviceResourceRef::new(&resource), HostResourceRef::new(&resource));
/// let layout = Layout::from_size_align(1 << 20, 256)?;
/// let pointer = on_device.allocate_sync(layout)?;
/// assert_eq!(pointer.0 % 256, 0);
/// // SAFETY: allocated above with this layout, and not used.
/// unsafe { on_host.deallocate_sync(pointer, layout) };
/// # Ok(())
/// # }
/// ```
#[doc(alias = "rmm::mr::managed_memory_resource")]
#[doc(alias = "cuda::legacy_managed_memory_resource")]
#[doc(alias = "cuda::unified_resource")]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct ManagedMemoryResource;

impl ManagedMemoryResource {
    const NAME: &str = "managed";

    /// Makes the resource, without a driver call.
    pub const fn new() -> Self {
        Self
    }
}

/// Allocates in the context of the stream's device, or the current one.
fn allocate(stream: Option<StreamRef<'_>>, layout: Layout) -> Result<DevicePtr, Error> {
    check_alignment(ManagedMemoryResource::NAME, layout)?;
    let driver = calls_for(stream)?;
    let mut pointer = DevicePtr::NULL;
    let (bytes, flags) = (layout.size(), MEM_ATTACH_GLOBAL);
    // SAFETY: `pointer` may be written to.
    let code = unsafe { driver.cuMemAllocManaged(&raw mut pointer, bytes, flags) };
    check("cuMemAllocManaged", code).map_err(|error| error.with_layout(layout))?;
    Ok(pointer)
}

// SAFETY: the driver's blocks are disjoint until they are freed, and aligned to at least 256 bytes;
// larger alignments are refused.
unsafe impl SynchronousResource for ManagedMemoryResource {
    fn do_allocate_sync(&self, layout: Layout) -> Result<DevicePtr, Error> {
        allocate(None, layout)
    }

    unsafe fn do_deallocate_sync(&self, pointer: DevicePtr, _layout: Layout) {
        if let Some(driver) = calls_for_freeing() {
            // SAFETY: by the caller's contract the memory came from `cuMemAllocManaged` and is not
            // freed yet. If the driver refuses, it stays allocated.
            let _ignored = unsafe { driver.cuMemFree_v2(pointer) };
        }
    }

    name_and_properties!(Self::NAME; DeviceAccessible, HostAccessible; MemoryKind);
}

// SAFETY: memory that every stream may use at once is usable by later work, and memory is freed
// after the work that used it has completed.
unsafe impl Resource for ManagedMemoryResource {
    fn do_allocate(&self, stream: StreamRef<'_>, layout: Layout) -> Result<DevicePtr, Error> {
        allocate(Some(stream), layout)
    }

    free_when_done!();
    rmm_core::__by_clone!(to_any);
}

// SAFETY: the memory is attached globally: to every device.
unsafe impl HasProperty<DeviceAccessible> for ManagedMemoryResource {}
// SAFETY: the host may access managed memory.
unsafe impl HasProperty<HostAccessible> for ManagedMemoryResource {}

known_kind!(ManagedMemoryResource, Managed);
