//! Device memory through virtual memory management (`cuMemMap`).

mod addresses;
mod builder;
mod host;
mod named_export;
mod page_set;
mod reserved;
mod space;

use std::alloc::Layout;
use std::fmt;
use std::sync::Arc;

use rmm_core::accessible_from::AccessibleFrom;
use rmm_core::driver_pools::describe_driver_pools;
use rmm_core::known_contexts::is_done_or_ended;
use rmm_core::siblings::{MayBeWaitedFor, allocate_with, of_device};
use rmm_core::{
    Device, DeviceAccessible, DevicePtr, Error, ExtendableResource, HasProperty, MemoryKind, Query,
    Resource, StreamRef, Structure, SynchronousResource, fork,
};

pub use builder::VirtualMemoryResourceBuilder;
pub use host::{HostVirtualMemoryResource, Location};
pub use named_export::NamedExport;
pub use reserved::ReservedAddresses;
pub(crate) use space::Space;
pub use space::VirtualMemoryStatistics;
use space::{NAME, Placement};

use crate::capability::{calls_for_freeing, check_alignment};
use crate::kind::known_kind;

/// Device memory that is mapped into a reserved address range, so that successive blocks are
/// adjacent where possible, and a block can be allocated at a given address.
///
/// It is meant as the upstream of a pool, which grows in place through [`ExtendableResource`], by
/// what is missing instead of by another block, and unmaps free memory in the middle of an extent.
/// Give each pool its own resource: two that share one cannot both grow in place.
///
/// Blocks are rounded up to the page size (2 MiB by default), and each takes four driver calls,
/// about 36 us on an H200, whatever its size. All memory belongs to the device that was current
/// when the resource was made. Alignments above 256 are refused with
/// [`ErrorKind::InvalidArgument`](rmm_core::ErrorKind::InvalidArgument).
///
/// Allocating does not wait for the stream, whose device must have access to the memory:
/// [`ErrorKind::InvalidArgument`](rmm_core::ErrorKind::InvalidArgument) otherwise. No call
/// invalidates a capture. Freeing unmaps the block, which does not wait for the device:
/// [`deallocate_sync`](SynchronousResource::deallocate_sync) requires that all uses have completed,
/// and [`deallocate`](Resource::deallocate) synchronizes with the stream first; if that fails,
/// because it is being captured or its work has failed, the memory stays allocated. If the stream
/// has ended with its context, a free waits for the primary contexts of all devices, and for others
/// that this library knows.
///
/// It is a handle: clones share the address range, and are equal. Dropping the last clone frees the
/// range; a block that was not freed stays mapped. Any thread may use it.
///
/// ```
/// use std::alloc::Layout;
/// use rmm_core::SynchronousResource;
/// use rmm_resources::VirtualMemoryResource;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let _machine = rmm_sim::enter();
/// let resource = VirtualMemoryResource::new()?;
/// let layout = Layout::from_size_align(2 << 20, 256)?;
/// let (first, second) = (resource.allocate_sync(layout)?, resource.allocate_sync(layout)?);
/// assert_eq!(second.0, first.0 + (2 << 20)); // one piece of memory
/// // SAFETY: allocated above with this layout, and not used.
/// unsafe { resource.deallocate_sync(first, layout) };
/// assert_eq!(resource.statistics().mapped_bytes, 2 << 20);
/// # // SAFETY: as above.
/// # unsafe { resource.deallocate_sync(second, layout) };
/// # Ok(())
/// # }
/// ```
#[doc(alias = "cuMemAddressReserve")]
#[doc(alias = "cuMemCreate")]
#[doc(alias = "cuMemMap")]
#[derive(Clone)]
pub struct VirtualMemoryResource {
    space: Arc<Space>,
}

impl VirtualMemoryResource {
    /// Makes a resource of the current device, with pages of the device's granularity.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](rmm_core::ErrorKind::Unsupported) if the device has no virtual
    /// memory management.
    pub fn new() -> Result<Self, Error> {
        Self::builder().build()
    }

    /// Options for a new resource.
    pub fn builder() -> VirtualMemoryResourceBuilder {
        VirtualMemoryResourceBuilder::default()
    }

    /// The resource's present statistics.
    pub fn statistics(&self) -> VirtualMemoryStatistics {
        self.space.statistics()
    }

    /// Grants a device read and write access to all memory of the resource, now and later. Nothing
    /// happens if it has access.
    ///
    /// Takes a driver call for each block that is mapped. Work that uses the memory may go on.
    ///
    /// ```
    /// use rmm_core::{CudaStream, Device, Resource};
    /// use rmm_resources::VirtualMemoryResource;
    ///
    /// # fn main() -> Result<(), rmm_core::Error> {
    /// # let _machine = rmm_sim::Machine::builder().devices(2).enter();
    /// let (resource, other) = (VirtualMemoryResource::new()?, Device::new(1)?);
    /// resource.grant_access(other)?;
    /// let stream = { let _current = other.make_current()?; CudaStream::new()? };
    /// let layout = std::alloc::Layout::from_size_align(1 << 20, 256).unwrap();
    /// let block = resource.allocate(&stream, layout)?; // of device 0, for work of device 1
    /// # // SAFETY: allocated above with this layout.
    /// # unsafe { resource.deallocate(&stream, block, layout) };
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](rmm_core::ErrorKind::Unsupported) if it is not a peer of the
    /// resource's device; or if the driver refuses: then memory that is allocated later is as
    /// before.
    #[doc(alias = "cuMemSetAccess")]
    pub fn grant_access(&self, device: Device) -> Result<(), Error> {
        fork::check()?;
        if self.space.access.includes(device) {
            return Ok(());
        }
        let access = if self.space.is_on_host() {
            builder::own_access_of(device)?
        } else {
            builder::access_of(device, self.space.device())?
        };
        self.space.access.grant(access)
    }

    fn allocate_in(&self, placement: Placement, layout: Layout) -> Result<DevicePtr, Error> {
        check_alignment(NAME, layout)?;
        let allocate =
            || self.space.allocate(placement, layout).map_err(|error| error.with_layout(layout));
        let kind = if self.space.is_on_host() { MemoryKind::Pinned } else { MemoryKind::Device };
        let others = || of_device(self.space.device(), kind);
        allocate_with(None, layout.size() as u64, allocate, others)
    }
}

