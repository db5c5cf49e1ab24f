//! What Python calls of a buffer.

use pyo3::PyTraverseError;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyDict, PyTuple};
use rmm_core::{Device, DevicePtr, PrefetchTarget, prefetch};

use super::{DeviceBuffer, array_of, shown, to_device};
use crate::buffer::copies::between;
use crate::buffer::dlpack;
use crate::buffer::host::HostBytes;
use crate::resource::{DeviceMemoryResource, make};
use crate::stream::{Stream, StreamArg};

#[pymethods]
impl DeviceBuffer {
    #[new]
    #[pyo3(signature = (*, ptr=0, size=0, stream=StreamArg::Default, mr=None))]
    fn py_new(
        py: Python<'_>,
        ptr: u64,
        size: usize,
        stream: StreamArg<'_>,
        mr: Option<Bound<'_, DeviceMemoryResource>>,
    ) -> PyResult<Self> {
        let stream = stream.object(py)?;
        let waits = stream.get().is_default_stream();
        Self::make(py, ptr, size, stream, mr.as_ref().map(Bound::as_unbound), waits)
    }

    fn __len__(&self) -> usize {
        self.range().1
    }

    fn __sizeof__(&self) -> usize {
        self.range().1
    }

    fn __bool__(&self) -> bool {
        self.range().1 > 0
    }

