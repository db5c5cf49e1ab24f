//! The device of a replay, and work on it.

use std::any::Any;
use std::fmt::Debug;

use rmm_core::{CudaStream, Device, DevicePtr, Error};

/// The device that a trace is replayed on. It is current on the thread that replays.
pub trait ReplayDevice: Sync {
    /// Makes the device current on the calling thread, until the result is dropped.
    ///
    /// # Errors
    /// The driver's error.
    fn enter(&self) -> Result<Box<dyn Any>, Error>;

    /// Driver calls of this process so far, if they are counted.
    fn driver_calls(&self) -> Option<u64>;

    /// Whether it is the software device, which only models pools of the driver.
    fn is_software(&self) -> bool;
}

/// The name that the software device of this repository has.
const SOFTWARE_DEVICE: &str = "Software device";

/// A device of the driver that is installed, which counts no calls.
impl ReplayDevice for Device {
    fn enter(&self) -> Result<Box<dyn Any>, Error> {
        Ok(Box::new(self.make_current()?))
    }

    fn driver_calls(&self) -> Option<u64> {
        None
    }

    fn is_software(&self) -> bool {
        self.name().is_ok_and(|name| name.starts_with(SOFTWARE_DEVICE))
    }
}

/// Work that a replay enqueues on every block, so that a device that checks the order of uses sees
/// some.
pub trait Work: Debug + Sync {
    /// Enqueues a write to all bytes of the block.
    ///
    /// # Errors
    /// The driver's error.
    fn enqueue(
        &self,
        name: &'static str,
        stream: &CudaStream,
        block: DevicePtr,
        bytes: usize,
    ) -> Result<(), Error>;
}
