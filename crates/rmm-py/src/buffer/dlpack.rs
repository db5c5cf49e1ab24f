//! Buffers as tensors of DLPack: one dimension of unsigned bytes.
//!
//! ```text
//! capsule "dltensor" or "dltensor_versioned" ──> tensor ──> Exported { the buffer, its shape }
//!       a consumer renames it, and calls the deleter; else the capsule's end calls it
//! ```
//!
//! While a tensor exists its buffer keeps its memory: a resize raises.

use std::ffi::{CStr, c_void};
use std::ptr::{self, NonNull};

use pyo3::exceptions::{PyBufferError, PyMemoryError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use rmm_core::sys::CuStream;
use rmm_core::{Device, Error, Introspect as _, MemoryKind, StreamRef};
use rmm_interop_dlpack::{
    DLDataType, DLDevice, DLManagedTensorVersioned, DLPackVersion, DLTensor, FLAG_IS_COPIED,
};

use crate::buffer::DeviceBuffer;
use crate::interpreter::attached;
use crate::interpreter::errors::of_call;
use crate::interpreter::fork;
use crate::resource::make;
use crate::stream::place::device_of;

const NAME: &CStr = c"dltensor";
const VERSIONED_NAME: &CStr = c"dltensor_versioned";

/// The tensor of DLPack before 1.0.
#[repr(C)]
struct DLManagedTensor {
    dl_tensor: DLTensor,
    manager_ctx: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut DLManagedTensor)>,
}

/// What a tensor keeps.
struct Exported {
    buffer: Option<Py<DeviceBuffer>>,
    shape: i64,
}

impl Drop for Exported {
    fn drop(&mut self) {
        let buffer = self.buffer.take();
        if let Some(buffer) = &buffer {
            buffer.get().end_export();
        }
        // A consumer may be done on any thread. After the interpreter ended the buffer stays.
        let _ignored = attached(move |_| drop(buffer));
    }
}

/// A tensor of either layout.
trait Managed: Sized {
    const CAPSULE: &'static CStr;
    fn new(tensor: DLTensor, kept: *mut c_void, flags: u64) -> Self;
    fn kept(&self) -> *mut c_void;
}

impl Managed for DLManagedTensor {
    const CAPSULE: &'static CStr = NAME;

    fn new(dl_tensor: DLTensor, manager_ctx: *mut c_void, _flags: u64) -> Self {
        Self { dl_tensor, manager_ctx, deleter: Some(delete::<Self>) }
    }

    fn kept(&self) -> *mut c_void {
        self.manager_ctx
    }
}

impl Managed for DLManagedTensorVersioned {
    const CAPSULE: &'static CStr = VERSIONED_NAME;

    fn new(dl_tensor: DLTensor, manager_ctx: *mut c_void, flags: u64) -> Self {
        let deleter = Some(delete::<Self> as _);
        Self { version: DLPackVersion::EXPORTED, manager_ctx, deleter, flags, dl_tensor }
    }

    fn kept(&self) -> *mut c_void {
        self.manager_ctx
    }
}

/// Ends a tensor.
///
/// # Safety
/// It is from [`capsule`], and ends once.
unsafe extern "C" fn delete<T: Managed>(tensor: *mut T) {
    // SAFETY: `capsule` made it of a box, and this is its end, by the caller's contract.
    let tensor = unsafe { Box::from_raw(tensor) };
    // SAFETY: as above; nothing but this reads it.
    drop(unsafe { Box::from_raw(tensor.kept().cast::<Exported>()) });
}

/// Ends the tensor of a capsule that no consumer took.
unsafe extern "C" fn end_capsule<T: Managed>(capsule: *mut ffi::PyObject) {
    // SAFETY: Python calls it with a capsule. A consumer that took the tensor has renamed it.
    if unsafe { ffi::PyCapsule_IsValid(capsule, T::CAPSULE.as_ptr()) } == 0 {
        return;
    }
    // SAFETY: it has this name.
    let tensor = unsafe { ffi::PyCapsule_GetPointer(capsule, T::CAPSULE.as_ptr()) };
    // SAFETY: the capsule was made with it, and no consumer ends it.
    unsafe { delete(tensor.cast::<T>()) };
}

