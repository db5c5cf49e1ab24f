//! Copies and fills in stream order.
//!
//! All of them return once the work is enqueued; none touches memory for a length of zero.

use std::ffi::c_void;

use crate::driver::{check, driver_in_context};
use crate::{DevicePtr, Error, StreamRef};

/// Copies `bytes` bytes from the host to the device.
///
/// # Errors
/// If the driver refuses.
///
/// # Safety
/// `source` stays readable and unchanged for `bytes` bytes until the stream has passed the copy; `target` is memory of the
/// device, at least `bytes` long, whose other uses are ordered with this place on the stream.
pub unsafe fn host_to_device(
    target: DevicePtr,
    source: *const c_void,
    bytes: usize,
    stream: StreamRef<'_>,
) -> Result<(), Error> {
    if bytes == 0 {
        return Ok(());
    }
    let (driver, _) = driver_in_context()?;
    // SAFETY: the caller's contract.
    let code = unsafe { driver.cuMemcpyHtoDAsync_v2(target, source, bytes, stream.as_raw()) };
    check("cuMemcpyHtoDAsync_v2", code)
}

/// Copies `bytes` bytes from the device to the host.
///
/// # Errors
/// If the driver refuses.
///
/// # Safety
/// `target` stays writable, and is not otherwise used, for `bytes` bytes until the stream has passed the copy; `source` is
/// memory of the device, at least `bytes` long, whose other uses are ordered with this place on the stream.
pub unsafe fn device_to_host(
    target: *mut c_void,
    source: DevicePtr,
    bytes: usize,
    stream: StreamRef<'_>,
) -> Result<(), Error> {
    if bytes == 0 {
        return Ok(());
    }
    let (driver, _) = driver_in_context()?;
    // SAFETY: the caller's contract.
    let code = unsafe { driver.cuMemcpyDtoHAsync_v2(target, source, bytes, stream.as_raw()) };
    check("cuMemcpyDtoHAsync_v2", code)
}

/// Copies `bytes` bytes within the device.
///
/// # Errors
/// If the driver refuses.
///
/// # Safety
/// Both are memory of the device, at least `bytes` long, do not overlap, and their other uses are ordered with this place on
/// the stream.
pub unsafe fn device_to_device(
    target: DevicePtr,
    source: DevicePtr,
    bytes: usize,
    stream: StreamRef<'_>,
) -> Result<(), Error> {
    if bytes == 0 {
        return Ok(());
    }
    let (driver, _) = driver_in_context()?;
    // SAFETY: the caller's contract.
    let code = unsafe { driver.cuMemcpyDtoDAsync_v2(target, source, bytes, stream.as_raw()) };
    check("cuMemcpyDtoDAsync_v2", code)
}

/// Sets `bytes` bytes of the device's memory to `value`.
///
/// # Errors
/// If the driver refuses.
///
/// # Safety
/// `target` is memory of the device, at least `bytes` long, whose other uses are ordered with this place on the stream.
pub unsafe fn fill(
    target: DevicePtr,
    value: u8,
    bytes: usize,
    stream: StreamRef<'_>,
) -> Result<(), Error> {
    if bytes == 0 {
        return Ok(());
    }
    let (driver, _) = driver_in_context()?;
    // SAFETY: the caller's contract.
    check("cuMemsetD8Async", unsafe {
        driver.cuMemsetD8Async(target, value, bytes, stream.as_raw())
    })
}
