//! Buffers in device memory.

pub(crate) mod copies;
pub(crate) mod dlpack;
mod elastic;
mod host;
#[cfg(target_os = "linux")]
pub(crate) mod lease;
mod methods;
pub(crate) mod sharing;

use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicIsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyString;
use rmm_core::{DevicePtr, Resource as _, StreamRef};

use crate::buffer::copies::between;
use crate::buffer::host::HostBytes;
use crate::interpreter::kept_until_wait;
use crate::interpreter::{fork, sizes};
use crate::resource::registry;
use crate::resource::{DeviceMemoryResource, allocate};
use crate::stream::place::{At, Place};
use crate::stream::{Stream, StreamArg};

/// Memory of the device, which is freed in the order of its stream when the buffer ends.
///
/// Parameters
/// ----------
/// ptr : int
///     Where to copy from, on the host or the device; nothing is copied if it is 0.
/// size : int
///     Bytes.
/// stream : Stream
///     The stream of the allocation and the copy, which is complete on return if it is the default
///     stream.
/// mr : DeviceMemoryResource, optional
///     By default the current device's at this moment.
#[derive(Debug)]
#[pyclass(subclass, frozen, weakref, module = "rmm_rs.pylibrmm.device_buffer")]
pub(crate) struct DeviceBuffer {
    resource: Py<DeviceMemoryResource>,
    /// Held only to read or write the fields.
    block: Mutex<Block>,
    /// The copies that are under way, or -1 while the memory is replaced.
    uses: AtomicIsize,
}

/// The memory of a buffer.
#[derive(Debug)]
struct Block {
    pointer: u64,
    size: usize,
    capacity: usize,
    stream: Py<Stream>,
    /// Where it is on that stream.
    place: Place,
}

/// A use of a buffer's memory, which ends when this is dropped.
struct Use<'a> {
    uses: &'a AtomicIsize,
    is_exclusive: bool,
}

impl Drop for Use<'_> {
    fn drop(&mut self) {
        if self.is_exclusive {
            self.uses.store(0, Ordering::Release);
        } else {
            let _ignored = self.uses.fetch_sub(1, Ordering::Release);
        }
    }
}

/// Frees a block in the order of a stream, with the interpreter's lock up to the first wait.
///
/// # Safety
/// The block is the resource's, of this size, and no work uses it that does not come before this
/// place on the stream.
#[inline]
unsafe fn free(
    py: Python<'_>,
    resource: &DeviceMemoryResource,
    stream: At<'_>,
    pointer: u64,
    bytes: usize,
) {
    let (Ok(resource), Ok(layout)) = (resource.engine(), sizes::layout(bytes)) else { return };
    if pointer == 0 || fork::in_child() {
        return;
    }
    let pointer = DevicePtr::new(pointer);
    let act = |stream: StreamRef<'_>| {
        // SAFETY: the caller's contract.
        unsafe { resource.deallocate(stream, pointer, layout) };
    };
    // If the driver does not know the stream or the device any more, no driver call says when the
    // memory is unused: it stays allocated.
    let free = || stream.free_with(act);
    // SAFETY: it is the engine's code, which reaches Python objects through `attached`.
    let _ignored = unsafe { kept_until_wait(py, free) };
}

impl Drop for DeviceBuffer {
    fn drop(&mut self) {
        let block = self.block.get_mut().unwrap_or_else(PoisonError::into_inner);
        let (pointer, capacity) = (block.pointer, block.capacity);
        let stream = block.place.at(block.stream.get());
        // SAFETY: the thread is attached: a buffer is dropped where its Python object is released,
        // or by a function with a token before there is one.
        let py = unsafe { Python::assume_attached() };
        // SAFETY: the buffer's own block, and its last use: what Python enqueued on other streams
        // has to be ordered before, by the contract of the class, as of RMM's.
        unsafe { free(py, self.resource.get(), stream, pointer, capacity) };
    }
}

impl DeviceBuffer {
    pub(crate) fn make(
        py: Python<'_>,
        source: u64,
        size: usize,
        stream: &Py<Stream>,
        resource: Option<&Py<DeviceMemoryResource>>,
        waits: bool,
    ) -> PyResult<Self> {
        let resource = match resource {
            Some(resource) => resource.clone_ref(py),
            None => registry::get_current_device_resource(py)?,
        };
        let place = Place::of(stream.get(), None);
        Self::make_at(py, place, (source, size), stream, resource, waits)
    }

