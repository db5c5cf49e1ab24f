//! Buffers that other processes map, and the memory of other processes.

use std::io;
use std::mem::{self, ManuallyDrop};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rmm_core::{Device, DevicePtr, Error, RelaxedCapture};
use rmm_resources::{
    ImportAccess, ImportedMemory as Imported, Piece as EnginePiece, PieceRange, ShareableHandle,
    export_range,
};

use crate::buffer::DeviceBuffer;
use crate::interpreter::drop_detached::DropDetached;
use crate::interpreter::errors::{of_call, wrong_type};
use crate::interpreter::fork;
use crate::resource::segments::Segment;
use crate::stream::current_device;

/// A piece of the memory of an exported buffer: a handle of the driver, and which part of its
/// memory is meant. `multiprocessing` sends it to other processes; it cannot be pickled otherwise.
/// The handle is closed with the object. Not in RMM.
#[derive(Debug)]
#[pyclass(frozen, module = "rmm_rs")]
pub(crate) struct Piece {
    handle: ShareableHandle,
    range: PieceRange,
}

#[pymethods]
impl Piece {
    /// Bytes of the piece.
    #[getter]
    fn size(&self) -> u64 {
        self.range.bytes
    }

    /// Where the piece begins in the handle's memory, in bytes.
    #[getter]
    fn offset(&self) -> u64 {
        self.range.offset
    }

    /// Bytes of the handle's memory, which can be mapped only as a whole.
    #[getter]
    fn handle_size(&self) -> u64 {
        self.range.handle_bytes
    }

    /// The file descriptor, for programs that send it by `SCM_RIGHTS` themselves.
    fn fileno(&self) -> PyResult<i32> {
        let file = self.handle.descriptor();
        let file =
            file.ok_or_else(|| PyValueError::new_err("a fabric handle has no descriptor"))?;
        Ok(file.as_raw_fd())
    }

    /// The numbers of the piece, and the bytes of its handle if it is a fabric handle.
    fn _parts(&self) -> ([u8; 48], Option<[u8; 64]>) {
        (self.range.to_bytes(), self.handle.fabric_bytes())
    }

    /// A piece that was received. It closes the descriptor.
    #[staticmethod]
    fn _from_parts(file: i32, range: [u8; 48], fabric: Option<[u8; 64]>) -> PyResult<Self> {
        let range = PieceRange::from_bytes(&range);
        if let Some(bytes) = fabric {
            return Ok(Self { handle: ShareableHandle::from_fabric_bytes(bytes), range });
        }
        if file < 0 {
            return Err(PyValueError::new_err(format!("{file} is no file descriptor")));
        }
        // SAFETY: the caller passes a descriptor of its own, which it does not close.
        let file = unsafe { OwnedFd::from_raw_fd(file) };
        Ok(Self { handle: file.into(), range })
    }

    #[staticmethod]
    fn __reduce_ex__(_protocol: i32) -> PyResult<()> {
        Err(PyTypeError::new_err(
            "a piece of exported memory has a file descriptor: send it by multiprocessing, to a \
             process that runs (a Pipe, a Queue or the arguments of a Process)",
        ))
    }

    fn __repr__(&self) -> String {
        let PieceRange { index, count, bytes, .. } = self.range;
        format!("<Piece {index} of {count}: {bytes} bytes>")
    }
}

impl From<EnginePiece> for Piece {
    fn from(EnginePiece { handle, range }: EnginePiece) -> Self {
        Self { handle, range }
    }
}

impl Piece {
    /// The piece with a duplicate of its descriptor; `what` is its place among others.
    fn duplicate(&self, what: impl FnOnce() -> String) -> PyResult<EnginePiece> {
        let handle = match (self.handle.descriptor(), self.handle.fabric_bytes()) {
            (Some(file), _) => match file.try_clone_to_owned() {
                Ok(file) => ShareableHandle::from(file),
                Err(error) if error.raw_os_error() == Some(libc::EBADF) => {
                    let text = format!("{}: its file descriptor was closed", what());
                    return Err(PyValueError::new_err(text));
                }
                Err(error) => return Err(error.into()),
            },
            (None, Some(bytes)) => ShareableHandle::from_fabric_bytes(bytes),
            (None, None) => return Err(PyValueError::new_err("the piece has no handle")),
        };
        Ok(EnginePiece { handle, range: self.range })
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        let copied = self.handle.descriptor().map(|file| file.try_clone_to_owned());
        let is_closed = |error: io::Error| error.raw_os_error() == Some(libc::EBADF);
        if copied.and_then(Result::err).is_some_and(is_closed) {
            // The program has closed it by its number: then there is nothing to close.
            let none = ShareableHandle::from_fabric_bytes([0; 64]);
            let _closed = ManuallyDrop::new(mem::replace(&mut self.handle, none));
        }
    }
}

/// Memory of another process, mapped here. It is unmapped by `close`, or with the object, once the
/// work of this process is done. Not in RMM.
#[derive(Debug)]
#[pyclass(frozen, weakref, module = "rmm_rs")]
pub(crate) struct ImportedMemory {
    memory: Mutex<Option<DropDetached<Imported>>>,
    pointer: u64,
    size: u64,
    is_writable: bool,
}

impl ImportedMemory {
    fn memory(&self) -> MutexGuard<'_, Option<DropDetached<Imported>>> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check_open(&self) -> PyResult<()> {
        if self.memory().is_some() {
            return Ok(());
        }
        Err(PyValueError::new_err("the imported memory was closed"))
    }
}

#[pymethods]
impl ImportedMemory {
    /// The address of the first byte.
    #[getter]
    fn ptr(&self) -> PyResult<u64> {
        self.check_open().map(|()| self.pointer)
    }

