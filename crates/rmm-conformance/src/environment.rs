//! The device that checks run on: a GPU, or the software device.

use rmm_core::{Device, DeviceGuard, Error};
use rmm_sim::{Machine, MachineGuard, Schedule};
use rmm_sys::CuDeviceAttribute;

use crate::failure::ensure;
use crate::{CheckResult, Failure};

/// Memory of each software device, in bytes.
const SOFTWARE_MEMORY: usize = 4 << 30;
/// Software devices of a machine, so that there is one beside the one that is open.
const SOFTWARE_DEVICES: usize = 2;

/// A device that checks can run on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// The system's GPU of this number.
    Gpu(usize),
    /// A new software device whose work runs at times drawn by the seed in `RMM_SIM_SEED`.
    Seeded,
    /// A new software device that runs nothing before it must.
    Lazy,
}

impl Place {
    /// The places that `RMM_DRIVER` and `RMM_TEST_DEVICE` choose.
    ///
    /// # Errors
    /// If one of them has a value that means nothing.
    pub fn selected() -> Result<Vec<Self>, Failure> {
        match variable("RMM_DRIVER").as_str() {
            "cuda" => {
                let wish = variable("RMM_TEST_DEVICE");
                let number = if wish.is_empty() { Ok(0) } else { wish.parse() };
                let number = number.map_err(|error| {
                    Failure::new(format!("RMM_TEST_DEVICE is {wish:?}: {error}"))
                })?;
                Ok(vec![Self::Gpu(number)])
            }
            "" | "sim" => Ok(vec![Self::Seeded, Self::Lazy]),
            other => {
                Err(Failure::new(format!("RMM_DRIVER is {other:?}; expected \"sim\" or \"cuda\"")))
            }
        }
    }
}

/// An environment variable without the space around it; empty if it is not set.
pub(crate) fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_default().trim().to_owned()
}

/// A device, current on the thread that opened it for as long as this lives.
#[derive(Debug)]
pub struct Environment {
    handle: DeviceHandle,
    _current: EnvironmentGuard,
}

/// What another thread needs to use the same device.
#[derive(Clone, Debug)]
pub enum DeviceHandle {
    /// The software device.
    Software(Machine),
    /// A GPU.
    Gpu(Device),
}

/// Keeps the device current on a thread.
#[derive(Debug)]
#[must_use = "the device is current only while the guard lives"]
pub enum EnvironmentGuard {
    /// The software device.
    Software(MachineGuard),
    /// A GPU.
    Gpu(DeviceGuard),
}

impl Environment {
    /// Opens the device and makes it current.
    ///
    /// # Errors
    /// If there is no driver or no such GPU; the text says why.
    pub fn open(place: Place) -> Result<Self, Failure> {
        Self::open_with(place, true)
    }

    /// Opens the device as [`open`](Self::open) does, but the software device does not look for
    /// misuse itself: what a check then finds, it finds on a GPU too.
    ///
    /// # Errors
    /// As `open`.
    pub fn open_unwatched(place: Place) -> Result<Self, Failure> {
        Self::open_with(place, false)
    }

    fn open_with(place: Place, is_watched: bool) -> Result<Self, Failure> {
        // The devices of the software machine use pageable host memory, so that resources
        // over it are checked too.
        let pageable = CuDeviceAttribute::PAGEABLE_MEMORY_ACCESS;
        let machine = || {
            let builder = Machine::builder().devices(SOFTWARE_DEVICES);
            builder.memory(SOFTWARE_MEMORY).attribute(pageable, 1).checks(is_watched)
        };
        let handle = match place {
            Place::Gpu(number) => DeviceHandle::Gpu(Device::new(number)?),
            Place::Seeded => DeviceHandle::Software(machine().build()),
            Place::Lazy => DeviceHandle::Software(machine().schedule(Schedule::Lazy).build()),
        };
        let current = handle.make_current()?;
        Ok(Self { handle, _current: current })
    }

    /// For other threads.
    pub fn handle(&self) -> &DeviceHandle {
        &self.handle
    }

    /// A device beside the one that is open: the next one. `None` if there is no other.
    ///
    /// # Errors
    /// The driver's error.
    pub fn another_device(&self) -> Result<Option<Device>, Error> {
        let (own, count) = (self.device()?.ordinal(), Device::count()?);
        let next = (own + 1) % count.max(1);
        if next == own { Ok(None) } else { Device::new(next).map(Some) }
    }

    /// The device that is open, whichever is current.
    ///
    /// # Errors
    /// The driver's error.
    pub fn device(&self) -> Result<Device, Error> {
        match &self.handle {
            DeviceHandle::Software(_) => Device::new(0),
            DeviceHandle::Gpu(device) => Ok(*device),
        }
    }

    /// The device's name.
    ///
    /// # Errors
    /// The driver's error.
    pub fn device_name(&self) -> Result<String, Error> {
        Device::current()?.name()
    }

    /// To be called when a check has passed and has dropped all that it made: work did not fail,
    /// and (where the device checks this) none of it touched memory after its end, and nothing is
    /// left allocated.
    ///
    /// # Errors
    /// What is wrong.
    pub fn verify(&self) -> CheckResult {
        Device::synchronize_current()?;
        let DeviceHandle::Software(machine) = &self.handle else { return Ok(()) };
        machine.run_all();
        let violations = machine.violations();
        ensure(violations.is_empty(), || {
            // The first is mostly the cause of the others.
            format!("the device saw misuse {} times, first {}", violations.len(), violations[0])
        })?;
        let leaks = machine.leaks();
        ensure(leaks.is_empty(), || format!("left behind: {leaks:?}"))
    }
}

impl DeviceHandle {
    /// Makes the device current on the calling thread.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn make_current(&self) -> Result<EnvironmentGuard, Error> {
        match self {
            Self::Software(machine) => Ok(EnvironmentGuard::Software(machine.enter())),
            Self::Gpu(device) => device.make_current().map(EnvironmentGuard::Gpu),
        }
    }
}