    fn make_at(
        py: Python<'_>,
        place: Place,
        (source, size): (u64, usize),
        stream: &Py<Stream>,
        resource: Py<DeviceMemoryResource>,
        waits: bool,
    ) -> PyResult<Self> {
        let at = place.at(stream.get());
        let engine = resource.get().engine()?;
        let (pointer, was_cached) = allocate(py, engine, at, size)?;
        let place = place.with_memory(py, pointer, was_cached);
        let block = Block { pointer, size, capacity: size, stream: stream.clone_ref(py), place };
        let buffer = Self { resource, block: Mutex::new(block), uses: AtomicIsize::new(0) };
        if source != 0 && size != 0 {
            between(py, at, pointer, source, size, waits)?;
        }
        Ok(buffer)
    }

    fn block(&self) -> MutexGuard<'_, Block> {
        self.block.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Address and size.
    pub(crate) fn range(&self) -> (u64, usize) {
        let block = self.block();
        (if block.size == 0 { 0 } else { block.pointer }, block.size)
    }

    pub(crate) fn resource(&self) -> &Py<DeviceMemoryResource> {
        &self.resource
    }

    pub(crate) fn stream_object(&self, py: Python<'_>) -> Py<Stream> {
        self.block().stream.clone_ref(py)
    }

    /// Where it is on its stream.
    pub(crate) fn place(&self) -> Place {
        self.block().place
    }

    /// A stream of the calling thread, for work on the memory.
    fn on<'a>(&self, py: Python<'_>, stream: &'a Stream) -> PyResult<At<'a>> {
        self.place().follow(py, stream)
    }

    /// Keeps others from replacing the memory until [`end_export`](Self::end_export).
    pub(crate) fn begin_export(&self) -> PyResult<()> {
        let _leaked = ManuallyDrop::new(self.share()?);
        Ok(())
    }

    /// Ends what [`begin_export`](Self::begin_export) began.
    pub(crate) fn end_export(&self) {
        drop(Use { uses: &self.uses, is_exclusive: false });
    }

    /// A buffer with the same contents, from the same resource on the same stream.
    pub(crate) fn duplicate(&self, py: Python<'_>) -> PyResult<Self> {
        let _use = self.share()?;
        let stream = self.stream_object(py);
        let place = self.on(py, stream.get())?.place();
        let (resource, waits) = (self.resource.clone_ref(py), stream.get().is_default_stream());
        Self::make_at(py, place, self.range(), &stream, resource, waits)
    }

    /// Keeps others from replacing the memory.
    fn share(&self) -> PyResult<Use<'_>> {
        let shared = self.uses.fetch_update(Ordering::Acquire, Ordering::Relaxed, |uses| {
            (uses >= 0).then_some(uses + 1)
        });
        match shared {
            Ok(_) => Ok(Use { uses: &self.uses, is_exclusive: false }),
            Err(_) => Err(PyRuntimeError::new_err("another thread resizes the buffer")),
        }
    }

    /// Keeps others from using the memory.
    fn exclude(&self) -> PyResult<Use<'_>> {
        match self.uses.compare_exchange(0, -1, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => Ok(Use { uses: &self.uses, is_exclusive: true }),
            Err(_) => Err(PyRuntimeError::new_err(
                "the buffer is used by another thread, or exported by DLPack",
            )),
        }
    }

    /// Makes the capacity at least so large, keeps the contents, and has the buffer on the stream.
    fn grow(
        &self,
        py: Python<'_>,
        capacity: usize,
        stream: &StreamArg<'_>,
        new_size: Option<usize>,
    ) -> PyResult<()> {
        let _use = self.exclude()?;
        let stream = stream.object(py)?;
        let (pointer, size, former) = {
            let block = self.block();
            (block.pointer, block.size, block.capacity)
        };
        let at = self.on(py, stream.get())?;
        let mut replaced = None;
        if capacity > former {
            let resource = self.resource.get().engine()?;
            let (new, _) = allocate(py, resource, at, capacity)?;
            if let Err(error) = between(py, at, new, pointer, size, false) {
                // SAFETY: the block was allocated just now, on this stream.
                unsafe { free(py, self.resource.get(), at, new, capacity) };
                return Err(error);
            }
            replaced = Some(new);
        }
        let moved = stream.clone_ref(py);
        let former_stream = {
            let mut block = self.block();
            if let Some(new) = replaced {
                (block.pointer, block.capacity) = (new, capacity);
            }
            block.size = new_size.unwrap_or(block.size);
            block.place = at.place().moved_to(block.pointer);
            std::mem::replace(&mut block.stream, moved)
        };
        if replaced.is_some() {
            // SAFETY: the buffer's former block, after the copy on this stream, with which the
            // caller orders earlier uses, as in RMM.
            unsafe { free(py, self.resource.get(), at, pointer, former) };
        }
        drop(former_stream);
        Ok(())
    }
}

