//! `cudaHostAlloc`.

use std::alloc::Layout;
use std::ffi::{c_uint, c_void};

use rmm_core::{
    DeviceAccessible, DevicePtr, Error, HasProperty, HostAccessible, MemoryKind, Resource,
    StreamRef, SynchronousResource, check,
};
use rmm_sys::{Driver, MEMHOSTALLOC_DEVICEMAP, MEMHOSTALLOC_PORTABLE, MEMHOSTALLOC_WRITECOMBINED};

use crate::capability::{calls_for, calls_for_freeing, check_alignment};
use crate::kind::known_kind;
use crate::traits::{free_when_done, name_and_properties};

bitflags::bitflags! {
    /// Flags of [`PinnedHostMemoryResource`].
    ///
    /// ```
    /// use rmm_resources::PinnedFlags;
    ///
    /// assert_eq!(PinnedFlags::default(), PinnedFlags::PORTABLE | PinnedFlags::MAPPED);
    /// ```
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
    pub struct PinnedFlags: c_uint {
        /// Pinned for the contexts of every device.
        #[doc(alias = "cudaHostAllocPortable")]
        const PORTABLE = MEMHOSTALLOC_PORTABLE;
        /// Mapped into the devices' address space.
        #[doc(alias = "cudaHostAllocMapped")]
        const MAPPED = MEMHOSTALLOC_DEVICEMAP;
        /// Write-combined: fast for the host to write sequentially, very slow for it to read.
        #[doc(alias = "cudaHostAllocWriteCombined")]
        const WRITE_COMBINED = MEMHOSTALLOC_WRITECOMBINED;
    }
}

impl Default for PinnedFlags {
    /// Portable and mapped.
    fn default() -> Self {
        Self::PORTABLE | Self::MAPPED
    }
}

/// Pinned host memory from `cudaHostAlloc`: page-locked, accessible to devices over the bus, and
/// copies to and from it are asynchronous.
///
/// Host and devices access it by the same address. Alignments above 256 are refused with
/// [`ErrorKind::InvalidArgument`](rmm_core::ErrorKind::InvalidArgument). All values are equal,
/// whatever their flags: each frees the memory of any other. Any thread may use it.
///
/// Allocating does not wait for the stream, and no call invalidates a capture. Freeing in stream
/// order synchronizes with the stream first; if that fails, because the stream is being captured or
/// its work has failed, the memory stays allocated. Both are slow for large blocks: put a pool over
/// it.
///
/// ```
/// use std::alloc::Layout;
/// use rmm_core::{HostResourceRef, SynchronousResource};
/// use rmm_resources::PinnedHostMemoryResource;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let _machine = rmm_sim::enter();
/// let resource = PinnedHostMemoryResource::new();
/// let on_host = HostResourceRef::new(&resource);
/// let layout = Layout::array::<u32>(1000)?;
/// let pointer = on_host.allocate_sync(layout)?;
/// let block: *mut u32 = std::ptr::with_exposed_provenance_mut(usize::try_from(pointer.0)?);
/// // SAFETY: the block is of 1000 words that no other code uses.
/// unsafe { block.write(7) };
/// // SAFETY: as above, and it was written to just now.
/// assert_eq!(unsafe { block.read() }, 7);
/// // SAFETY: allocated above with this layout, and not used any more.
/// unsafe { on_host.deallocate_sync(pointer, layout) };
/// # Ok(())
/// # }
/// ```
#[doc(alias = "rmm::mr::pinned_host_memory_resource")]
#[doc(alias = "cuda::legacy_pinned_memory_resource")]
#[doc(alias = "rmm::mr::pinned_memory_resource")]
#[doc(alias = "cuda::pinned_resource")]
#[derive(Clone, Copy, Debug, Default)]
pub struct PinnedHostMemoryResource {
    flags: PinnedFlags,
}

impl PinnedHostMemoryResource {
    const NAME: &str = "pinned";

    /// Makes the resource with the default flags, without a driver call.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes the resource with these flags, without a driver call.
    pub const fn with_flags(flags: PinnedFlags) -> Self {
        Self { flags }
    }

