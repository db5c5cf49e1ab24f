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
#[derive(Clone, Debug, Default)]
#[must_use = "a builder does nothing until it is built"]
pub struct BackingMemoryResourceBuilder {
    demanded: Option<Backing>,
    virtual_memory: VirtualMemoryResourceBuilder,
    /// An option that only virtual memory has, if one is set.
    needs_virtual: Option<&'static str>,
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
        let Self { demanded, virtual_memory, needs_virtual } = self;
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
                let reason = "no virtual memory management";
                Ok(BackingMemoryResource::over_cuda(device, reason))
            }
            (Err(error), Some(option)) if error.is_unsupported() => {
                let message = format!(
                    "{option} needs virtual memory, which device {} lacks: leave it out to have `cudaMalloc`",
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