fn shown(what: &str, bytes: usize) -> PyErr {
    PyValueError::new_err(format!("Argument `ary` is too {what}. Need space for {bytes} bytes."))
}

/// Address and bytes of a one-dimensional, contiguous array on the device.
fn array_of(object: &Bound<'_, PyAny>) -> PyResult<(u64, usize)> {
    let refused = |text: &str| PyValueError::new_err(text.to_owned());
    let name = "__cuda_array_interface__";
    if !object.hasattr(name)? {
        return Err(refused("the object has no `__cuda_array_interface__`"));
    }
    let interface = object.getattr(name)?;
    let shape: Vec<usize> = interface.get_item("shape")?.extract()?;
    let (Some(&count), true) = (shape.first(), shape.len() <= 1) else {
        let dimensions = shape.len();
        let text = format!("Only 1-D contiguous arrays are supported, got {dimensions}-D array");
        return Err(refused(&text));
    };
    let typestr = interface.get_item("typestr")?.cast_into::<PyString>()?;
    let item: usize = item_size(&typestr)?;
    let strides = interface.call_method1("get", ("strides",))?;
    if !strides.is_none() && strides.get_item(0)?.extract::<isize>()? != item.cast_signed() {
        let text = "Only 1-D contiguous arrays are supported, got a non-contiguous array";
        return Err(refused(text));
    }
    let address = interface.get_item("data")?.get_item(0)?.extract()?;
    let bytes = count.checked_mul(item).ok_or_else(|| refused("the array is too large"))?;
    Ok((address, bytes))
}

/// Bytes of an item of a type such as `"<f8"`: NumPy's notation, in which `U` counts four each.
fn item_size(typestr: &Bound<'_, PyString>) -> PyResult<usize> {
    let text = typestr.to_cow()?;
    let mut letters = text.trim_start_matches(['<', '>', '|', '=']).chars();
    let kind = letters.next();
    let count = letters.as_str().split('[').next().unwrap_or_default().parse::<usize>();
    match (kind, count) {
        (Some('U'), Ok(count)) => Ok(count.saturating_mul(4)),
        (Some(_), Ok(count)) => Ok(count),
        _ => Err(PyValueError::new_err(format!("{text:?} is no array type"))),
    }
}

/// A buffer with the contents of a host object, from the current device's resource.
///
/// Parameters
/// ----------
/// b : buffer
///     One contiguous dimension of unsigned bytes.
/// stream : Stream
///     The copy is complete on return if it is the default stream.
#[pyfunction]
#[pyo3(signature = (b, stream=StreamArg::Default))]
pub(crate) fn to_device(
    py: Python<'_>,
    b: &Bound<'_, PyAny>,
    stream: StreamArg<'_>,
) -> PyResult<DeviceBuffer> {
    let (host, stream) = (HostBytes::to_read(b)?, stream.object(py)?);
    let waits = stream.get().is_default_stream();
    DeviceBuffer::make(py, host.address(), host.len(), stream, None, waits)
}

/// Adds the class and the function.
pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<DeviceBuffer>()?;
    module.add_class::<elastic::ElasticBuffer>()?;
    module.add_function(wrap_pyfunction!(to_device, module)?)
}
