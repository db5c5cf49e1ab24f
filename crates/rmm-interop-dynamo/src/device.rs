//! Device memory.

use std::any::Any;
use std::fmt;

use dynamo_memory::nixl::{MemType, NixlCompatible, NixlDescriptor};
use dynamo_memory::{MemoryDescriptor, StorageKind};
use rmm_containers::DeviceBuffer;
use rmm_core::Error;

/// A [`DeviceBuffer`] as storage of Dynamo. The memory goes back to its resource, in the order of
/// the buffer's stream, when this is dropped.
pub struct DeviceStorage {
    buffer: DeviceBuffer,
    device: u32,
}

impl DeviceStorage {
    /// The buffer's memory, after a wait of the host for all work on it.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](rmm_core::ErrorKind::InvalidArgument) for an empty buffer;
    /// what the driver reports of the wait or the device. The buffer is dropped then.
    pub fn new(mut buffer: DeviceBuffer) -> Result<Self, Error> {
        if buffer.is_empty() {
            return Err(Error::invalid_argument("DeviceStorage", "an empty buffer is no storage"));
        }
        buffer.wait_for_other_streams()?;
        buffer.stream().synchronize()?;
        let ordinal = buffer.device()?.ordinal();
        let device = u32::try_from(ordinal)
            .map_err(|_| Error::invalid_argument("DeviceStorage", "no such device"))?;
        Ok(Self { buffer, device })
    }

    /// The buffer. Transfers must have ended.
    pub fn into_buffer(self) -> DeviceBuffer {
        self.buffer
    }

    fn address(&self) -> u64 {
        self.buffer.as_ptr().0
    }
}

impl MemoryDescriptor for DeviceStorage {
    fn addr(&self) -> usize {
        usize::try_from(self.address()).expect("addresses have as many bits as pointers")
    }

    fn size(&self) -> usize {
        self.buffer.len()
    }

    fn storage_kind(&self) -> StorageKind {
        StorageKind::Device(self.device)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    /// None: it is not registered. `NixlRegistered` over it has one.
    fn nixl_descriptor(&self) -> Option<NixlDescriptor> {
        None
    }
}

impl NixlCompatible for DeviceStorage {
    fn nixl_params(&self) -> (*const u8, usize, MemType, u64) {
        let address = std::ptr::without_provenance(self.addr());
        (address, self.size(), MemType::Vram, u64::from(self.device))
    }
}

impl fmt::Debug for DeviceStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceStorage")
            .field("buffer", &self.buffer)
            .field("device", &self.device)
            .finish()
    }
}
