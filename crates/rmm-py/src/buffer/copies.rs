//! Copies between any two places: the driver infers them from the addresses.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use rmm_core::{DevicePtr, Error, StreamRef, copy};

use crate::buffer::host::HostBytes;
use crate::interpreter::fork;
use crate::stream::StreamArg;
use crate::stream::place::At;

/// The exception of a failed copy.
fn failed(error: &Error) -> PyErr {
    let code = error.code().map_or_else(|| error.to_string(), |code| code.0.to_string());
    PyRuntimeError::new_err(format!("Memcpy failed with error: {code}"))
}

/// Copies in the order of the stream, and waits for it if `waits`.
pub(crate) fn between(
    py: Python<'_>,
    stream: At<'_>,
    target: u64,
    source: u64,
    bytes: usize,
    waits: bool,
) -> PyResult<()> {
    if bytes == 0 {
        return if waits { stream.wait(py) } else { Ok(()) };
    }
    fork::check()?;
    let act = |stream: StreamRef<'_>| {
        let (target, source) = (DevicePtr::new(target), DevicePtr::new(source));
        // SAFETY: the contract of the Python functions, as of RMM's: both places have as many
        // bytes, and the caller keeps them until the copy is complete.
        unsafe { copy::device_to_device(target, source, bytes, stream) }?;
        if waits { stream.synchronize() } else { Ok(()) }
    };
    let copied = py.detach(|| stream.with(act));
    copied.and_then(|copied| copied).map_err(|error| failed(&error))
}

/// Copies from the device into an object's memory.
#[pyfunction]
#[pyo3(signature = (db, hb, stream=StreamArg::Default))]
pub(crate) fn copy_ptr_to_host(
    py: Python<'_>,
    db: u64,
    hb: &Bound<'_, PyAny>,
    stream: StreamArg<'_>,
) -> PyResult<()> {
    let (host, stream) = (HostBytes::to_write(hb)?, stream.get(py)?);
    between(py, stream.into(), host.address(), db, host.len(), stream.is_default_stream())
}

/// Copies from an object's memory to the device.
#[pyfunction]
#[pyo3(signature = (hb, db, stream=StreamArg::Default))]
pub(crate) fn copy_host_to_ptr(
    py: Python<'_>,
    hb: &Bound<'_, PyAny>,
    db: u64,
    stream: StreamArg<'_>,
) -> PyResult<()> {
    let (host, stream) = (HostBytes::to_read(hb)?, stream.get(py)?);
    between(py, stream.into(), db, host.address(), host.len(), stream.is_default_stream())
}

/// Copies `count` bytes within the device.
#[pyfunction]
#[pyo3(signature = (d_src, d_dst, count, stream=StreamArg::Default))]
pub(crate) fn copy_device_to_ptr(
    py: Python<'_>,
    d_src: u64,
    d_dst: u64,
    count: usize,
    stream: StreamArg<'_>,
) -> PyResult<()> {
    between(py, stream.get(py)?.into(), d_dst, d_src, count, false)
}

/// Adds the functions.
pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(copy_ptr_to_host, module)?)?;
    module.add_function(wrap_pyfunction!(copy_host_to_ptr, module)?)?;
    module.add_function(wrap_pyfunction!(copy_device_to_ptr, module)?)
}
