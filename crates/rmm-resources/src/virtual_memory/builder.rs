//! Options for a resource over virtual memory.

use std::ffi::c_int;
use std::sync::Arc;

use rmm_core::{Device, Error, check, driver_in_context};
use rmm_sys::{
    CuDeviceAttribute, CuMemAccessDesc, CuMemAccessFlags, CuMemGranularity, CuMemHandle,
    CuMemLocation, CuMemLocationType, CuResult,
};

use super::space::{NAME, PhysicalKind, Space};
use super::{HostVirtualMemoryResource, Location, VirtualMemoryResource};
use crate::capability::{self, addressable, lacking, require};
use crate::{Budget, ExportHandleTypes};

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
    handles: Handles,
}

/// The handle types that the memory is made for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Handles {
    All(ExportHandleTypes),
    /// The first of fabric handles and file descriptors that the device can make.
    Any(ExportHandleTypes),
    /// These, or none if the device cannot make them.
    IfSupported(ExportHandleTypes),
}

impl Default for Handles {
    fn default() -> Self {
        Self::All(ExportHandleTypes::empty())
    }
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

    /// The types of handles as which the memory can be exported to other processes; none by
    /// default. It has to be all of them.
    ///
    /// `rmm::export` makes the handles, and communication libraries do it when a buffer is
    /// registered with them.
    ///
    /// ```
    /// use rmm_core::ErrorKind;
    /// use rmm_resources::{ExportHandleTypes, VirtualMemoryResource};
    ///
    /// # fn main() -> Result<(), rmm_core::Error> {
    /// # let _machine = rmm_sim::enter();
    /// let types = ExportHandleTypes::POSIX_FILE_DESCRIPTOR;
    /// let resource = VirtualMemoryResource::builder().export(types).build()?;
    /// # drop(resource);
    /// let types = types | ExportHandleTypes::FABRIC; // there is no NVLink domain here
    /// let refused = VirtualMemoryResource::builder().export(types).build();
    /// assert_eq!(refused.unwrap_err().kind(), ErrorKind::Unsupported);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "requestedHandleTypes")]
    pub fn export(self, types: ExportHandleTypes) -> Self {
        self.with_handles(Handles::All(types))
    }

    /// Fabric handles if the device can make them, else file descriptors, of those that are named.
    /// A page is made to find out, since devices that are in no `NVLink` domain say that they can
    /// make fabric handles, too, and do not.
    ///
    /// ```
    /// use rmm_core::Introspect;
    /// use rmm_resources::{Export, ExportHandleTypes, VirtualMemoryResource};
    ///
    /// # fn main() -> Result<(), rmm_core::Error> {
    /// # let _machine = rmm_sim::enter();
    /// let either = ExportHandleTypes::FABRIC | ExportHandleTypes::POSIX_FILE_DESCRIPTOR;
    /// let resource = VirtualMemoryResource::builder().export_any_of(either).build()?;
    /// let export = resource.try_property::<Export>().expect("it says so");
    /// assert_eq!(export.handles, ExportHandleTypes::POSIX_FILE_DESCRIPTOR);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "CU_MEM_HANDLE_TYPE_FABRIC")]
    pub fn export_any_of(self, types: ExportHandleTypes) -> Self {
        self.with_handles(Handles::Any(types))
    }

