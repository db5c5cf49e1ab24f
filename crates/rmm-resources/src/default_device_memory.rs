//! Device memory for pools: virtual memory where the device has it, `cudaMalloc` elsewhere.

use std::fmt;

use rmm_core::{AnyResource, Device, Error, Introspect, SynchronousResource};

use crate::{CudaMemoryResource, ExportHandleTypes, VirtualMemoryResource};

/// What the memory of a default pool is.
#[doc(alias = "Backing")]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum DefaultDeviceMemory {
    /// [`VirtualMemoryResource`]: a pool grows and shrinks in place, holds less, and can
    /// sleep. The driver makes no legacy IPC handle (`cudaIpcGetMemHandle`) of it;
    /// `docs/default-pool.md` lists what else differs.
    #[doc(alias = "cuMemCreate")]
    VirtualMemory,
    /// [`CudaMemoryResource`]: memory that every library takes.
    #[doc(alias = "cudaMalloc")]
    CudaMalloc,
}

impl DefaultDeviceMemory {
    /// A resource to put a pool over: [virtual memory](VirtualMemoryResource) where the current
    /// device has it, for RDMA and for [export](crate::export_range) as file descriptors if the
    /// device can, and [`cudaMalloc`](CudaMemoryResource) elsewhere.
    ///
    /// ```
    /// use rmm_resources::DefaultDeviceMemory;
    /// use rmm_sys::CuDeviceAttribute;
    ///
    /// # fn main() -> Result<(), rmm_core::Error> {
    /// # {
    /// # let machine = rmm_sim::enter();
    /// let memory = DefaultDeviceMemory::of_device()?;
    /// assert_eq!(DefaultDeviceMemory::of(&memory), Some(DefaultDeviceMemory::VirtualMemory));
    /// # }
    ///
    /// // An older device:
    /// let attribute = CuDeviceAttribute::VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED;
    /// let machine = rmm_sim::Machine::builder().attribute(attribute, 0).build();
    /// # let _entered = machine.enter();
    /// let memory = DefaultDeviceMemory::of_device()?;
    /// assert_eq!(DefaultDeviceMemory::of(&memory), Some(DefaultDeviceMemory::CudaMalloc));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If there is no driver or no device, or the driver fails otherwise than by lacking virtual
    /// memory.
    pub fn of_device() -> Result<AnyResource, Error> {
        let device = Device::current()?;
        let file = ExportHandleTypes::POSIX_FILE_DESCRIPTOR;
        let builder = VirtualMemoryResource::builder().rdma_if_supported();
        let pages = builder.export_if_supported(file).build();
        let (resource, backing) = match pages {
            Ok(pages) => (AnyResource::new(pages), Self::VirtualMemory),
            Err(error) if error.is_unsupported() => {
                (AnyResource::new(CudaMemoryResource::new()), Self::CudaMalloc)
            }
            Err(error) => return Err(error),
        };
        emit_choice(device, backing);
        Ok(resource)
    }

    /// The kind of memory that a stack of resources divides; `None` if it is neither. If there is
    /// memory of both kinds below, it is virtual memory.
    pub fn of<R: SynchronousResource + 'static>(resource: &R) -> Option<Self> {
        if resource.find::<VirtualMemoryResource>().is_some() {
            return Some(Self::VirtualMemory);
        }
        resource.find::<CudaMemoryResource>().map(|_| Self::CudaMalloc)
    }
}

impl fmt::Display for DefaultDeviceMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::VirtualMemory => "virtual memory",
            Self::CudaMalloc => "cudaMalloc",
        })
    }
}

/// Emits an event that says what was chosen.
#[cfg(feature = "tracing")]
fn emit_choice(device: Device, backing: DefaultDeviceMemory) {
    let device = device.ordinal();
    tracing::debug!(name: "backing chosen", target: "rmm::backing", device, %backing, "backing chosen");
}

#[cfg(not(feature = "tracing"))]
fn emit_choice(_: Device, _: DefaultDeviceMemory) {}
