//! Options for a resource over virtual memory.

use std::ffi::c_int;
use std::sync::Arc;

use rmm_core::{Device, Error, check, driver_in_context};
use rmm_sys::{
    CuDeviceAttribute, CuMemAccessDesc, CuMemAccessFlags, CuMemAllocationProp, CuMemGranularity,
    CuMemLocation, CuMemLocationType,
};

use super::VirtualMemoryResource;
use super::space::{NAME, Space};
use crate::capability::{addressable, lacking, require};

/// A builder of [`VirtualMemoryResource`]. Sizes are in bytes.
///
/// ```
/// use rmm_core::{ErrorKind, ExtendableResource};
/// use rmm_resources::VirtualMemoryResource;
///
/// # fn main() -> Result<(), rmm_core::Error> {
/// # let machine = rmm_sim::Machine::new();
/// # let _entered = machine.enter();
/// let builder = VirtualMemoryResource::builder();
/// let resource = builder.page_size(32 << 20).address_space(1 << 40).build()?;
/// assert_eq!(resource.page_size(), 32 << 20);
///
/// let odd = VirtualMemoryResource::builder().page_size(3 << 20).build();
/// assert_eq!(odd.unwrap_err().kind(), ErrorKind::InvalidArgument);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "a builder does nothing until it is built"]
pub struct VirtualMemoryResourceBuilder {
    address_space: Option<u64>,
    page_size: Option<u64>,
    accessors: Vec<Device>,
}

impl VirtualMemoryResourceBuilder {
    /// Bytes of address space to reserve at a time; twice the device's memory by default. Addresses
    /// cost almost nothing, and let blocks be adjacent. When they are used up, as many again are
    /// reserved elsewhere.
    #[doc(alias = "cuMemAddressReserve")]
    pub fn address_space(mut self, bytes: u64) -> Self {
        self.address_space = Some(bytes);
        self
    }

    /// The page size to which blocks are rounded up: a power of two and a multiple of the device's
    /// minimum granularity, which is the default (2 MiB). Larger pages take fewer driver calls, and
    /// are unmapped less often.
    #[doc(alias = "cuMemGetAllocationGranularity")]
    pub fn page_size(mut self, bytes: u64) -> Self {
        self.page_size = Some(bytes);
        self
    }

    /// Grants access to another device, which must be a peer of the current one.
    #[doc(alias = "cuMemSetAccess")]
    pub fn accessible_from(mut self, device: Device) -> Self {
        self.accessors.push(device);
        self
    }

    /// Makes the resource for the current device. Reserves no addresses yet.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](rmm_core::ErrorKind::Unsupported) if the device has no virtual
    /// memory management, or another device is not its peer;
    /// [`ErrorKind::InvalidArgument`](rmm_core::ErrorKind::InvalidArgument) if the page size is not
    /// a power of two or not a multiple of the device's granularity.
    pub fn build(self) -> Result<VirtualMemoryResource, Error> {
        let name = NAME;
        let device = Device::current()?;
        let needed = CuDeviceAttribute::VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED;
        require(name, device, needed, "has no virtual memory management")?;
        let location = location_of(device)?;
        let mut access = vec![CuMemAccessDesc { location, flags: CuMemAccessFlags::READ_WRITE }];
        for other in self.accessors.into_iter().filter(|&other| other != device) {
            if !other.can_access_peer(device)? {
                let what = format!("cannot be reached from device {}", other.ordinal());
                return Err(lacking(name, device, &what));
            }
            let location = location_of(other)?;
            access.push(CuMemAccessDesc { location, flags: CuMemAccessFlags::READ_WRITE });
        }
        let granularity = granularity_of(location)?;
        let page = match self.page_size {
            Some(bytes) => addressable(name, "page size", bytes)?,
            None => granularity,
        };
        if !page.is_power_of_two() || !page.is_multiple_of(granularity) {
            let message = format!(
                "page size {page} is not a power of two that is a multiple of {granularity} bytes"
            );
            return Err(Error::invalid_argument(name, message));
        }
        let memory = device.total_memory()?;
        let address_space = self.address_space.unwrap_or(memory.saturating_mul(2));
        let address_space = addressable(name, "address space", address_space)?;
        let space = Space::new(location, access, page, address_space, memory);
        Ok(VirtualMemoryResource { space: Arc::new(space) })
    }
}

fn location_of(device: Device) -> Result<CuMemLocation, Error> {
    let id = c_int::try_from(device.ordinal())
        .map_err(|_| Error::invalid_argument("virtual", "the device's number is too large"))?;
    Ok(CuMemLocation { kind: CuMemLocationType::DEVICE, id })
}

/// The minimum granularity of the device's physical memory.
fn granularity_of(location: CuMemLocation) -> Result<usize, Error> {
    let (driver, _) = driver_in_context()?;
    let properties = CuMemAllocationProp::pinned(location);
    let mut bytes = 0;
    // SAFETY: `bytes` may be written to, and the properties read.
    let code = unsafe {
        driver.cuMemGetAllocationGranularity(
            &raw mut bytes,
            &raw const properties,
            CuMemGranularity::RECOMMENDED,
        )
    };
    check("cuMemGetAllocationGranularity", code)?;
    Ok(bytes.max(rmm_core::CUDA_ALLOCATION_ALIGNMENT))
}