    /// Makes the memory for these types of handles where the device can, and for none elsewhere:
    /// what the default pool does for file descriptors. A page is made to find out; for none, too,
    /// if there is no memory for it.
    ///
    /// ```
    /// use rmm_core::Introspect;
    /// use rmm_resources::{Export, ExportHandleTypes, VirtualMemoryResource};
    /// use rmm_sys::CuDeviceAttribute;
    ///
    /// # fn main() -> Result<(), rmm_core::Error> {
    /// let attribute = CuDeviceAttribute::HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED;
    /// let machine = rmm_sim::Machine::builder().attribute(attribute, 0).build();
    /// # let _entered = machine.enter();
    /// let types = ExportHandleTypes::POSIX_FILE_DESCRIPTOR;
    /// let resource = VirtualMemoryResource::builder().export_if_supported(types).build()?;
    /// let export = resource.try_property::<Export>().expect("it says so");
    /// assert!(export.handles.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub fn export_if_supported(self, types: ExportHandleTypes) -> Self {
        self.with_handles(Handles::IfSupported(types))
    }

    pub(super) fn with_handles(mut self, handles: Handles) -> Self {
        self.handles = handles;
        self
    }

    /// Whether the memory can be exported as file descriptors:
    /// [`export`](Self::export) of that type, or of none.
    ///
    /// ```
    /// use rmm_resources::VirtualMemoryResource;
    ///
    /// # fn main() -> Result<(), rmm_core::Error> {
    /// # let _machine = rmm_sim::enter();
    /// let resource = VirtualMemoryResource::builder().shareable(true).build()?;
    /// # drop(resource);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR")]
    pub fn shareable(self, shareable: bool) -> Self {
        let file = ExportHandleTypes::POSIX_FILE_DESCRIPTOR;
        self.export(if shareable { file } else { ExportHandleTypes::empty() })
    }

    /// Makes the resource for the current device. Reserves no addresses yet.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](rmm_core::ErrorKind::Unsupported) if the device has no virtual
    /// memory management, or none that can be exported or that RDMA can access where that is set,
    /// or another device is not its peer;
    /// [`ErrorKind::InvalidArgument`](rmm_core::ErrorKind::InvalidArgument) if the page size is not
    /// a power of two or not a multiple of the device's granularity.
    pub fn build(self) -> Result<VirtualMemoryResource, Error> {
        let device = device_with_virtual_memory()?;
        let location = location_of(device)?;
        let mut access = vec![own_access_of(device)?];
        for &other in self.accessors.iter().filter(|&&other| other != device) {
            access.push(access_of(other, device)?);
        }
        let rdma = self.rdma.resolve(device)?;
        let memory = device.total_memory()?;
        self.build_of(device, location, access, rdma, memory)
    }

    /// Makes a resource whose memory is the host's, for the current device and the host.
    ///
    /// ```
    /// use rmm_resources::{Location, VirtualMemoryResource};
    ///
    /// # fn main() -> Result<(), rmm_core::Error> {
    /// # let _machine = rmm_sim::enter();
    /// let builder = VirtualMemoryResource::builder().page_size(32 << 20);
    /// let resource = builder.build_at(Location::HostNumaOfDevice)?;
    /// # drop(resource);
    /// let elsewhere = VirtualMemoryResource::builder().build_at(Location::HostNuma(7));
    /// assert!(elsewhere.is_err()); // there is no such node
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`build`](Self::build);
    /// [`ErrorKind::Unsupported`](rmm_core::ErrorKind::Unsupported) if the device has no virtual
    /// memory management for memory of the host, or if RDMA has to access it;
    /// [`ErrorKind::InvalidArgument`](rmm_core::ErrorKind::InvalidArgument) if there is no such
    /// node.
    #[doc(alias = "CU_MEM_LOCATION_TYPE_HOST_NUMA")]
    pub fn build_at(self, location: Location) -> Result<HostVirtualMemoryResource, Error> {
        let device = device_with_virtual_memory()?;
        let needed = CuDeviceAttribute::HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED;
        let what = "has no virtual memory management for memory of the host";
        require(NAME, device, needed, what)?;
        let id = match location {
            Location::HostNuma(node) => c_int::try_from(node)
                .map_err(|_| Error::invalid_argument(NAME, "the node's number is too large"))?,
            Location::HostNumaOfDevice => {
                capability::attribute(device, CuDeviceAttribute::HOST_NUMA_ID)?.max(0)
            }
        };
        let node = CuMemLocation { kind: CuMemLocationType::HOST_NUMA, id };
        let flags = CuMemAccessFlags::READ_WRITE;
        let mut access = vec![own_access_of(device)?, CuMemAccessDesc { location: node, flags }];
        for &other in self.accessors.iter().filter(|&&other| other != device) {
            access.push(own_access_of(other)?);
        }
        if self.rdma == Rdma::Required {
            return Err(lacking(NAME, device, "has no virtual memory of the host for RDMA"));
        }
        let named = |error: Error| match error.code() {
            Some(code) if is_refusal(code) => {
                let message = format!("the driver has no memory of NUMA node {id} of the host");
                Error::invalid_argument(NAME, message).with_source(error)
            }
            _ => error,
        };
        let handles = ExportHandleTypes::empty();
        granularity_of(PhysicalKind { device, location: node, rdma: false, handles })
            .map_err(named)?;
        let left = Budget::host_fraction(1.0).resolve();
        let memory = left.or_else(|_| device.total_memory())?;
        let pages = self.build_of(device, node, access, false, memory)?;
        // The driver says whether there is such a node when it makes memory.
        pages.space.check_kind().map_err(named)?;
        Ok(HostVirtualMemoryResource::over(pages))
    }

    /// Makes a resource of at most `memory` bytes.
    fn build_of(
        self,
        device: Device,
        location: CuMemLocation,
        access: Vec<CuMemAccessDesc>,
        rdma: bool,
        memory: u64,
    ) -> Result<VirtualMemoryResource, Error> {
        let name = NAME;
        let handles = ExportHandleTypes::empty();
        let kind = self.handles.resolve(PhysicalKind { device, location, rdma, handles })?;
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
        let address_space = self.address_space.unwrap_or(memory.saturating_mul(2));
        let address_space = addressable(name, "address space", address_space)?;
        let space = Space::new(kind, access, page, address_space, memory);
        let space = Arc::new(space);
        space.note();
        Ok(VirtualMemoryResource { space })
    }
}

