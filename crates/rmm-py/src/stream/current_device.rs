//! How many devices there are, and which is current.

use std::sync::atomic::{AtomicU8, Ordering};

use pyo3::prelude::*;
use rmm_core::Device;
use rmm_core::sys::{CuDevice, Driver};

use crate::interpreter::errors::make;
use crate::interpreter::fork;

/// How many devices there are: not asked yet, one, or more.
static DEVICES: AtomicU8 = AtomicU8::new(0);

/// Whether there is but one device, which the driver is asked once.
#[inline]
fn is_one(py: Python<'_>) -> PyResult<bool> {
    if DEVICES.load(Ordering::Relaxed) == 0 {
        let count = make(py, Device::count)?;
        note_count(count);
    }
    Ok(DEVICES.load(Ordering::Relaxed) == 1)
}

/// Whether there are several devices.
#[inline]
pub(crate) fn has_several() -> bool {
    if DEVICES.load(Ordering::Relaxed) == 0 {
        ask_for_count();
    }
    DEVICES.load(Ordering::Relaxed) > 1
}

#[cold]
fn ask_for_count() {
    if let Ok(count) = Device::count() {
        note_count(count);
    }
}

fn note_count(count: usize) {
    DEVICES.store(if count == 1 { 1 } else { 2 }, Ordering::Relaxed);
}

/// The current device, if there are others. `None`, too, without a driver.
pub(crate) fn current_of_several(py: Python<'_>) -> Option<i32> {
    if is_one(py).unwrap_or(true) { None } else { current(py).ok() }
}

/// The current device. Where there is but one, the driver is not asked.
pub(crate) fn current(py: Python<'_>) -> PyResult<i32> {
    if is_one(py)? {
        return Ok(0);
    }
    if let Some(device) = of_context() {
        return Ok(device);
    }
    let device = make(py, Device::current)?;
    Ok(i32::try_from(device.ordinal()).unwrap_or(i32::MAX))
}

/// The device of the thread's context, if it has one. The call reads what the driver keeps for the
/// thread and waits for nothing, so that the interpreter's lock is kept.
pub(crate) fn of_context() -> Option<i32> {
    let driver = Driver::get().ok().filter(|_| !fork::in_child())?;
    let mut device = CuDevice(0);
    // SAFETY: `device` may be written to.
    let code = unsafe { driver.cuCtxGetDevice(&raw mut device) };
    code.is_success().then_some(device.0)
}
