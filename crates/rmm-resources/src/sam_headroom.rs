//! Pageable host memory that prefers the device, except for a headroom.

use std::alloc::Layout;

use rmm_core::{
    CUDA_ALLOCATION_ALIGNMENT, Context, Device, DeviceAccessible, DevicePtr, Error, HasProperty,
    HostAccessible, Resource, StreamRef, SynchronousResource, align_down, check, driver_for_drop,
};
use rmm_sys::{CuDevice, CuMemAdvise, CuMemLocation, CuMemLocationType};

use crate::SystemMemoryResource;
use crate::capability::{calls_for, require_driver};
use crate::traits::{free_when_done, name_and_properties};

/// Memory as from [`SystemMemoryResource`], of which the driver is advised to keep the first part
/// on the device and the rest on the host, so that a number of bytes stays free on the device: the
/// headroom, for allocations that need device memory.
///
/// Each allocation queries the device's free memory `f`. With a headroom `h`, the first `min(bytes,
/// f - h)` bytes, rounded down to 256, are advised to the stream's device (the current one, without
/// a stream), and the others to the host. Advice is not a reservation: a page is placed when it is
/// first touched. The advice is withdrawn when the memory is freed, because the allocator may reuse
/// the addresses.
///
/// Alignment, stream order and threads are as with [`SystemMemoryResource`]. Two are equal if their
/// headrooms are.
///
/// ```
/// use std::alloc::Layout;
/// use rmm_core::SynchronousResource;
/// use rmm_resources::SamHeadroomMemoryResource;
/// # use rmm_sys::CuDeviceAttribute;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let can = CuDeviceAttribute::PAGEABLE_MEMORY_ACCESS;
/// # let _machine = rmm_sim::Machine::builder().attribute(can, 1).enter();
/// let resource = SamHeadroomMemoryResource::new(1 << 30)?;
/// let layout = Layout::from_size_align(1 << 20, 256)?;
/// let pointer = resource.allocate_sync(layout)?;
/// assert_eq!(pointer.0 % 256, 0);
/// // SAFETY: allocated above with this layout, and not used.
/// unsafe { resource.deallocate_sync(pointer, layout) };
/// # Ok(())
/// # }
/// ```
#[doc(alias = "rmm::mr::sam_headroom_memory_resource")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SamHeadroomMemoryResource {
    system: SystemMemoryResource,
    headroom: u64,
}

impl SamHeadroomMemoryResource {
    const NAME: &str = "sam-headroom";

    /// Makes a resource that leaves `headroom` bytes of the device free.
    ///
    /// # Errors
    /// The errors of [`SystemMemoryResource::new`], and
    /// [`ErrorKind::Unsupported`](rmm_core::ErrorKind::Unsupported) if the driver is older than
    /// CUDA 12.2.
    pub fn new(headroom: u64) -> Result<Self, Error> {
        let system = SystemMemoryResource::for_resource(Self::NAME)?;
        require_driver(Self::NAME, 12020, "advice on where memory is kept")?;
        Ok(Self { system, headroom })
    }

    /// The bytes of the device that it leaves free.
    pub fn headroom(&self) -> u64 {
        self.headroom
    }

    /// Advises the driver on the location of the block's parts.
    fn place(self, pointer: DevicePtr, bytes: usize) -> Result<(), Error> {
        let device = Device::current()?.as_raw();
        let room = Device::memory_info()?.free.saturating_sub(self.headroom);
        let on_device = usize::try_from(room).map_or(bytes, |room| room.min(bytes));
        let on_device = align_down(on_device, CUDA_ALLOCATION_ALIGNMENT).unwrap_or(0);
        let rest = DevicePtr(pointer.0 + on_device as u64);
        let set = CuMemAdvise::SET_PREFERRED_LOCATION;
        advise(pointer, on_device, set, at_device(device))?;
        advise(rest, bytes - on_device, set, AT_HOST)
    }
}

const AT_HOST: CuMemLocation = CuMemLocation { kind: CuMemLocationType::HOST, id: 0 };

fn at_device(device: CuDevice) -> CuMemLocation {
    CuMemLocation { kind: CuMemLocationType::DEVICE, id: device.0 }
}

/// Advises the driver on a part of a live block.
fn advise(
    start: DevicePtr,
    bytes: usize,
    advice: CuMemAdvise,
    location: CuMemLocation,
) -> Result<(), Error> {
    if bytes == 0 {
        return Ok(());
    }
    let driver = calls_for(None)?;
    // SAFETY: no memory is read or written; the range belongs to the caller's block.
    check("cuMemAdvise_v2", unsafe { driver.cuMemAdvise_v2(start, bytes, advice, location) })
}

// SAFETY: the memory is that of `SystemMemoryResource`; its location does not change who may access
// it.
unsafe impl SynchronousResource for SamHeadroomMemoryResource {
    fn do_allocate_sync(&self, layout: Layout) -> Result<DevicePtr, Error> {
        let pointer = self.system.do_allocate_sync(layout)?;
        if let Err(error) = self.place(pointer, layout.size()) {
            // SAFETY: allocated just now with this layout, and not used.
            unsafe { self.system.do_deallocate_sync(pointer, layout) };
            return Err(error.with_layout(layout));
        }
        Ok(pointer)
    }

    unsafe fn do_deallocate_sync(&self, pointer: DevicePtr, layout: Layout) {
        if let Some(driver) = driver_for_drop() {
            let unset = CuMemAdvise::UNSET_PREFERRED_LOCATION;
            // SAFETY: no memory is read or written. If the advice stays, that costs speed only.
            let _ignored = unsafe { driver.cuMemAdvise_v2(pointer, layout.size(), unset, AT_HOST) };
        }
        // SAFETY: the caller's contract.
        unsafe { self.system.do_deallocate_sync(pointer, layout) }
    }

    name_and_properties!(Self::NAME; DeviceAccessible, HostAccessible);
}

// SAFETY: every stream may use the memory of `SystemMemoryResource` at once, and it is freed after
// the work that used it has completed.
unsafe impl Resource for SamHeadroomMemoryResource {
    fn do_allocate(&self, stream: StreamRef<'_>, layout: Layout) -> Result<DevicePtr, Error> {
        let _device = stream.own_context().map(Context::enter).transpose()?;
        self.do_allocate_sync(layout)
    }

    free_when_done!();
    rmm_core::__by_clone!(to_any);
}

// SAFETY: the memory is that of `SystemMemoryResource`.
unsafe impl HasProperty<DeviceAccessible> for SamHeadroomMemoryResource {}
// SAFETY: the memory is that of `SystemMemoryResource`.
unsafe impl HasProperty<HostAccessible> for SamHeadroomMemoryResource {}
