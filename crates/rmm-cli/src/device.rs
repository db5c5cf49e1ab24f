//! The device that a command runs on: a GPU, or the software device.

mod counting;

use std::any::Any;

use rmm_core::{Device, DeviceGuard, Error};
use rmm_report::replay::ReplayDevice;
use rmm_sim::{Machine, MachineGuard};
use rmm_sys::{Driver, LoadError};

use crate::args::{DeviceChoice, MemorySize};

/// The environment variable that chooses a device where the command line leaves it open: `sim` or
/// `cuda`.
pub const DRIVER_VARIABLE: &str = "RMM_DRIVER";

/// Memory sizes of the software device, tried in order: that of the GPU on which the traces in this
/// repository were recorded, and less where the system limits the address space.
const SOFTWARE_MEMORY: [usize; 3] = [140 << 30, 32 << 30, 4 << 30];
/// Pinned and managed memory of the software device, which no replay uses.
const SOFTWARE_HOST_MEMORY: usize = 1 << 30;

/// A device, current on the thread that opened it for as long as this lives.
#[derive(Debug)]
pub struct OpenDevice {
    /// The device's name.
    pub name: String,
    /// Why the software device was chosen, if it was.
    pub notice: Option<String>,
    handle: AnyDevice,
    _current: AnyDeviceGuard,
}

/// A handle with which another thread uses the same device.
#[derive(Clone, Debug)]
pub enum AnyDevice {
    /// The software device.
    Software(Machine),
    /// A GPU.
    Gpu(Device),
}

/// Keeps the device current on another thread.
#[derive(Debug)]
pub enum AnyDeviceGuard {
    /// The software device.
    Software(MachineGuard),
    /// A GPU.
    Gpu(DeviceGuard),
}

impl OpenDevice {
    /// Opens the device that was chosen.
    ///
    /// The choice `auto` takes the first GPU if there is one, else the software device;
    /// `RMM_DRIVER` narrows it.
    ///
    /// # Errors
    /// If a GPU was requested and cannot be used; the text gives the reason.
    pub fn open(choice: DeviceChoice) -> Result<Self, String> {
        let wish = std::env::var(DRIVER_VARIABLE).unwrap_or_default();
        match (choice, wish.as_str()) {
            (DeviceChoice::Software, _) => Self::software(None, false),
            (DeviceChoice::Auto, "sim") => {
                Self::software(Some(format!("{DRIVER_VARIABLE}=sim")), false)
            }
            (DeviceChoice::Gpu(ordinal), _) => {
                Self::gpu(ordinal).map_err(|error| error.to_string())
            }
            (DeviceChoice::Auto, "cuda") => {
                Self::gpu(0).map_err(|error| format!("{DRIVER_VARIABLE}=cuda, but {error}"))
            }
            (DeviceChoice::Auto, "") => Self::gpu_or_software(),
            (DeviceChoice::Auto, other) => {
                Err(format!("{DRIVER_VARIABLE} is {other:?}; expected sim or cuda"))
            }
        }
    }

    /// Opens a software device that checks the stream order of all uses of memory, with this amount
    /// of memory or the usual one. Devices from [`open`](Self::open) do not check, to be fast.
    ///
    /// # Errors
    /// If this process uses another driver already, or the system has no room for so much memory.
    pub fn checked(memory: Option<MemorySize>) -> Result<Self, String> {
        match memory {
            Some(size) => {
                let bytes = usize::try_from(size.bytes())
                    .map_err(|_| "the memory exceeds the address space")?;
                Self::software_of(&[bytes], None, true)
            }
            None => Self::software(None, true),
        }
    }