impl fmt::Debug for VirtualMemoryResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let VirtualMemoryStatistics { reserved_bytes, mapped_bytes, blocks, .. } =
            self.statistics();
        f.debug_struct("VirtualMemoryResource")
            .field("page_size", &self.space.page)
            .field("reserved_bytes", &reserved_bytes)
            .field("mapped_bytes", &mapped_bytes)
            .field("blocks", &blocks)
            .finish_non_exhaustive()
    }
}

impl PartialEq for VirtualMemoryResource {
    /// Whether both are handles to the same address range.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.space, &other.space)
    }
}

impl Eq for VirtualMemoryResource {}

// SAFETY: an address belongs to one block at a time, each block has its own physical memory, and a
// page is aligned to at least 256 bytes; larger alignments are refused. Equal handles share the
// address range.
unsafe impl SynchronousResource for VirtualMemoryResource {
    fn do_allocate_sync(&self, layout: Layout) -> Result<DevicePtr, Error> {
        self.allocate_in(Placement::Anywhere, layout)
    }

    unsafe fn do_deallocate_sync(&self, pointer: DevicePtr, layout: Layout) {
        if let Some(driver) = calls_for_freeing() {
            // SAFETY: the caller's contract.
            unsafe { self.space.free(&driver, pointer, layout) };
        }
    }

    fn name(&self) -> &'static str {
        NAME
    }

    fn structure(&self) -> Structure<'_>
    where
        Self: 'static,
    {
        Structure::default().with_extendable(self)
    }

    rmm_core::__by_clone!(to_any_sync);

    fn provide<'a>(&'a self, query: &mut Query<'a>) {
        query.value(|| MayBeWaitedFor).describe(describe_driver_pools);
        query.value(|| AccessibleFrom(self.space.access.devices()));
        query.properties(self).has::<DeviceAccessible>().has_value::<MemoryKind>();
        #[cfg(unix)]
        query.properties(self).has_value::<crate::Export>();
    }
}

// SAFETY: blocks start at multiples of the page size and occupy their size rounded up to pages, in
// a range that the same devices may access.
unsafe impl ExtendableResource for VirtualMemoryResource {
    fn page_size(&self) -> u64 {
        self.space.page as u64
    }

    fn most_bytes(&self) -> Option<u64> {
        Some(self.space.memory)
    }

    fn outlives_context(&self) -> bool {
        true
    }

    fn allocate_at(&self, address: DevicePtr, layout: Layout) -> Result<(), Error> {
        if !address.0.is_multiple_of(self.space.page as u64) || layout.size() == 0 {
            let message = format!(
                "the block is empty, or its address {:#x} is not a multiple of the page size {}",
                address.0, self.space.page
            );
            return Err(Error::invalid_argument(NAME, message).with_layout(layout));
        }
        self.allocate_in(Placement::At(address), layout).map(|_| ())
    }

    unsafe fn suspend(&self, blocks: &[(DevicePtr, Layout)]) -> Result<(), Error> {
        // SAFETY: the caller's contract.
        unsafe { self.space.suspend(blocks) }
    }

    fn resume(&self, blocks: &[(DevicePtr, Layout)]) -> Result<(), Error> {
        self.space.resume(blocks)
    }
}

// SAFETY: memory that every stream may use at once is usable by later work, and memory is unmapped
// after the work that used it has completed.
unsafe impl Resource for VirtualMemoryResource {
    fn do_allocate(&self, stream: StreamRef<'_>, layout: Layout) -> Result<DevicePtr, Error> {
        check_alignment(NAME, layout)?;
        self.space.check_device(stream).map_err(|error| error.with_layout(layout))?;
        self.do_allocate_sync(layout)
    }

    unsafe fn do_deallocate(&self, stream: StreamRef<'_>, pointer: DevicePtr, layout: Layout) {
        if is_done_or_ended(stream) {
            // SAFETY: the caller's contract; the uses that are ordered before this place on the
            // stream have completed.
            unsafe { self.do_deallocate_sync(pointer, layout) }
        }
    }

    rmm_core::__by_clone!(to_any);
}

// SAFETY: the device gets access before a block is returned, and keeps it until the block is freed.
unsafe impl HasProperty<DeviceAccessible> for VirtualMemoryResource {}

// SAFETY: all memory of the resource is made with the same properties.
#[cfg(unix)]
unsafe impl HasProperty<crate::Export> for VirtualMemoryResource {}

#[cfg(unix)]
impl rmm_core::HasPropertyValue<crate::Export> for VirtualMemoryResource {
    fn property_value(&self) -> crate::Export {
        crate::Export::new(self.space.handle_types(), self.space.has_rdma())
    }
}

known_kind!(VirtualMemoryResource, Device);