fn capsule<T: Managed>(
    py: Python<'_>,
    buffer: Py<DeviceBuffer>,
    device: DLDevice,
    flags: u64,
) -> PyResult<Bound<'_, PyCapsule>> {
    // A resize from here on raises, until the tensor ends.
    buffer.get().begin_export()?;
    let (address, size) = buffer.get().range();
    let shape = i64::try_from(size).unwrap_or(i64::MAX);
    let exported = Box::into_raw(Box::new(Exported { buffer: Some(buffer), shape }));
    // SAFETY: the box lives until the tensor ends, and so does the field.
    let shape = unsafe { &raw mut (*exported).shape };
    let address = usize::try_from(address).unwrap_or(0);
    let tensor = DLTensor {
        data: ptr::with_exposed_provenance_mut(address),
        device,
        ndim: 1,
        dtype: DLDataType { code: DLDataType::UINT, bits: 8, lanes: 1 },
        shape,
        strides: ptr::null_mut(),
        byte_offset: 0,
    };
    let tensor = Box::into_raw(Box::new(T::new(tensor, exported.cast(), flags)));
    let Some(pointer) = NonNull::new(tensor.cast::<c_void>()) else {
        return Err(PyMemoryError::new_err("the tensor is null"));
    };
    // SAFETY: the pointer is what the destructor takes, which does not unwind.
    let capsule = unsafe {
        let destructor = Some(end_capsule::<T> as _);
        PyCapsule::new_with_pointer_and_destructor(py, pointer, T::CAPSULE, destructor)
    };
    if capsule.is_err() {
        // SAFETY: no capsule has it.
        unsafe { delete(tensor) };
    }
    capsule
}

/// The kind of memory, and the device that it is of.
fn memory_of(py: Python<'_>, buffer: &DeviceBuffer) -> PyResult<DLDevice> {
    let kind = buffer.resource().get().engine()?.try_property::<MemoryKind>();
    let device_type = match kind {
        None | Some(MemoryKind::Device) => DLDevice::CUDA,
        Some(MemoryKind::Pinned) => DLDevice::CUDA_HOST,
        Some(MemoryKind::Managed | MemoryKind::Host) => DLDevice::CUDA_MANAGED,
    };
    if device_type != DLDevice::CUDA {
        return Ok(DLDevice { device_type, device_id: 0 });
    }
    let ((address, _), place) = (buffer.range(), buffer.place());
    let ask = || match (address, place.device()) {
        (0, Some(device)) => Ok(device),
        (0, None) => Ok(i32::try_from(Device::current()?.ordinal()).unwrap_or(0)),
        (address, _) => device_of(address),
    };
    Ok(DLDevice { device_type, device_id: make(py, ask)? })
}

/// Has the consumer's stream wait for the buffer's.
fn order(py: Python<'_>, buffer: &DeviceBuffer, stream: Option<i64>, kind: u32) -> PyResult<()> {
    let own = buffer.stream_object(py);
    let own = buffer.place().at(own.get());
    if kind == DLDevice::CUDA_HOST {
        // The host reads it, and is on no stream.
        return own.wait(py);
    }
    let consumer = match stream {
        Some(-1) => return Ok(()),
        Some(0) => {
            let text = "a DLPack stream of CUDA is not 0: the legacy default stream is 1";
            return Err(PyValueError::new_err(text));
        }
        None => 1,
        Some(handle) => usize::try_from(handle)
            .map_err(|_| PyValueError::new_err(format!("{handle} is no stream")))?,
    };
    fork::check()?;
    let waits = |own: StreamRef<'_>| -> Result<(), Error> {
        let handle = CuStream::from_raw(ptr::with_exposed_provenance_mut(consumer));
        // SAFETY: the protocol's contract: the consumer keeps its stream during this call.
        unsafe { StreamRef::with_raw(handle, |consumer| consumer.wait_for(own)) }?
    };
    let ordered = py.detach(|| own.with(waits));
    ordered.and_then(|ordered| ordered).map_err(|error| of_call(py, &error))
}

/// `DeviceBuffer.__dlpack__`.
pub(crate) fn export<'py>(
    buffer: &Bound<'py, DeviceBuffer>,
    stream: Option<i64>,
    max_version: Option<(u32, u32)>,
    dl_device: Option<(u32, i32)>,
    copy: Option<bool>,
) -> PyResult<Bound<'py, PyCapsule>> {
    let py = buffer.py();
    let device = memory_of(py, buffer.get())?;
    if dl_device.is_some_and(|wanted| wanted != (device.device_type, device.device_id)) {
        return Err(PyBufferError::new_err("a buffer is exported on its own device only"));
    }
    let mut flags = 0;
    let exported = if copy == Some(true) {
        flags = FLAG_IS_COPIED;
        Py::new(py, buffer.get().duplicate(py)?)?
    } else {
        buffer.clone().unbind()
    };
    order(py, exported.get(), stream, device.device_type)?;
    if max_version.is_some_and(|(major, _)| major >= 1) {
        capsule::<DLManagedTensorVersioned>(py, exported, device, flags)
    } else {
        capsule::<DLManagedTensor>(py, exported, device, flags)
    }
}

/// `DeviceBuffer.__dlpack_device__`.
pub(crate) fn device(py: Python<'_>, buffer: &DeviceBuffer) -> PyResult<(u32, i32)> {
    let device = memory_of(py, buffer)?;
    Ok((device.device_type, device.device_id))
}
