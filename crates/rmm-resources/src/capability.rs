//! What the driver and the device can do, asked before memory is.

use std::alloc::Layout;

use rmm_core::{
    CUDA_ALLOCATION_ALIGNMENT, Device, Error, ErrorKind, StreamRef, check, current_driver,
    driver_for_drop, driver_in_context, process_is_exiting,
};
use rmm_sys::{CuDeviceAttribute, CuResult, Driver};

/// The driver aligns everything to 256 bytes; more can not be asked of it.
pub(crate) fn check_alignment(resource: &'static str, layout: Layout) -> Result<(), Error> {
    if layout.align() <= CUDA_ALLOCATION_ALIGNMENT {
        return Ok(());
    }
    let message =
        format!("alignment {} is above the driver's {CUDA_ALLOCATION_ALIGNMENT}", layout.align());
    Err(Error::invalid_argument(resource, message).with_layout(layout))
}

/// The driver, for freeing: an address and a stream's handle say themselves which device they mean, so memory is not lost because
/// no context could be made current.
pub(crate) fn driver_for_freeing() -> Option<&'static Driver> {
    let driver = driver_for_drop()?;
    let _none_needed = driver_in_context();
    Some(driver)
}

/// Waits for the stream; whether nothing that was enqueued on it can still use memory. Without a driver nothing can.
///
/// Where this is `false` (the driver is gone, the process is exiting, the stream is being captured, work has failed and broken
/// the context) memory of the host had better be lost than be given to somebody else.
pub(crate) fn is_done(stream: StreamRef<'_>) -> bool {
    // The driver may be unloaded already, and the system takes all memory back soon.
    if process_is_exiting() {
        return false;
    }
    match stream.synchronize() {
        Ok(()) => true,
        Err(error) => error.kind() == ErrorKind::DriverUnavailable,
    }
}

/// The value of an attribute; 0 if it is newer than the driver.
pub(crate) fn attribute(device: Device, attribute: CuDeviceAttribute) -> Result<i32, Error> {
    match device.attribute(attribute) {
        Err(error) if error.code() == Some(CuResult::INVALID_VALUE) => Ok(0),
        answer => answer,
    }
}

/// The error of a device that lacks something: `what` follows "device 0".
pub(crate) fn lacking(resource: &'static str, device: Device, what: &str) -> Error {
    Error::unsupported(resource, format!("device {} {what}", device.ordinal()))
}

/// Refuses a device whose attribute is 0.
pub(crate) fn require(
    resource: &'static str,
    device: Device,
    needed: CuDeviceAttribute,
    what: &str,
) -> Result<(), Error> {
    if attribute(device, needed)? == 0 { Err(lacking(resource, device, what)) } else { Ok(()) }
}

/// Whether the driver is of this CUDA version or a newer one: 12080 is 12.8.
pub(crate) fn is_driver_since(version: i32) -> Result<bool, Error> {
    let driver = current_driver()?;
    let mut found = 0;
    // SAFETY: `found` may be written to.
    check("cuDriverGetVersion", unsafe { driver.cuDriverGetVersion(&raw mut found) })?;
    Ok(found >= version)
}

/// Refuses a driver that is older.
pub(crate) fn require_driver(
    resource: &'static str,
    version: i32,
    what: &str,
) -> Result<(), Error> {
    if is_driver_since(version)? {
        return Ok(());
    }
    let (major, minor) = (version / 1000, version % 1000 / 10);
    Err(Error::unsupported(resource, format!("{what} needs a driver of CUDA {major}.{minor}")))
}