    /// The flags.
    pub fn flags(&self) -> PinnedFlags {
        self.flags
    }
}

impl PartialEq for PinnedHostMemoryResource {
    /// Always equal: every value frees memory in the same way.
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl Eq for PinnedHostMemoryResource {}

/// The block's device address, checked to be the host address and aligned to the layout.
pub(crate) fn common_address(
    driver: &Driver,
    block: *mut c_void,
    layout: Layout,
) -> Result<DevicePtr, Error> {
    let mut pointer = DevicePtr::NULL;
    // SAFETY: `pointer` may be written to, and the block was pinned by the caller.
    let code = unsafe { driver.cuMemHostGetDevicePointer_v2(&raw mut pointer, block, 0) };
    check("cuMemHostGetDevicePointer_v2", code)?;
    let address = block.expose_provenance();
    if pointer.0 != address as u64 {
        let message = "host and device know the memory by different addresses";
        return Err(Error::unsupported(PinnedHostMemoryResource::NAME, message));
    }
    if !address.is_multiple_of(layout.align()) {
        let message = format!("the driver gave the address {address:#x}");
        return Err(Error::unsupported(PinnedHostMemoryResource::NAME, message));
    }
    Ok(pointer)
}

impl PinnedHostMemoryResource {
    /// Allocates in the context of the stream's device, or the current one.
    fn allocate_in(
        self,
        stream: Option<StreamRef<'_>>,
        layout: Layout,
    ) -> Result<DevicePtr, Error> {
        check_alignment(Self::NAME, layout)?;
        let driver = calls_for(stream)?;
        let mut block: *mut c_void = std::ptr::null_mut();
        let (bytes, flags) = (layout.size(), self.flags.bits());
        // SAFETY: `block` may be written to.
        let code = unsafe { driver.cuMemHostAlloc(&raw mut block, bytes, flags) };
        check("cuMemHostAlloc", code).map_err(|error| error.with_layout(layout))?;
        common_address(&driver, block, layout).map_err(|error| {
            // SAFETY: allocated just now, and not used. If the driver refuses, it stays allocated.
            let _ignored = unsafe { driver.cuMemFreeHost(block) };
            error.with_layout(layout)
        })
    }
}

// SAFETY: the driver's blocks are disjoint until they are freed; that devices access the block by
// this address and that it is aligned is checked.
unsafe impl SynchronousResource for PinnedHostMemoryResource {
    fn do_allocate_sync(&self, layout: Layout) -> Result<DevicePtr, Error> {
        self.allocate_in(None, layout)
    }

    unsafe fn do_deallocate_sync(&self, pointer: DevicePtr, _layout: Layout) {
        // An address that came from `cuMemHostAlloc` fits.
        let Ok(address) = usize::try_from(pointer.0) else { return };
        if let Some(driver) = calls_for_freeing() {
            let block: *mut c_void = std::ptr::with_exposed_provenance_mut(address);
            // SAFETY: by the caller's contract the memory came from `cuMemHostAlloc`, is not freed
            // yet, and all uses have completed. If the driver refuses, it stays allocated.
            let _ignored = unsafe { driver.cuMemFreeHost(block) };
        }
    }

    name_and_properties!(Self::NAME; DeviceAccessible, HostAccessible; MemoryKind);
}

// SAFETY: memory that every stream may use at once is usable by later work, and memory is freed
// after the work that used it has completed.
unsafe impl Resource for PinnedHostMemoryResource {
    fn do_allocate(&self, stream: StreamRef<'_>, layout: Layout) -> Result<DevicePtr, Error> {
        self.allocate_in(Some(stream), layout)
    }

    free_when_done!();
    rmm_core::__by_clone!(to_any);
}

// SAFETY: the driver returned the device's address of each block.
unsafe impl HasProperty<DeviceAccessible> for PinnedHostMemoryResource {}
// SAFETY: it is host memory, by its host address.
unsafe impl HasProperty<HostAccessible> for PinnedHostMemoryResource {}

known_kind!(PinnedHostMemoryResource, Pinned);
