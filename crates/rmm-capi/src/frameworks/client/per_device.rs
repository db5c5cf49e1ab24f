//! The clients of a framework whose functions name a device, or none, instead of a client.

use std::ffi::c_int;
use std::sync::{Arc, OnceLock};

use super::block::ClientHandle;
use crate::frameworks::device::{self, MOST};
use crate::handle::failure::Failure;

/// A client for each device, made when it is first used. They live until the process ends.
#[derive(Debug)]
pub(crate) struct DeviceClients([Slot; MOST]);

type Slot = OnceLock<Arc<ClientHandle>>;

impl DeviceClients {
    pub(crate) const fn new() -> Self {
        Self([const { OnceLock::new() }; MOST])
    }

    /// The client of the device with this ordinal.
    ///
    /// # Errors
    /// If there is no such device.
    #[inline]
    pub(crate) fn of(&self, ordinal: c_int) -> Result<&Arc<ClientHandle>, Failure> {
        let slot = usize::try_from(ordinal).ok().and_then(|ordinal| self.0.get(ordinal));
        match slot.and_then(OnceLock::get) {
            Some(client) => Ok(client),
            None => Self::make(slot, ordinal),
        }
    }

    #[cold]
    fn make(slot: Option<&Slot>, ordinal: c_int) -> Result<&Arc<ClientHandle>, Failure> {
        let device = device::of(ordinal)?;
        let slot = slot.ok_or_else(|| Failure::invalid(format!("no device {ordinal}")))?;
        Ok(slot.get_or_init(|| Arc::new(ClientHandle::new(device, None))))
    }

    /// Those that were used.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<ClientHandle>> {
        self.0.iter().filter_map(OnceLock::get)
    }
}
