//! The current resource of each device.
//!
//! Two tables: the engine's ([`per_device`]), for C and Rust, and this one, which has the Python
//! objects, so that what comes out is the object that was set. It is apart from the engine's, by
//! the devices' numbers: a buffer without a resource looks it up, for which the engine would ask
//! the driver for the device's UUID; and it answers where there is no driver.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rmm_core::{Device, per_device};

use crate::interpreter::fork;
use crate::resource::{DeviceMemoryResource, Upstream, make, spec};
use crate::stream::current_device::current;

/// Held only to read or write the table: nothing is made, dropped or called meanwhile.
static RESOURCES: Mutex<BTreeMap<i32, Py<DeviceMemoryResource>>> = Mutex::new(BTreeMap::new());

fn lock() -> MutexGuard<'static, BTreeMap<i32, Py<DeviceMemoryResource>>> {
    RESOURCES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The resource of a device: the object that was set, or a new one, as the environment variable
/// `RMM_RESOURCE` describes it, and else over `cudaMalloc`.
#[pyfunction]
#[pyo3(signature = (device))]
pub(crate) fn get_per_device_resource(
    py: Python<'_>,
    device: i32,
) -> PyResult<Py<DeviceMemoryResource>> {
    if let Some(resource) = lock().get(&device) {
        return Ok(resource.clone_ref(py));
    }
    let described = spec::of_variable(py, device)?;
    let made = if let Some(resource) = &described {
        resource.clone_ref(py)
    } else {
        let class = py.get_type::<crate::resource::base::CudaMemoryResource>();
        class.call0()?.cast_into::<DeviceMemoryResource>()?.unbind()
    };
    let known = lock().entry(device).or_insert_with(|| made.clone_ref(py)).clone_ref(py);
    if described.is_some() && known.is(&made) {
        // Code in C and Rust shares it, unless it has set another one.
        let engine = made.get().engine()?.clone();
        let ordinal = usize::try_from(device)?;
        let first = || per_device::get_or_insert_with(Device::new(ordinal)?, || engine);
        drop(crate::interpreter::drop_detached::DropDetached::new(make(py, first)?));
    }
    drop((described, made));
    Ok(known)
}

/// The resource of the current device.
#[pyfunction]
pub(crate) fn get_current_device_resource(py: Python<'_>) -> PyResult<Py<DeviceMemoryResource>> {
    let device = current(py)?;
    get_per_device_resource(py, device)
}

/// Sets the resource of a device, which has to be current when the resource is made.
#[pyfunction]
#[pyo3(signature = (device, mr))]
pub(crate) fn set_per_device_resource(
    py: Python<'_>,
    device: i32,
    mr: Upstream<'_>,
) -> PyResult<()> {
    let engine = mr.engine()?;
    let ordinal = usize::try_from(device);
    let ordinal =
        ordinal.map_err(|_| PyRuntimeError::new_err(format!("there is no device {device}")))?;
    let before = make(py, || per_device::replace(Device::new(ordinal)?, engine))?;
    let replaced = lock().insert(device, mr.0.unbind());
    drop(replaced);
    drop(crate::interpreter::drop_detached::DropDetached::new(before));
    Ok(())
}

/// Sets the resource of the current device.
#[pyfunction]
#[pyo3(signature = (mr))]
pub(crate) fn set_current_device_resource(py: Python<'_>, mr: Upstream<'_>) -> PyResult<()> {
    let device = current(py)?;
    set_per_device_resource(py, device, mr)
}

/// Whether every resource that was set has memory.
#[pyfunction]
pub(crate) fn is_initialized() -> bool {
    lock().values().all(|resource| resource.get().has_engine())
}

/// The resources that were set or asked for, by device.
#[pyfunction]
pub(crate) fn _per_device_resources(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let all: Vec<_> =
        lock().iter().map(|(device, resource)| (*device, resource.clone_ref(py))).collect();
    let dictionary = PyDict::new(py);
    for (device, resource) in all {
        dictionary.set_item(device, resource)?;
    }
    Ok(dictionary)
}

/// Forgets the resources of all devices: each gets a new first one when it is asked for.
#[pyfunction]
pub(crate) fn _forget_resources(py: Python<'_>) -> PyResult<()> {
    fork::check()?;
    let all = std::mem::take(&mut *lock());
    for &device in all.keys() {
        let Ok(ordinal) = usize::try_from(device) else { continue };
        // A device that is not there was only asked for: the engine has nothing of it.
        let Ok(device) = make(py, || Device::new(ordinal)) else { continue };
        let first = || rmm_core::AnyResource::new(rmm_resources::CudaMemoryResource::new());
        let before = make(py, || per_device::replace(device, first()))?;
        drop(crate::interpreter::drop_detached::DropDetached::new(before));
    }
    drop(all);
    Ok(())
}

/// The free and the total bytes of the current device.
#[pyfunction]
pub(crate) fn available_device_memory(py: Python<'_>) -> PyResult<(u64, u64)> {
    let info = make(py, Device::memory_info)?;
    Ok((info.free, info.total))
}

/// Adds the functions.
pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(get_per_device_resource, module)?)?;
    module.add_function(wrap_pyfunction!(get_current_device_resource, module)?)?;
    module.add_function(wrap_pyfunction!(set_per_device_resource, module)?)?;
    module.add_function(wrap_pyfunction!(set_current_device_resource, module)?)?;
    module.add_function(wrap_pyfunction!(is_initialized, module)?)?;
    module.add_function(wrap_pyfunction!(_per_device_resources, module)?)?;
    module.add_function(wrap_pyfunction!(_forget_resources, module)?)?;
    module.add_function(wrap_pyfunction!(available_device_memory, module)?)
}
