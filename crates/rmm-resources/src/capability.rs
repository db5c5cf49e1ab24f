//! Checks of what the driver and the device support, and access to the driver for resources.

use std::alloc::Layout;
use std::ops::Deref;

use rmm_core::{
    CUDA_ALLOCATION_ALIGNMENT, Context, ContextGuard, Device, Error, RelaxedCapture, StreamRef,
    ask_again, check, current_driver, driver_for_drop, driver_in_context, process_is_exiting,
};
use rmm_sys::{CuDeviceAttribute, CuResult, Driver};

/// The driver aligns all memory to 256 bytes and takes no alignment.
pub(crate) fn check_alignment(resource: &'static str, layout: Layout) -> Result<(), Error> {
    if layout.align() <= CUDA_ALLOCATION_ALIGNMENT {
        return Ok(());
    }
    let message =
        format!("alignment {} is above the driver's {CUDA_ALLOCATION_ALIGNMENT}", layout.align());
    Err(Error::invalid_argument(resource, message).with_layout(layout))
}

/// A size as the driver takes it.
pub(crate) fn addressable(resource: &'static str, what: &str, bytes: u64) -> Result<usize, Error> {
    usize::try_from(bytes).map_err(|error| {
        Error::invalid_argument(resource, format!("{what} is too large")).with_source(error)
    })
}

/// A guard for driver calls: keeps the device of a stream current, if there is one, and the
/// thread's capture mode relaxed.
///
/// While any stream of the process is captured, the driver considers allocations and
/// synchronization potentially unsafe: they fail, and invalidate the capture. Graphs do not use the
/// memory of a resource, so the mode is [relaxed](RelaxedCapture).
pub(crate) struct Calls {
    driver: &'static Driver,
    _relaxed: RelaxedCapture,
    _device: Option<ContextGuard>,
}

impl Deref for Calls {
    type Target = Driver;

    fn deref(&self) -> &Driver {
        self.driver
    }
}

/// For calls that allocate in the order of `stream`, or on the current device if there is none.
pub(crate) fn calls_for(stream: Option<StreamRef<'_>>) -> Result<Calls, Error> {
    // A default stream belongs to the current device.
    let context = stream.and_then(StreamRef::own_context);
    let device = context.map(Context::enter).transpose()?;
    let driver = if device.is_some() { Driver::get()? } else { driver_in_context()?.0 };
    Ok(Calls { driver, _relaxed: RelaxedCapture::enter(), _device: device })
}

/// The driver, for freeing. An address and a stream's handle identify their device, so no context
/// has to be current, and memory is not leaked for lack of one.
pub(crate) fn driver_for_freeing() -> Option<&'static Driver> {
    let driver = driver_for_drop()?;
    let _ignored = driver_in_context();
    Some(driver)
}

/// The driver, for freeing by potentially unsafe calls, which a relaxed capture mode lets pass.
/// Needs no current context, as [`driver_for_freeing`].
pub(crate) fn calls_for_freeing() -> Option<Calls> {
    let driver = driver_for_freeing()?;
    Some(Calls { driver, _relaxed: RelaxedCapture::enter(), _device: None })
}

/// Whether the stream is being captured, or the driver cannot say. The query invalidates no
/// capture.
pub(crate) fn may_be_captured(stream: StreamRef<'_>) -> bool {
    // The driver may be gone.
    if process_is_exiting() {
        return true;
    }
    match ask_again(|| stream.is_capturing()) {
        Ok(is_captured) => is_captured,
        // The legacy stream itself is never captured; a stream that synchronizes with it may be.
        Err(error) => error.code() != Some(CuResult::STREAM_CAPTURE_IMPLICIT),
    }
}

/// The error of a request on a stream whose device cannot access the resource's memory; `instead`
/// says how to get access.
pub(crate) fn wrong_device(resource: &'static str, device: Device, instead: &str) -> Error {
    let message = format!(
        "the stream is of device {}, which cannot access this resource's memory: use a resource of that device, or {instead}",
        device.ordinal()
    );
    Error::invalid_argument(resource, message)
}

/// The value of an attribute; 0 if it is newer than the driver.
pub(crate) fn attribute(device: Device, attribute: CuDeviceAttribute) -> Result<i32, Error> {
    match device.attribute(attribute) {
        Err(error) if error.code() == Some(CuResult::INVALID_VALUE) => Ok(0),
        answer => answer,
    }
}

/// The error of a device that lacks a capability: `what` follows "device 0".
pub(crate) fn lacking(resource: &'static str, device: Device, what: &str) -> Error {
    Error::unsupported(resource, format!("device {} {what}", device.ordinal()))
}

/// Fails if the device's attribute is 0.
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

/// Fails if the driver is older.
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
