//! Queries of the driver for `rmm_rs._cuda.gpu`. Each function returns the driver's code and a
//! value.

use pyo3::prelude::*;
use rmm_core::sys::{CuDeviceAttribute, CuResult, Driver};
use rmm_core::{Context, Device, Error, check};

use crate::interpreter::fork;

/// `cudaErrorInsufficientDriver`: what the runtime returns where there is no driver.
const NO_DRIVER: u32 = 35;

fn outcome<T: Default + Send>(
    py: Python<'_>,
    ask: impl FnOnce() -> Result<T, Error> + Send,
) -> PyResult<(u32, T)> {
    fork::check()?;
    Ok(match py.detach(ask) {
        Ok(value) => (0, value),
        Err(error) if error.is_invalid_argument() => (CuResult::INVALID_DEVICE.0, T::default()),
        Err(error) => (error.code().map_or(NO_DRIVER, |code| code.0), T::default()),
    })
}

fn device(ordinal: i32) -> Result<Device, Error> {
    let ordinal = usize::try_from(ordinal);
    Device::new(ordinal.map_err(|_| Error::invalid_argument("device", "it is negative"))?)
}

/// The number of the current device.
#[pyfunction]
pub(crate) fn _device_get(py: Python<'_>) -> PyResult<(u32, usize)> {
    outcome(py, || Ok(Device::current()?.ordinal()))
}

/// Makes a device current.
#[pyfunction]
pub(crate) fn _device_set(py: Python<'_>, ordinal: i32) -> PyResult<(u32, ())> {
    outcome(py, || {
        let driver = Driver::get()?;
        let current = device(ordinal)?.make_current()?;
        let context = Context::current()?;
        drop(current);
        // SAFETY: it is a primary context that was retained, and is never released.
        check("cuCtxSetCurrent", unsafe { driver.cuCtxSetCurrent(context.as_raw()) })
    })
}

/// How many devices there are.
#[pyfunction]
pub(crate) fn _device_count(py: Python<'_>) -> PyResult<(u32, usize)> {
    outcome(py, Device::count)
}

/// The name of a device.
#[pyfunction]
pub(crate) fn _device_name(py: Python<'_>, ordinal: i32) -> PyResult<(u32, String)> {
    outcome(py, || device(ordinal)?.name())
}

/// The bytes that identify a device.
#[pyfunction]
pub(crate) fn _device_uuid(py: Python<'_>, ordinal: i32) -> PyResult<(u32, Vec<u8>)> {
    outcome(py, || Ok(device(ordinal)?.uuid()?.bytes.to_vec()))
}

/// The memory of a device.
#[pyfunction]
pub(crate) fn _device_memory(py: Python<'_>, ordinal: i32) -> PyResult<(u32, u64)> {
    outcome(py, || device(ordinal)?.total_memory())
}

/// An attribute of a device, by the number that CUDA gives it.
#[pyfunction]
pub(crate) fn _device_attribute(
    py: Python<'_>,
    attribute: i32,
    ordinal: i32,
) -> PyResult<(u32, i32)> {
    outcome(py, || device(ordinal)?.attribute(CuDeviceAttribute(attribute)))
}

/// The driver's version: 0 if there is none.
#[pyfunction]
pub(crate) fn _driver_version(py: Python<'_>) -> PyResult<(u32, i32)> {
    fork::check()?;
    Ok(py.detach(|| {
        let Ok(driver) = Driver::get() else { return (0, 0) };
        let mut version = 0;
        // SAFETY: `version` may be written to.
        let code = unsafe { driver.cuDriverGetVersion(&raw mut version) };
        (code.0, version)
    }))
}

/// The driver's name of a code, and its meaning.
#[pyfunction]
pub(crate) fn _code_text(code: u32) -> (String, String) {
    let code = CuResult(code);
    (code.name().unwrap_or("CUDA_ERROR_UNKNOWN").to_owned(), code.text().to_owned())
}

/// Adds the functions.
pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(_device_get, module)?)?;
    module.add_function(wrap_pyfunction!(_device_set, module)?)?;
    module.add_function(wrap_pyfunction!(_device_count, module)?)?;
    module.add_function(wrap_pyfunction!(_device_name, module)?)?;
    module.add_function(wrap_pyfunction!(_device_uuid, module)?)?;
    module.add_function(wrap_pyfunction!(_device_memory, module)?)?;
    module.add_function(wrap_pyfunction!(_device_attribute, module)?)?;
    module.add_function(wrap_pyfunction!(_driver_version, module)?)?;
    module.add_function(wrap_pyfunction!(_code_text, module)?)
}
