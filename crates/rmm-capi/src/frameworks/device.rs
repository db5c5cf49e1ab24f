//! The devices that frameworks use.

use std::ffi::c_int;
use std::fmt;
use std::sync::{Mutex, OnceLock};

use rmm_core::sys::CuUuid;
use rmm_core::{AnyResource, DeviceGuard, fork, per_device};
use rmm_spec::ResourceSpec;

use crate::handle::failure::Failure;

/// What a framework gets by default.
const DEFAULT: &str = "pool";

/// As many devices as the driver can have, and more.
pub(crate) const MOST: usize = 256;

static DEVICES: [OnceLock<Device>; MOST] = [const { OnceLock::new() }; MOST];

/// Held while a device is looked up first, or gets its first resource.
static MAKING: Mutex<()> = Mutex::new(());

/// A device that a framework uses.
#[derive(Debug)]
pub(crate) struct Device {
    known: rmm_core::Device,
    /// Its ordinal, as C has it.
    number: c_int,
    /// By which the registry knows it.
    uuid: CuUuid,
    /// Whether there are other devices.
    has_others: bool,
}

/// The device with this ordinal.
#[inline]
pub(crate) fn of(ordinal: c_int) -> Result<&'static Device, Failure> {
    let slot = usize::try_from(ordinal).ok().and_then(|ordinal| DEVICES.get(ordinal));
    match slot.and_then(OnceLock::get) {
        Some(device) => Ok(device),
        None => make(ordinal),
    }
}

#[cold]
fn make(number: c_int) -> Result<&'static Device, Failure> {
    let ordinal = usize::try_from(number).ok();
    let slot = ordinal.and_then(|ordinal| Some((ordinal, DEVICES.get(ordinal)?)));
    let (ordinal, slot) = slot.ok_or_else(|| Failure::invalid(format!("no device {number}")))?;
    let _making = fork::lock(&MAKING);
    if let Some(device) = slot.get() {
        return Ok(device);
    }
    let known = rmm_core::Device::new(ordinal)?;
    let uuid = known.uuid()?;
    let has_others = rmm_core::Device::count()? > 1;
    Ok(slot.get_or_init(|| Device { known, number, uuid, has_others }))
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "device {}", self.number)
    }
}

impl Device {
    /// Its ordinal, as C has it.
    pub(crate) fn number(&self) -> c_int {
        self.number
    }

    /// The bytes of memory that it has.
    ///
    /// # Errors
    /// If the driver refuses.
    pub(crate) fn total_memory(&self) -> Result<u64, Failure> {
        Ok(self.known.total_memory()?)
    }

    /// The device's current resource. One for which none was set gets what the environment says.
    #[inline]
    pub(crate) fn resource(&self) -> Result<AnyResource<()>, Failure> {
        self.current().map_or_else(|| self.make_resource(), Ok)
    }

    /// The device's current resource, if it has one.
    #[inline]
    pub(crate) fn current(&self) -> Option<AnyResource<()>> {
        per_device::find(self.uuid).map(AnyResource::narrow)
    }

    #[cold]
    fn make_resource(&self) -> Result<AnyResource<()>, Failure> {
        let _making = fork::lock(&MAKING);
        let _current = self.known.make_current()?;
        let spec = ResourceSpec::from_environment();
        let spec = spec.map_err(|error| Failure::invalid(error.to_string()))?;
        let spec = match spec {
            Some(spec) => spec,
            None => DEFAULT
                .parse()
                .map_err(|error: rmm_spec::SpecError| Failure::refused(error.to_string()))?,
        };
        // If that fails the next allocation tries again.
        let (found, _) = per_device::get_with_handle(self.known, || spec.build())?;
        Ok(found.narrow())
    }

    /// Makes the device current, if another is: resources give memory of the current device, and
    /// handles of default streams mean those of the current device.
    #[inline]
    pub(crate) fn enter(&self) -> Result<Option<DeviceGuard>, Failure> {
        if !self.has_others {
            return Ok(None);
        }
        let is_current = rmm_core::Device::current().is_ok_and(|current| current == self.known);
        if is_current { Ok(None) } else { Ok(Some(self.known.make_current()?)) }
    }
}
