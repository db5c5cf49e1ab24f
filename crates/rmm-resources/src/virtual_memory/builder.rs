//! Options for a resource over virtual memory.

use std::ffi::c_int;
use std::sync::Arc;

use rmm_core::{Device, Error, check, driver_in_context};
use rmm_sys::{
    CuDeviceAttribute, CuMemAccessDesc, CuMemAccessFlags, CuMemGranularity, CuMemLocation,
    CuMemLocationType,
};

use super::VirtualMemoryResource;
use super::space::{NAME, PhysicalKind, Space};
use crate::capability::{self, addressable, lacking, require};

/// A builder of [`VirtualMemoryResource`]. Sizes are in bytes.
///
/// ```
/// use rmm_core::{ErrorKind, ExtendableResource};
/// use rmm_resources::VirtualMemoryResource;
///
/// # fn main() -> Result<(), rmm_core::Error> {
/// # let _machine = rmm_sim::enter();
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
    rdma: Rdma,
    shareable: bool,
}

/// Whether RDMA has to be able to access the memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Rdma {
    #[default]
    Off,
    /// Where the device supports it.
    IfSupported,
    Required,
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
    /// [`VirtualMemoryResource::grant_access`] does so later.
    #[doc(alias = "cuMemSetAccess")]
    pub fn accessible_from(mut self, device: Device) -> Self {
        self.accessors.push(device);
        self
    }

    /// Whether network cards may access the memory by `GPUDirect` RDMA, so that it can be
    /// registered (`ibv_reg_mr`); not by default. It is decided when the driver makes the memory,
    /// and cannot be changed later.
    ///
    /// ```
    /// use rmm_core::ErrorKind;
    /// use rmm_resources::VirtualMemoryResource;
    /// use rmm_sys::CuDeviceAttribute;
    ///
    /// # fn main() -> Result<(), rmm_core::Error> {
    /// let attribute = CuDeviceAttribute::GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED;
    /// let machine = rmm_sim::Machine::builder().attribute(attribute, 0).build();
    /// # let _entered = machine.enter();
    /// let refused = VirtualMemoryResource::builder().rdma(true).build();
    /// assert_eq!(refused.unwrap_err().kind(), ErrorKind::Unsupported);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "gpuDirectRDMACapable")]
    pub fn rdma(mut self, required: bool) -> Self {
        self.rdma = if required { Rdma::Required } else { Rdma::Off };
        self
    }

    /// Lets network cards access the memory by `GPUDirect` RDMA, as [`rdma`](Self::rdma) does,
    /// where the device supports it: what the default pool does.
    ///
    /// ```
    /// use rmm_resources::VirtualMemoryResource;
    /// use rmm_sys::CuDeviceAttribute;
    ///
    /// # fn main() -> Result<(), rmm_core::Error> {
    /// let attribute = CuDeviceAttribute::GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED;
    /// let machine = rmm_sim::Machine::builder().attribute(attribute, 0).build();
    /// # let _entered = machine.enter();
    /// let resource = VirtualMemoryResource::builder().rdma_if_supported().build()?;
    /// # drop(resource);
    /// # Ok(())
    /// # }
    /// ```
    pub fn rdma_if_supported(mut self) -> Self {
        self.rdma = Rdma::IfSupported;
        self
    }

    /// Whether the memory can be exported to other processes as file descriptors; not by default.
    /// It is the driver that exports: `cuMemRetainAllocationHandle` finds the physical memory at an
    /// address, and `cuMemExportToShareableHandle` makes the descriptor. Communication libraries do
    /// this when a buffer is registered with them.
    ///
    /// ```
    /// use rmm_resources::VirtualMemoryResource;
    /// use rmm_sys::CuDeviceAttribute;
    ///
    /// # fn main() -> Result<(), rmm_core::Error> {
    /// let attribute = CuDeviceAttribute::HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED;
    /// let machine = rmm_sim::Machine::builder().attribute(attribute, 1).build();
    /// # let _entered = machine.enter();
    /// let resource = VirtualMemoryResource::builder().shareable(true).build()?;
    /// # drop(resource);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR")]
    pub fn shareable(mut self, shareable: bool) -> Self {
        self.shareable = shareable;
        self
    }

    /// Makes the resource for the current device. Reserves no addresses yet.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](rmm_core::ErrorKind::Unsupported) if the device has no virtual
    /// memory management, or none that is shareable or that RDMA can access where that is set, or
    /// another device is not its peer;
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
            access.push(access_of(other, device)?);
        }
        let kind = PhysicalKind {
            device,
            location,
            rdma: self.rdma.resolve(device)?,
            shareable: self.shareable,
        };
        if self.shareable {
            let needed = CuDeviceAttribute::HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED;
            require(name, device, needed, "cannot export virtual memory as file descriptors")?;
        }
        let granularity = granularity_of(kind)?;
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
        let space = Space::new(kind, access, page, address_space, memory);
        Ok(VirtualMemoryResource { space: Arc::new(space) })
    }
}

impl Rdma {
    /// Whether memory of the device is made for RDMA.
    fn resolve(self, device: Device) -> Result<bool, Error> {
        let attribute = CuDeviceAttribute::GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED;
        match self {
            Self::Off => Ok(false),
            Self::IfSupported => Ok(capability::attribute(device, attribute)? != 0),
            Self::Required => {
                require(NAME, device, attribute, "has no virtual memory that RDMA can access")?;
                Ok(true)
            }
        }
    }
}

/// Access of another device to the memory of `owner`.
///
/// # Errors
/// [`ErrorKind::Unsupported`](rmm_core::ErrorKind::Unsupported) if they are not peers.
pub(super) fn access_of(other: Device, owner: Device) -> Result<CuMemAccessDesc, Error> {
    if !other.can_access_peer(owner)? {
        let what = format!("cannot be reached from device {}", other.ordinal());
        return Err(lacking(NAME, owner, &what));
    }
    Ok(CuMemAccessDesc { location: location_of(other)?, flags: CuMemAccessFlags::READ_WRITE })
}

fn location_of(device: Device) -> Result<CuMemLocation, Error> {
    let id = c_int::try_from(device.ordinal())
        .map_err(|_| Error::invalid_argument("virtual", "the device's number is too large"))?;
    Ok(CuMemLocation { kind: CuMemLocationType::DEVICE, id })
}

/// The minimum granularity of the device's physical memory.
fn granularity_of(kind: PhysicalKind) -> Result<usize, Error> {
    let (driver, _) = driver_in_context()?;
    let properties = kind.properties();
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