    /// A driver without a device is no error. An installed driver cannot be replaced, so it is
    /// probed before it is installed.
    fn gpu_or_software() -> Result<Self, String> {
        let driver = match Driver::load() {
            Ok(driver) => driver,
            Err(error) => return Self::software(Some(error.to_string()), false),
        };
        let mut count = 0;
        // SAFETY: takes no pointer.
        let started = unsafe { driver.cuInit(0) };
        // SAFETY: `count` may be written to.
        let counted = unsafe { driver.cuDeviceGetCount(&raw mut count) };
        match started.result().and(counted.result()) {
            Ok(()) if count > 0 => Self::gpu(0).map_err(|error| error.to_string()),
            Ok(()) => Self::software(Some("the driver finds no GPU".to_owned()), false),
            Err(code) => Self::software(Some(format!("the driver cannot start: {code}")), false),
        }
    }

    fn software(notice: Option<String>, checks: bool) -> Result<Self, String> {
        Self::software_of(&SOFTWARE_MEMORY, notice, checks)
    }

    /// A software device with the first of these sizes of memory that the system has room for.
    fn software_of(sizes: &[usize], notice: Option<String>, checks: bool) -> Result<Self, String> {
        rmm_sim::install().map_err(|error| error.to_string())?;
        let build = |memory| {
            let builder = Machine::builder().memory(memory).host_memory(SOFTWARE_HOST_MEMORY);
            builder.checks(checks).try_build()
        };
        let machine = sizes.iter().find_map(|&memory| build(memory).ok());
        let machine = machine
            .ok_or("the software device cannot reserve its memory: this system limits the address space of a process")?;
        let opened = Self { notice, ..Self::on_machine(&machine) };
        let name = Device::current().and_then(Device::name).map_err(|error| error.to_string())?;
        Ok(Self { name, ..opened })
    }

    /// Wraps an existing software device: for tests that inject faults.
    pub fn on_machine(machine: &Machine) -> Self {
        Self {
            name: "Software device".to_owned(),
            notice: None,
            handle: AnyDevice::Software(machine.clone()),
            _current: AnyDeviceGuard::Software(machine.enter()),
        }
    }

    fn gpu(ordinal: u32) -> Result<Self, Error> {
        install_counted()?;
        let device = Device::new(ordinal as usize)?;
        let (handle, current) = (AnyDevice::Gpu(device), device.make_current()?);
        let (name, notice) = (device.name()?, None);
        Ok(Self { name, notice, handle, _current: AnyDeviceGuard::Gpu(current) })
    }

    /// Whether it is the software device.
    pub fn is_software(&self) -> bool {
        self.machine().is_some()
    }

    /// Driver calls that this process has made so far.
    pub fn driver_calls(&self) -> u64 {
        self.handle.calls()
    }

    /// A handle for other threads.
    pub fn handle(&self) -> AnyDevice {
        self.handle.clone()
    }

    /// The software device itself, if it is one.
    pub fn machine(&self) -> Option<&Machine> {
        match &self.handle {
            AnyDevice::Software(machine) => Some(machine),
            AnyDevice::Gpu(_) => None,
        }
    }
}

impl AnyDevice {
    /// Makes the device current on the calling thread.
    ///
    /// # Errors
    /// The driver's error.
    pub fn make_current(&self) -> Result<AnyDeviceGuard, Error> {
        match self {
            Self::Software(machine) => Ok(AnyDeviceGuard::Software(machine.enter())),
            Self::Gpu(device) => device.make_current().map(AnyDeviceGuard::Gpu),
        }
    }

    fn calls(&self) -> u64 {
        match self {
            Self::Software(machine) => machine.calls(),
            Self::Gpu(_) => counting::calls(),
        }
    }
}

impl ReplayDevice for AnyDevice {
    fn enter(&self) -> Result<Box<dyn Any>, Error> {
        Ok(Box::new(self.make_current()?))
    }

    fn driver_calls(&self) -> Option<u64> {
        Some(self.calls())
    }

    fn is_software(&self) -> bool {
        matches!(self, Self::Software(_))
    }
}

/// Installs the system's driver with counted calls.
fn install_counted() -> Result<(), LoadError> {
    let driver = Driver::load()?;
    // SAFETY: each function calls the driver's of its name. An earlier call may have installed it
    // already.
    let _ignored = unsafe { Driver::install(counting::wrap(driver)) };
    Ok(())
}