    /// Bytes.
    #[getter]
    fn size(&self) -> u64 {
        self.size
    }

    /// The array interface of Numba; read-only unless the memory was imported as writable.
    #[getter]
    fn __cuda_array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.check_open()?;
        let interface = PyDict::new(py);
        interface.set_item("data", (self.pointer, !self.is_writable))?;
        interface.set_item("shape", (self.size,))?;
        interface.set_item("strides", py.None())?;
        interface.set_item("typestr", "|u1")?;
        interface.set_item("version", 3)?;
        Ok(interface)
    }

    /// Lets work of another device use the memory, too: a peer of the device whose memory it is.
    #[pyo3(signature = (device, writable=false))]
    fn grant_access(&self, py: Python<'_>, device: usize, writable: bool) -> PyResult<()> {
        fork::check()?;
        let access = if writable { ImportAccess::ReadWrite } else { ImportAccess::ReadOnly };
        let granted = py.detach(|| {
            let memory = self.memory();
            let memory = memory.as_ref().map(DropDetached::peek);
            memory.map(|memory| memory.grant_access(Device::new(device)?, access))
        });
        let closed = || PyValueError::new_err("the imported memory was closed");
        granted.ok_or_else(closed)?.map_err(|error| of_call(py, &error))
    }

    /// Waits for the work of this process, and unmaps the memory. Nothing may use it afterwards. If
    /// it cannot wait, since a stream may be under capture or work has failed, it raises and the
    /// memory stays.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        // Closed while the field is free, since it waits.
        let Some(memory) = self.memory().take().and_then(DropDetached::take) else {
            return Ok(());
        };
        py.detach(|| memory.close()).map_err(|(memory, error)| {
            *self.memory() = Some(DropDetached::new(memory));
            of_call(py, &error)
        })
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyAny>) -> PyResult<()> {
        self.close(py)
    }
}

/// Exports a buffer, for other processes to map by `import_memory`: a list of pieces, as many as
/// the buffer spans handles of the driver. Its resource is, or is over, a `VirtualMemoryResource`
/// that was made for export. Waits for the buffer's stream. Keep the buffer as long as others use
/// its memory. Not in RMM.
///
/// Parameters
/// ----------
/// buffer : DeviceBuffer or Segment
///     Work of other streams on it is complete, or comes before on the buffer's stream. For a
///     segment of a pool nothing is waited for.
#[pyfunction]
fn export(py: Python<'_>, buffer: &Bound<'_, PyAny>) -> PyResult<Vec<Piece>> {
    fork::check()?;
    if let Ok(segment) = buffer.cast::<Segment>() {
        let segment = segment.get().engine();
        let pieces = py.detach(|| segment.export()).map_err(|error| of_call(py, &error))?;
        return Ok(pieces.into_iter().map(Piece::from).collect());
    }
    let buffer = buffer.cast::<DeviceBuffer>().map_err(|_| {
        let kind = buffer.get_type();
        wrong_type(format!("a DeviceBuffer or a Segment of a pool can be exported, not {kind}"))
    })?;
    let buffer = buffer.get();
    // The memory is not replaced meanwhile.
    let _use = buffer.share()?;
    let (pointer, bytes) = buffer.range();
    let stream = buffer.stream_object(py);
    let at = buffer.on(py, stream.get())?;
    let exported = py.detach(|| {
        at.with(|stream| {
            if stream.is_capturing()? {
                let message = "the buffer's stream is captured: export it once the graph has run";
                return Err(Error::unsupported("export", message));
            }
            // The wait invalidates no capture of other streams.
            let _relaxed = RelaxedCapture::enter();
            stream.synchronize()?;
            export_range(DevicePtr::new(pointer), bytes as u64)
        })
    });
    let pieces = exported.and_then(|pieces| pieces).map_err(|error| of_call(py, &error))?;
    Ok(pieces.into_iter().map(Piece::from).collect())
}

/// Maps the memory of an exported buffer of another process, as one range, for work of the current
/// device. Not in RMM.
///
/// Parameters
/// ----------
/// pieces : list of Piece
///     All pieces of one export, in its order. They can be used again.
/// writable : bool
///     Whether work of this process may write it. Otherwise a write faults.
#[pyfunction]
#[pyo3(signature = (pieces, writable=false))]
fn import_memory(
    py: Python<'_>,
    pieces: Vec<Bound<'_, Piece>>,
    writable: bool,
) -> PyResult<ImportedMemory> {
    fork::check()?;
    let count = pieces.len();
    let copy = |(index, piece): (usize, &Bound<'_, Piece>)| {
        piece.get().duplicate(|| format!("piece {index} of {count}"))
    };
    let pieces = pieces.iter().enumerate().map(copy).collect::<PyResult<Vec<_>>>()?;
    let device = current_device::current(py)?;
    let access = if writable { ImportAccess::ReadWrite } else { ImportAccess::ReadOnly };
    let map = || {
        let device = Device::new(usize::try_from(device).unwrap_or(usize::MAX))?;
        Imported::map(pieces, device, access)
    };
    let memory = py.detach(map).map_err(|error| of_call(py, &error))?;
    let (pointer, size) = (memory.as_ptr().0, memory.bytes());
    let memory = Mutex::new(Some(DropDetached::new(memory)));
    Ok(ImportedMemory { memory, pointer, size, is_writable: writable })
}

/// Adds the classes and functions.
pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Piece>()?;
    module.add_class::<ImportedMemory>()?;
    module.add_function(wrap_pyfunction!(export, module)?)?;
    module.add_function(wrap_pyfunction!(import_memory, module)?)
}
