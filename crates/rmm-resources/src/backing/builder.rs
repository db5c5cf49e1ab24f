//! Options for device memory of either kind, and the choice between the two.

use rmm_core::{Device, Error};

use super::{Backing, BackingMemoryResource, NAME};
use crate::VirtualMemoryResourceBuilder;

/// A builder of [`BackingMemoryResource`].
///
/// ```
/// use rmm_core::{AnyResource, Introspect};
/// use rmm_resources::{Backing, BackingMemoryResource};
///
/// # fn main() -> Result<(), rmm_core::Error> {
/// # let machine = rmm_sim::Machine::new();
/// # let _entered = machine.enter();
/// // For a library that passes memory to other processes by `cudaIpcGetMemHandle`:
/// let resource = BackingMemoryResource::builder().backing(Backing::CudaMalloc).build()?;
/// assert_eq!(resource.backing(), Backing::CudaMalloc);
/// assert!(resource.as_extendable().is_none());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it is built"]
pub struct BackingMemoryResourceBuilder {
    demanded: Option<Backing>,
    virtual_memory: VirtualMemoryResourceBuilder,
    /// An option that only virtual memory has, if one is set.
    needs_virtual: Option<&'static str>,
    /// Whether RDMA has to be able to access the memory, of either kind.
    rdma: bool,
}

impl Default for BackingMemoryResourceBuilder {
    /// No demand; for RDMA where the device has virtual memory for it.
    fn default() -> Self {
        Self {
            demanded: None,
            virtual_memory: VirtualMemoryResourceBuilder::default().rdma_if_supported(),
            needs_virtual: None,
            rdma: false,
        }
    }
}

impl BackingMemoryResourceBuilder {
    /// Where the memory has to come from. Without this call it is virtual memory if the device has
    /// it, and `cudaMalloc` otherwise.
    pub fn backing(mut self, demanded: Backing) -> Self {
        self.demanded = Some(demanded);
        self
    }

    /// Grants access to another device, which must be a peer of the current one. Only virtual
    /// memory can be shared with some devices and not with others; `cudaMalloc` has
    /// `cuCtxEnablePeerAccess` for all memory of a context.
    #[doc(alias = "cuMemSetAccess")]
    pub fn accessible_from(mut self, device: Device) -> Self {
        self.virtual_memory = self.virtual_memory.accessible_from(device);
        self.needs_virtual = Some("`accessible_from`");
        self
    }

    /// Whether network cards have to be able to access the memory by `GPUDirect` RDMA. Without this
    /// call they are where the device has [virtual memory for
    /// it](VirtualMemoryResourceBuilder::rdma). With `true` the resource takes memory of
    /// `cudaMalloc` where it has not, which needs no flag. With `false` virtual memory is not made
    /// for RDMA.
    ///
    /// ```
    /// use rmm_resources::{Backing, BackingMemoryResource};
    /// use rmm_sys::CuDeviceAttribute;
    ///
    /// # fn main() -> Result<(), rmm_core::Error> {
    /// let attribute = CuDeviceAttribute::GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED;
    /// let machine = rmm_sim::Machine::builder().attribute(attribute, 0).build();
    /// # let _entered = machine.enter();
    /// let resource = BackingMemoryResource::builder().rdma(true).build()?;
    /// assert_eq!(resource.backing(), Backing::CudaMalloc);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "gpuDirectRDMACapable")]
    pub fn rdma(mut self, required: bool) -> Self {
        self.virtual_memory = self.virtual_memory.rdma(required);
        self.rdma = required;
        self
    }

    /// Whether the memory can be exported to other processes as file descriptors; not by default.
    /// `true` needs virtual memory, see
    /// [`VirtualMemoryResourceBuilder::shareable`].
    #[doc(alias = "CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR")]
    pub fn shareable(mut self, shareable: bool) -> Self {
        self.virtual_memory = self.virtual_memory.shareable(shareable);
        if shareable {
            self.needs_virtual = Some("`shareable`");
        }
        self
    }

    /// Makes the resource for the current device.
    ///
    /// # Errors
    /// If there is no driver or no device.
    /// [`ErrorKind::Unsupported`](rmm_core::ErrorKind::Unsupported) if virtual memory was demanded,
    /// or an option needs it, and the device has none;
    /// [`ErrorKind::InvalidArgument`](rmm_core::ErrorKind::InvalidArgument) if `cudaMalloc` was
    /// demanded together with such an option.
    pub fn build(self) -> Result<BackingMemoryResource, Error> {
        let device = Device::current()?;
        let made = self.choose(device)?;
        emit_choice(device, &made);
        Ok(made)
    }

    fn choose(self, device: Device) -> Result<BackingMemoryResource, Error> {
        let Self { demanded, virtual_memory, needs_virtual, rdma } = self;
        let demanded = match (demanded, needs_virtual) {
            (Some(Backing::CudaMalloc), Some(option)) => {
                let message = format!("{option} needs virtual memory: leave out one of the two");
                return Err(Error::invalid_argument(NAME, message));
            }
            (Some(Backing::CudaMalloc), None) => {
                return Ok(BackingMemoryResource::over_cuda(device, "demanded"));
            }
            (Some(Backing::VirtualMemory), _) => Some("`backing(VirtualMemory)`"),
            (None, option) => option,
        };
        match (virtual_memory.build(), demanded) {
            (Ok(resource), _) => Ok(BackingMemoryResource::over_virtual(resource)),
            (Err(error), None) if error.is_unsupported() => {
                let reason = if rdma { "no virtual memory for RDMA" } else { "no virtual memory" };
                Ok(BackingMemoryResource::over_cuda(device, reason))
            }
            (Err(error), Some(option)) if error.is_unsupported() => {
                let message = format!(
                    "{option} needs virtual memory that device {} lacks: leave it out to have `cudaMalloc`",
                    device.ordinal()
                );
                Err(Error::unsupported(NAME, message).with_source(error))
            }
            (Err(error), _) => Err(error),
        }
    }
}

/// Emits an event that says what was chosen.
#[cfg(feature = "tracing")]
fn emit_choice(device: Device, made: &BackingMemoryResource) {
    let (device, backing) = (device.ordinal(), made.backing());
    tracing::debug!(name: "backing chosen", target: "rmm::backing", device, %backing, "backing chosen");
}

#[cfg(not(feature = "tracing"))]
fn emit_choice(_: Device, _: &BackingMemoryResource) {}
