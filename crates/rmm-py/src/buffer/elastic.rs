//! Memory at fixed addresses that grows and shrinks in place.

use std::ops::Range;
use std::sync::Mutex;

use pyo3::PyTraverseError;
use pyo3::exceptions::PyValueError;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rmm_containers::ElasticBuffer as Engine;
use rmm_core::{AnyResource, Error, ErrorKind, StreamRef, fork};
use rmm_resources::VirtualMemoryResource as Virtual;

use crate::interpreter::drop_detached::DropDetached;
use crate::interpreter::errors::wrong_type;
use crate::resource::base::VirtualMemoryResource;
use crate::resource::{DeviceMemoryResource, make};
use crate::stream::StreamArg;

/// Addresses for a maximum, of which ranges get memory (`commit`) and return it (`decommit`) in
/// place, so that pointers to the rest stay valid. Not in RMM.
///
/// Offsets and sizes are in bytes, and of whole pages for `commit` and `decommit`. Its
/// `__cuda_array_interface__` is what is committed from the first address on without a gap: an
/// array over it does not change with the buffer, and is not used where memory was returned.
///
/// The buffer knows of the work that `record_stream` recorded. It ends after that work.
///
/// Parameters
/// ----------
/// capacity : int
///     Bytes of addresses, rounded up to whole pages.
/// mr : VirtualMemoryResource, optional
///     By default a new one of the current device.
#[derive(Debug)]
#[pyclass(frozen, weakref, module = "rmm_rs")]
pub(crate) struct ElasticBuffer {
    resource: Py<DeviceMemoryResource>,
    /// Locked only by threads without the interpreter's lock.
    engine: DropDetached<Mutex<Engine>>,
    pointer: u64,
    capacity: usize,
    page_size: usize,
}

impl ElasticBuffer {
    /// Calls `act` with the engine's buffer, without the interpreter's lock.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        act: impl FnOnce(&mut Engine) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        let engine = self.engine.get()?;
        make(py, || act(&mut fork::lock(engine)))
    }

    /// The bytes that are committed from the first address on without a gap.
    fn front_of(engine: &Engine) -> usize {
        let first = engine.committed().next().filter(|range| range.start == 0);
        first.map_or(0, |range| range.end)
    }
}

fn range(offset: usize, size: usize) -> PyResult<Range<usize>> {
    let end = offset.checked_add(size);
    let end = end.ok_or_else(|| {
        PyValueError::new_err(format!("{size} bytes from {offset} on cannot be addressed"))
    })?;
    Ok(offset..end)
}

#[pymethods]
impl ElasticBuffer {
    #[new]
    #[pyo3(signature = (capacity, mr=None))]
    fn py_new(
        py: Python<'_>,
        capacity: usize,
        mr: Option<Bound<'_, DeviceMemoryResource>>,
    ) -> PyResult<Self> {
        let resource = if let Some(resource) = mr {
            resource.unbind()
        } else {
            let engine = AnyResource::new(make(py, Virtual::new)?);
            let base = DeviceMemoryResource::over_engine(engine);
            Bound::new(py, base.add_subclass(VirtualMemoryResource))?.into_super().unbind()
        };
        let engine = resource.get().engine()?;
        let pages = engine.downcast_ref::<Virtual>().ok_or_else(|| {
            wrong_type("an ElasticBuffer needs a VirtualMemoryResource itself, not one over it")
        })?;
        let reserve = || Engine::reserve(capacity, StreamRef::legacy(), pages);
        let engine = make(py, reserve)?;
        Ok(Self {
            pointer: engine.as_ptr().addr(),
            capacity: engine.capacity(),
            page_size: engine.page_size(),
            engine: DropDetached::new(Mutex::new(engine)),
            resource,
        })
    }

    /// The first address, which does not change.
    #[getter]
    fn ptr(&self) -> u64 {
        self.pointer
    }