impl Handles {
    /// Memory of this kind that can be exported so.
    fn resolve(self, kind: PhysicalKind) -> Result<PhysicalKind, Error> {
        let file = ExportHandleTypes::POSIX_FILE_DESCRIPTOR;
        let fabric = ExportHandleTypes::FABRIC;
        let (types, candidates) = match self {
            Self::All(types) => (types, vec![types]),
            Self::Any(types) => (types, vec![types & fabric, types & file]),
            Self::IfSupported(types) => {
                let exportable = PhysicalKind { handles: types, ..kind };
                let none = ExportHandleTypes::empty();
                let can = exportable.can_export()?;
                return Ok(PhysicalKind { handles: if can { types } else { none }, ..kind });
            }
        };
        if !(file | fabric).contains(types) {
            let message = format!("virtual memory has no handles of the types {types:?}");
            return Err(Error::unsupported(NAME, message));
        }
        if types.is_empty() {
            return Ok(PhysicalKind { handles: types, ..kind });
        }
        let mut refused = Error::unsupported(NAME, "there is no type of handle to export");
        for handles in candidates.into_iter().filter(|handles| !handles.is_empty()) {
            let kind = PhysicalKind { handles, ..kind };
            match kind.check_export() {
                Ok(()) => return Ok(kind),
                Err(error) => refused = error,
            }
        }
        Err(refused)
    }
}

impl PhysicalKind {
    /// Fails if the device cannot make memory for these handles.
    fn check_export(self) -> Result<(), Error> {
        let device = self.device;
        if self.handles.contains(ExportHandleTypes::POSIX_FILE_DESCRIPTOR) {
            let needed = CuDeviceAttribute::HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED;
            require(NAME, device, needed, "cannot export virtual memory as file descriptors")?;
        }
        if !self.handles.contains(ExportHandleTypes::FABRIC) {
            return Ok(());
        }
        let what = "cannot export virtual memory as fabric handles";
        require(NAME, device, CuDeviceAttribute::HANDLE_TYPE_FABRIC_SUPPORTED, what)?;
        // The attribute says nothing of the NVLink domain and its IMEX channel.
        let made = granularity_of(self).and_then(|page| self.probe(page));
        made.map_err(|error| match error.code() {
            Some(code) if is_refusal(code) => lacking(NAME, device, what).with_source(error),
            _ => error,
        })
    }

    /// Whether the device makes memory for these handles: a page of it, since a sandbox may refuse
    /// what the attributes allow. Not if memory is used up, which says nothing of that.
    fn can_export(self) -> Result<bool, Error> {
        match self.check_export() {
            Err(error) if error.is_unsupported() => return Ok(false),
            checked => checked?,
        }
        match self.probe(granularity_of(self)?) {
            Ok(()) => Ok(true),
            Err(error) if error.is_out_of_memory() => Ok(false),
            Err(error) if error.code().is_some_and(is_refusal) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Makes a page of the memory, and releases it.
    pub(super) fn probe(self, page: usize) -> Result<(), Error> {
        let calls = capability::calls_for(None)?;
        let properties = self.properties();
        let mut memory = CuMemHandle(0);
        // SAFETY: `memory` may be written to, and the properties read.
        let code = unsafe { calls.cuMemCreate(&raw mut memory, page, &raw const properties, 0) };
        check("cuMemCreate", code)?;
        // SAFETY: created just now, and used nowhere else.
        check("cuMemRelease", unsafe { calls.cuMemRelease(memory) })
    }
}

/// Whether the driver does not make such memory on this machine.
fn is_refusal(code: CuResult) -> bool {
    [CuResult::NOT_PERMITTED, CuResult::NOT_SUPPORTED, CuResult::INVALID_VALUE].contains(&code)
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

/// The current device, which has virtual memory.
fn device_with_virtual_memory() -> Result<Device, Error> {
    let device = Device::current()?;
    let needed = CuDeviceAttribute::VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED;
    require(NAME, device, needed, "has no virtual memory management")?;
    Ok(device)
}

/// Access of a device to its own memory, or to that of the host.
pub(super) fn own_access_of(device: Device) -> Result<CuMemAccessDesc, Error> {
    Ok(CuMemAccessDesc { location: location_of(device)?, flags: CuMemAccessFlags::READ_WRITE })
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
    own_access_of(other)
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
