//! Virtual memory of the host.

use std::alloc::Layout;
use std::fmt;

use rmm_core::accessible_from::AccessibleFrom;
use rmm_core::siblings::MayBeWaitedFor;
use rmm_core::{
    Device, DeviceAccessible, DevicePtr, Error, ExtendableResource, HasProperty, HostAccessible,
    MemoryKind, Query, Resource, StreamRef, Structure, SynchronousResource,
};

use super::{VirtualMemoryResource, VirtualMemoryStatistics};
use crate::kind::known_kind;

/// Where virtual memory is that is not a device's.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum Location {
    /// The NUMA node of the host that is nearest to the current device
    /// (`CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID`); node 0 where the driver names none.
    #[default]
    HostNumaOfDevice,
    /// A NUMA node of the host, by its number.
    HostNuma(u32),
}

/// Host memory on a NUMA node that is mapped into a reserved address range, for devices and the
/// host at the same addresses.
///
/// It is a [`VirtualMemoryResource`] whose memory is the host's, with the same options
/// ([`build_at`](super::VirtualMemoryResourceBuilder::build_at)): a pool over it grows in place and
/// returns single pages, and its memory can be exported. Memory takes the driver 182 to 268 ms a
/// GiB on the host of an H100: put a pool over it. A request for more than the host had
/// [left](crate::Budget::host_fraction) when the resource was made is refused.
///
/// Frees, streams and alignments are as those of [`VirtualMemoryResource`]; work of any device that
/// has access may use it. The host may use a block while no work does.
///
/// ```
/// use std::alloc::Layout;
/// use rmm_core::{HostResourceRef, SynchronousResource};
/// use rmm_resources::{HostVirtualMemoryResource, Location, VirtualMemoryResource};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let _machine = rmm_sim::enter();
/// let resource = VirtualMemoryResource::builder().build_at(Location::HostNuma(0))?;
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
#[doc(alias = "CU_MEM_LOCATION_TYPE_HOST_NUMA")]
#[derive(Clone, PartialEq, Eq)]
pub struct HostVirtualMemoryResource {
    /// # Invariant
    /// Its memory is the host's, and the host has access to it.
    pages: VirtualMemoryResource,
}

impl HostVirtualMemoryResource {
    pub(super) const NAME: &str = "host-virtual";

    /// Makes a resource on the NUMA node that is nearest to the current device, with pages of the
    /// device's granularity.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](rmm_core::ErrorKind::Unsupported) if the device has no virtual
    /// memory management for memory of the host.
    pub fn new() -> Result<Self, Error> {
        VirtualMemoryResource::builder().build_at(Location::default())
    }

    /// A resource whose space is of memory of the host, to which the host has access.
    pub(super) fn over(pages: VirtualMemoryResource) -> Self {
        Self { pages }
    }

    /// The resource's present statistics.
    pub fn statistics(&self) -> VirtualMemoryStatistics {
        self.pages.statistics()
    }

    /// Grants a device read and write access to all memory of the resource, see
    /// [`VirtualMemoryResource::grant_access`]; it need not be a peer.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn grant_access(&self, device: Device) -> Result<(), Error> {
        self.pages.grant_access(device)
    }
}

impl fmt::Debug for HostVirtualMemoryResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostVirtualMemoryResource")
            .field("page_size", &self.page_size())
            .field("mapped_bytes", &self.statistics().mapped_bytes)
            .finish_non_exhaustive()
    }
}

// SAFETY: that of `pages`.
unsafe impl SynchronousResource for HostVirtualMemoryResource {
    fn do_allocate_sync(&self, layout: Layout) -> Result<DevicePtr, Error> {
        self.pages.do_allocate_sync(layout)
    }

    unsafe fn do_deallocate_sync(&self, pointer: DevicePtr, layout: Layout) {
        // SAFETY: the caller's contract is the same.
        unsafe { self.pages.do_deallocate_sync(pointer, layout) }
    }

    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn structure(&self) -> Structure<'_>
    where
        Self: 'static,
    {
        Structure::default().with_extendable(self)
    }

    rmm_core::__by_clone!(to_any_sync);

    fn provide<'a>(&'a self, query: &mut Query<'a>) {
        query.value(|| MayBeWaitedFor);
        query.value(|| AccessibleFrom(self.pages.space.access.devices()));
        let properties = query.properties(self).has::<DeviceAccessible>().has::<HostAccessible>();
        properties.has_value::<MemoryKind>();
        #[cfg(unix)]
        query.properties(self).has_value::<crate::Export>();
    }
}

// SAFETY: that of `pages`.
unsafe impl ExtendableResource for HostVirtualMemoryResource {
    fn page_size(&self) -> u64 {
        self.pages.page_size()
    }

    fn most_bytes(&self) -> Option<u64> {
        self.pages.most_bytes()
    }

    fn outlives_context(&self) -> bool {
        self.pages.outlives_context()
    }

    fn allocate_at(&self, address: DevicePtr, layout: Layout) -> Result<(), Error> {
        self.pages.allocate_at(address, layout)
    }

    unsafe fn suspend(&self, blocks: &[(DevicePtr, Layout)]) -> Result<(), Error> {
        // SAFETY: the caller's contract is the same.
        unsafe { self.pages.suspend(blocks) }
    }

    fn resume(&self, blocks: &[(DevicePtr, Layout)]) -> Result<(), Error> {
        self.pages.resume(blocks)
    }
}

// SAFETY: that of `pages`.
unsafe impl Resource for HostVirtualMemoryResource {
    fn do_allocate(&self, stream: StreamRef<'_>, layout: Layout) -> Result<DevicePtr, Error> {
        self.pages.do_allocate(stream, layout)
    }

    unsafe fn do_deallocate(&self, stream: StreamRef<'_>, pointer: DevicePtr, layout: Layout) {
        // SAFETY: the caller's contract is the same.
        unsafe { self.pages.do_deallocate(stream, pointer, layout) }
    }

    rmm_core::__by_clone!(to_any);
}

// SAFETY: the device gets access before a block is returned, and keeps it until the block is freed.
unsafe impl HasProperty<DeviceAccessible> for HostVirtualMemoryResource {}

// SAFETY: by the invariant of `pages` the host gets access as the device does.
unsafe impl HasProperty<HostAccessible> for HostVirtualMemoryResource {}

// SAFETY: all memory of the resource is made with the same properties.
#[cfg(unix)]
unsafe impl HasProperty<crate::Export> for HostVirtualMemoryResource {}

#[cfg(unix)]
impl rmm_core::HasPropertyValue<crate::Export> for HostVirtualMemoryResource {
    fn property_value(&self) -> crate::Export {
        rmm_core::HasPropertyValue::<crate::Export>::property_value(&self.pages)
    }
}

known_kind!(HostVirtualMemoryResource, Pinned);