    /// Bytes of addresses, a multiple of the page size.
    #[getter]
    fn capacity(&self) -> usize {
        self.capacity
    }

    /// The bytes of a page.
    #[getter]
    fn page_size(&self) -> usize {
        self.page_size
    }

    /// The resource that the memory is from.
    #[getter]
    fn mr(&self, py: Python<'_>) -> Py<DeviceMemoryResource> {
        self.resource.clone_ref(py)
    }

    /// The committed ranges as pairs of offset and size, in order.
    fn committed(&self, py: Python<'_>) -> PyResult<Vec<(usize, usize)>> {
        self.with(py, |engine| {
            Ok(engine.committed().map(|range| (range.start, range.len())).collect())
        })
    }

    /// Gives memory to a range, of which no page has any: to all of it or, with an exception, to
    /// none. Any stream may use it at once. It is uninitialized.
    fn commit(&self, py: Python<'_>, offset: usize, size: usize) -> PyResult<()> {
        let range = range(offset, size)?;
        let engine = self.engine.get()?;
        make(py, || Engine::commit_locked(engine, range))
    }

    /// Returns the memory of a committed range to the device after the work that was recorded for
    /// it, and the number of bytes. If that work may be running, waits for it if `blocking`, and
    /// otherwise returns 0.
    #[pyo3(signature = (offset, size, *, blocking=false))]
    fn decommit(
        &self,
        py: Python<'_>,
        offset: usize,
        size: usize,
        blocking: bool,
    ) -> PyResult<usize> {
        let range = range(offset, size)?;
        self.with(py, |engine| {
            if blocking {
                return engine.decommit_blocking(range);
            }
            match engine.decommit(range) {
                Err(error) if error.kind() == ErrorKind::NotReady => Ok(0),
                outcome => outcome,
            }
        })
    }

    /// Records that work which was enqueued on a stream by now uses a committed range, or all that
    /// is committed from `offset` on without a gap. A default stream is that of the current device.
    /// On a stream under capture, a graph uses it: it stays committed until `end_graph_uses`.
    #[pyo3(signature = (stream, offset=0, size=None))]
    fn record_stream(
        &self,
        py: Python<'_>,
        stream: StreamArg<'_>,
        offset: usize,
        size: Option<usize>,
    ) -> PyResult<()> {
        let given = size.map(|size| range(offset, size)).transpose()?;
        let stream = stream.get(py)?;
        self.with(py, |engine| {
            let rest = || {
                let run = engine.committed().find(|range| range.contains(&offset));
                // Where nothing is committed the engine says so, but for an empty buffer.
                offset..run.map_or(offset.saturating_add(offset.min(1)), |range| range.end)
            };
            let range = given.unwrap_or_else(rest);
            stream.with(|stream| engine.record_current_stream(range, stream))?
        })
    }

    /// Forgets that graphs use the memory: none of them runs, and none is launched that uses what
    /// is decommitted then.
    fn end_graph_uses(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |engine| {
            // SAFETY: the docstring asks the same of the caller.
            unsafe { engine.end_graph_uses() };
            Ok(())
        })
    }

    /// The array interface of Numba: what is committed from the first address on without a gap.
    #[getter]
    fn __cuda_array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let size = self.with(py, |engine| Ok(Self::front_of(engine)))?;
        let pointer = if size > 0 { self.pointer } else { 0 };
        let interface = PyDict::new(py);
        interface.set_item("data", (pointer, false))?;
        interface.set_item("shape", (size,))?;
        interface.set_item("strides", py.None())?;
        interface.set_item("typestr", "|u1")?;
        interface.set_item("version", 0)?;
        Ok(interface)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let committed: usize = self.committed(py)?.iter().map(|&(_, size)| size).sum();
        let Self { pointer, capacity, .. } = self;
        Ok(format!("ElasticBuffer({pointer:#x}, {committed} of {capacity} bytes are committed)"))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.resource)
    }
}