    fn __bytes__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        self.tobytes(py, StreamArg::Default)
    }

    /// The size in bytes.
    #[getter]
    fn nbytes(&self) -> usize {
        self.range().1
    }

    /// The address; 0 if the buffer is empty.
    #[getter]
    fn ptr(&self) -> u64 {
        self.range().0
    }

    /// The size in bytes.
    #[getter]
    fn size(&self) -> usize {
        self.range().1
    }

    /// The resource that the memory is from.
    #[getter]
    fn mr(&self, py: Python<'_>) -> Py<DeviceMemoryResource> {
        self.resource.clone_ref(py)
    }

    /// The stream that the memory is freed on.
    #[getter]
    fn stream(&self, py: Python<'_>) -> Py<Stream> {
        self.stream_object(py)
    }

    /// The bytes that the buffer has room for.
    fn capacity(&self) -> usize {
        self.block().capacity
    }

    /// Has room for at least `new_capacity` bytes. The contents stay, and the buffer is on the
    /// stream then.
    #[pyo3(signature = (new_capacity, stream=StreamArg::Default))]
    fn reserve(&self, py: Python<'_>, new_capacity: usize, stream: StreamArg<'_>) -> PyResult<()> {
        self.grow(py, new_capacity, &stream, None)
    }

    /// Changes the size. What fits of the contents stays, and the buffer is on the stream then.
    #[pyo3(signature = (new_size, stream=StreamArg::Default))]
    fn resize(&self, py: Python<'_>, new_size: usize, stream: StreamArg<'_>) -> PyResult<()> {
        self.grow(py, new_size, &stream, Some(new_size))
    }

    /// The contents as bytes, on any stream complete on return.
    #[pyo3(signature = (stream=StreamArg::Default))]
    fn tobytes<'py>(
        &self,
        py: Python<'py>,
        stream: StreamArg<'_>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let _use = self.share()?;
        let (pointer, size) = self.range();
        let stream = self.on(py, stream.get(py)?)?;
        PyBytes::new_with(py, size, |bytes| {
            let host = bytes.as_mut_ptr().expose_provenance() as u64;
            // It waits on other streams too: no caller keeps the bytes until then.
            between(py, stream, host, pointer, bytes.len(), true)
        })
    }

    /// Copies the contents into `ary`, or a new NumPy array, and returns it.
    #[pyo3(signature = (ary=None, stream=StreamArg::Default))]
    fn copy_to_host<'py>(
        &self,
        py: Python<'py>,
        ary: Option<Bound<'py, PyAny>>,
        stream: StreamArg<'_>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let _use = self.share()?;
        let ((pointer, size), stream) = (self.range(), stream.get(py)?);
        // No caller has the new array yet, to keep it until then.
        let waits = stream.is_default_stream() || ary.is_none();
        let array = match ary {
            Some(array) => array,
            None => py.import("numpy")?.call_method1("empty", (size, "u1"))?,
        };
        let host = HostBytes::to_write(&array)?;
        if host.len() < size {
            return Err(shown("small", size));
        }
        between(py, self.on(py, stream)?, host.address(), pointer, size, waits)?;
        Ok(array)
    }

    /// Copies from memory of the host to the beginning of the buffer.
    #[pyo3(signature = (ary, stream=StreamArg::Default))]
    fn copy_from_host(
        &self,
        py: Python<'_>,
        ary: &Bound<'_, PyAny>,
        stream: StreamArg<'_>,
    ) -> PyResult<()> {
        let _use = self.share()?;
        let ((pointer, size), stream) = (self.range(), stream.get(py)?);
        let host = HostBytes::to_read(ary)?;
        if host.len() > size {
            return Err(shown("large", host.len()));
        }
        let (at, waits) = (self.on(py, stream)?, stream.is_default_stream());
        between(py, at, pointer, host.address(), host.len(), waits)
    }

    /// Copies from an object with `__cuda_array_interface__` to the beginning of the buffer.
    #[pyo3(signature = (cuda_ary, stream=StreamArg::Default))]
    fn copy_from_device(
        &self,
        py: Python<'_>,
        cuda_ary: &Bound<'_, PyAny>,
        stream: StreamArg<'_>,
    ) -> PyResult<()> {
        let _use = self.share()?;
        let (pointer, size) = self.range();
        let (source, bytes) = array_of(cuda_ary)?;
        if bytes > size {
            return Err(shown("large", bytes));
        }
        between(py, self.on(py, stream.get(py)?)?, pointer, source, bytes, false)
    }

    /// A buffer with the contents of a host object.
    #[staticmethod]
    #[pyo3(name = "to_device", signature = (b, stream=StreamArg::Default))]
    fn static_to_device(
        py: Python<'_>,
        b: &Bound<'_, PyAny>,
        stream: StreamArg<'_>,
    ) -> PyResult<Self> {
        to_device(py, b, stream)
    }

    /// A buffer with the same contents, from the same resource on the same stream.
    fn copy(&self, py: Python<'_>) -> PyResult<Self> {
        self.duplicate(py)
    }

    fn __copy__(&self, py: Python<'_>) -> PyResult<Self> {
        self.copy(py)
    }

    /// Moves managed memory to a device, or to the host (-1). Other memory stays where it is.
    #[pyo3(signature = (device=None, stream=None))]
    fn prefetch(
        &self,
        py: Python<'_>,
        device: Option<i32>,
        stream: Option<StreamArg<'_>>,
    ) -> PyResult<()> {
        let _use = self.share()?;
        let (pointer, size) = self.range();
        let own = self.stream(py);
        let stream = match &stream {
            Some(stream) => self.on(py, stream.get(py)?)?,
            None => self.place().at(own.get()),
        };
        make(py, || {
            let target = match device {
                None => PrefetchTarget::Device(Device::current()?),
                Some(ordinal) => usize::try_from(ordinal)
                    .map_or(Ok(PrefetchTarget::Host), |at| {
                        Device::new(at).map(PrefetchTarget::Device)
                    })?,
            };
            stream.with(|stream| prefetch(DevicePtr::new(pointer), size, target, stream))?
        })
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let function = py.import("rmm_rs.pylibrmm.device_buffer")?.getattr("to_device")?;
        let contents = self.copy_to_host(py, None, StreamArg::Default)?;
        (function, (contents,)).into_pyobject(py)
    }

    /// The array interface of Numba, in the version that RMM speaks.
    #[getter]
    fn __cuda_array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (pointer, size) = self.range();
        let interface = PyDict::new(py);
        interface.set_item("data", (pointer, false))?;
        interface.set_item("shape", (size,))?;
        interface.set_item("strides", py.None())?;
        interface.set_item("typestr", "|u1")?;
        interface.set_item("version", 0)?;
        Ok(interface)
    }

    /// A tensor of DLPack over the memory, for which the consumer's stream waits.
    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__<'py>(
        slf: &Bound<'py, Self>,
        stream: Option<i64>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(u32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        dlpack::export(slf, stream, max_version, dl_device, copy)
    }

    /// The kind of memory, by DLPack's numbers, and its device.
    fn __dlpack_device__(&self, py: Python<'_>) -> PyResult<(u32, i32)> {
        dlpack::device(py, self)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.resource)?;
        // No thread waits here. If another thread has the block, its stream counts as used
        // elsewhere.
        match self.block.try_lock() {
            Ok(block) => visit.call(&block.stream),
            Err(_) => Ok(()),
        }
    }
}
