//! Memory of an owner outside the process, and arrays that are found there by name.

use std::time::{Duration, Instant};

use pyo3::exceptions::{
    PyConnectionError, PyMemoryError, PyOSError, PyRuntimeError, PyTimeoutError, PyValueError,
};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};
use rmm_core::{AnyResource, DevicePtr};
use rmm_lease::protocol::{Granted, Lock};
use rmm_lease::{Lease, LeaseError, LeasedMemoryResource as Leased};

use crate::interpreter::drop_detached::DropDetached;
use crate::interpreter::errors::{of_call, wrong_type};
use crate::interpreter::fork;
use crate::resource::DeviceMemoryResource;

/// Memory of an owner outside this process (`rmm serve`), mapped here; `rmm_rs.lease.connect` makes
/// it. It can be the upstream of a pool. Not in RMM.
#[derive(Debug)]
#[pyclass(frozen, extends = DeviceMemoryResource, module = "rmm_rs.lease")]
pub(crate) struct LeasedMemoryResource {
    engine: DropDetached<Leased>,
}

/// The end of a wait; none for one without end.
fn deadline_of(timeout: Option<f64>) -> PyResult<Option<Instant>> {
    let Some(seconds) = timeout else { return Ok(None) };
    let time = Duration::try_from_secs_f64(seconds)
        .map_err(|_| PyValueError::new_err(format!("a timeout of {seconds:?} seconds")))?;
    Ok(Instant::now().checked_add(time))
}

/// Makes a call without the interpreter's lock.
fn call<T: Send>(
    py: Python<'_>,
    call: impl FnOnce() -> Result<T, LeaseError> + Send,
) -> PyResult<T> {
    py.detach(call).map_err(|error| raised(py, error))
}

/// Makes a call that may wait without end, and asks in the wait whether to go on: not after Ctrl-C.
fn interruptible<T: Send>(
    py: Python<'_>,
    call: impl FnOnce(&mut dyn FnMut() -> bool) -> Result<T, LeaseError> + Send,
) -> PyResult<T> {
    let (outcome, interrupted) = py.detach(|| {
        let mut interrupted = None;
        let outcome = call(&mut || {
            // Without an interpreter there are no signals to look for.
            interrupted = Python::try_attach(|py| py.check_signals().err()).flatten();
            interrupted.is_none()
        });
        (outcome, interrupted)
    });
    match (outcome, interrupted) {
        (Err(LeaseError::GivenUp), Some(error)) => Err(error),
        (outcome, _) => outcome.map_err(|error| raised(py, error)),
    }
}

#[cold]
fn raised(py: Python<'_>, error: LeaseError) -> PyErr {
    let text = error.to_string();
    match error {
        LeaseError::Memory(error) => of_call(py, &error),
        LeaseError::Deadline(_) => PyTimeoutError::new_err(text),
        LeaseError::Refused(refusal) if refusal.out_of_memory => {
            PyMemoryError::new_err(format!("std::bad_alloc: out_of_memory: {text}"))
        }
        LeaseError::Refused(_) | LeaseError::State(_) => PyRuntimeError::new_err(text),
        LeaseError::Layout(_) => PyValueError::new_err(text),
        LeaseError::NoOwner(_, cause) | LeaseError::Io(cause) => {
            PyConnectionError::new_err(format!("{text}: {cause}"))
        }
        LeaseError::NoDescriptor => PyOSError::new_err((libc::EMFILE, text)),
        _ => PyConnectionError::new_err(text),
    }
}

#[pymethods]
impl LeasedMemoryResource {
    #[new]
    #[pyo3(signature = (path, lock="rw_or_ro", *, timeout=None, answer_timeout=10.0))]
    fn py_new(
        py: Python<'_>,
        path: std::path::PathBuf,
        lock: &str,
        timeout: Option<f64>,
        answer_timeout: f64,
    ) -> PyResult<PyClassInitializer<Self>> {
        let lock = match lock {
            "rw" => Lock::Write,
            "ro" => Lock::Read,
            "rw_or_ro" => Lock::WriteOrRead,
            _ => return Err(PyValueError::new_err("lock is \"rw\", \"ro\" or \"rw_or_ro\"")),
        };
        let deadline = deadline_of(timeout)?;
        let answer_time = Duration::try_from_secs_f64(answer_timeout).map_err(|_| {
            PyValueError::new_err(format!("a timeout of {answer_timeout:?} seconds"))
        })?;
        fork::check()?;
        let mut lease =
            interruptible(py, |goes_on| Lease::connect_while(path, lock, deadline, goes_on))?;
        lease.set_answer_time(answer_time);
        let engine = call(py, || Leased::new(lease))?;
        let base = DeviceMemoryResource::over_engine(AnyResource::new(engine.clone()));
        Ok(base.add_subclass(Self { engine: DropDetached::new(engine) }))
    }

    /// What the session may do: "rw", "ro", or None while it is detached.
    #[getter]
    fn lock(&self, py: Python<'_>) -> PyResult<Option<&'static str>> {
        let engine = self.engine.get()?;
        Ok(py.detach(|| engine.lock()).map(|lock| match lock {
            Granted::Write => "rw",
            Granted::Read => "ro",
        }))
    }

    /// The number of the device whose memory it is.
    #[getter]
    fn device(&self) -> usize {
        self.engine.peek().device().ordinal()
    }

    /// Gives an array in this memory a name, or another array to a name, for `get`.
    ///
    /// Parameters
    /// ----------
    /// name : str
    ///     For example that of a parameter.
    /// array : object with `__cuda_array_interface__`
    ///     A buffer or tensor whose memory is of this resource, or of a pool above it; contiguous.
    fn put(&self, py: Python<'_>, name: &str, array: &Bound<'_, PyAny>) -> PyResult<()> {
        let engine = self.engine.get()?;
        let contents = Contents::of(array)?;
        let about = contents.to_text();
        call(py, || engine.put(name, contents.pointer, contents.size, about.as_bytes()))
    }

    /// The array of a name, mapped: read-only once it is committed.
    fn get(slf: &Bound<'_, Self>, name: &str) -> PyResult<LeasedArray> {
        let engine = slf.get().engine.get()?;
        let (found, is_writable) =
            call(slf.py(), || Ok((engine.get(name)?, engine.lock() == Some(Granted::Write))))?;
        let about = std::str::from_utf8(&found.bytes).ok();
        let (typestr, shape) = about
            .and_then(|text| shape_of(text, found.size))
            .unwrap_or_else(|| ("|u1".to_owned(), vec![found.size]));
        let (pointer, size, bytes) = (found.pointer.0, found.size, found.bytes);
        let owner = slf.clone().unbind();
        Ok(LeasedArray { owner, pointer, size, bytes, typestr, shape, is_writable })
    }

    /// All names, in their order as text.
    fn names(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let engine = self.engine.get()?;
        call(py, || engine.names())
    }

    /// Publishes all that was allocated, once the work of this process is done: others can map it,
    /// also when this process has ended. It is read-only from then on, here too: a kernel that
    /// writes it faults, and its context is lost.
    ///
    /// Raises
    /// ------
    /// RuntimeError
    ///     If the session only reads, or work has failed.
    fn commit(&self, py: Python<'_>) -> PyResult<()> {
        let engine = self.engine.get()?;
        call(py, || engine.commit())
    }

    /// Unmaps all memory and ends the session, so that others can write, and keeps the addresses.
    ///
    /// The caller promises that no work uses the memory until it is attached: neither kernels and
    /// copies, nor graphs that are launched. They fault.
    ///
    /// Raises
    /// ------
    /// RuntimeError
    ///     If the session writes, or work has failed.
    fn detach(&self, py: Python<'_>) -> PyResult<()> {
        let engine = self.engine.get()?;
        // SAFETY: the contract of this method, which its documentation states.
        call(py, || unsafe { engine.detach() })
    }

    /// Reads again, and maps all memory at its addresses, without a copy.
    ///
    /// Parameters
    /// ----------
    /// timeout : float, optional
    ///     Seconds to wait for a writer; without end by default.
    /// any_owner : bool
    ///     Whether an owner that was started again is taken, if it has the same names and sizes.
    ///
    /// Raises
    /// ------
    /// RuntimeError
    ///     If it is another owner.
    /// ValueError
    ///     If a name is missing, or has another size.
    #[pyo3(signature = (timeout=None, *, any_owner=false))]
    fn attach(&self, py: Python<'_>, timeout: Option<f64>, any_owner: bool) -> PyResult<()> {
        let (engine, deadline) = (self.engine.get()?, deadline_of(timeout)?);
        interruptible(py, |goes_on| engine.attach_while(deadline, any_owner, goes_on))
    }
}

/// An array that was found by its name. It keeps its resource. Not in RMM.
#[derive(Debug)]
#[pyclass(frozen, weakref, module = "rmm_rs.lease")]
pub(crate) struct LeasedArray {
    owner: Py<LeasedMemoryResource>,
    pointer: u64,
    size: u64,
    bytes: Vec<u8>,
    typestr: String,
    shape: Vec<u64>,
    is_writable: bool,
}

#[pymethods]
impl LeasedArray {
    /// The address of the first byte.
    #[getter]
    fn ptr(&self) -> u64 {
        self.pointer
    }

    /// Bytes.
    #[getter]
    fn size(&self) -> u64 {
        self.size
    }

    /// Elements in each dimension.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.shape)
    }

    /// What the writer has said of it: the type and the shape, or the bytes of a program in Rust or
    /// C.
    #[getter]
    fn about<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.bytes)
    }

    /// The resource that has mapped it.
    #[getter]
    fn mr(&self, py: Python<'_>) -> Py<LeasedMemoryResource> {
        self.owner.clone_ref(py)
    }

    /// The array interface of Numba; read-only if it was committed when it was found.
    #[getter]
    fn __cuda_array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let interface = PyDict::new(py);
        interface.set_item("data", (self.pointer, !self.is_writable))?;
        interface.set_item("shape", self.shape(py)?)?;
        interface.set_item("strides", py.None())?;
        interface.set_item("typestr", &self.typestr)?;
        interface.set_item("version", 3)?;
        Ok(interface)
    }

    fn __repr__(&self) -> String {
        format!("<LeasedArray of {} bytes at {:#x}>", self.size, self.pointer)
    }
}

/// The memory of an array.
struct Contents {
    pointer: DevicePtr,
    size: u64,
    typestr: String,
    shape: Vec<u64>,
}

impl Contents {
    /// That of an object with `__cuda_array_interface__`.
    fn of(array: &Bound<'_, PyAny>) -> PyResult<Self> {
        let interface = array
            .getattr("__cuda_array_interface__")
            .map_err(|_| wrong_type("the object has no `__cuda_array_interface__`"))?;
        let (pointer, _): (u64, bool) = interface.get_item("data")?.extract()?;
        let shape: Vec<u64> = interface.get_item("shape")?.extract()?;
        let typestr: String = interface.get_item("typestr")?.extract()?;
        let strides = interface.call_method1("get", ("strides",))?;
        let strides: Option<Vec<i64>> = strides.extract()?;
        let element = element_size(&typestr)
            .ok_or_else(|| PyValueError::new_err(format!("{typestr:?} is no type of elements")))?;
        let bytes = |shape: &[u64]| {
            shape.iter().try_fold(element, |bytes, &count| bytes.checked_mul(count))
        };
        let size = bytes(&shape).ok_or_else(|| PyValueError::new_err("the array is too large"))?;
        let is_contiguous = strides.is_none_or(|strides| {
            // That of a dimension with one element means nothing.
            let follows = |(axis, &stride): (usize, &i64)| {
                shape[axis] == 1 || u64::try_from(stride).ok() == bytes(&shape[axis + 1..])
            };
            let is_whole = strides.len() == shape.len();
            size == 0 || is_whole && strides.iter().enumerate().all(follows)
        });
        if !is_contiguous {
            return Err(PyValueError::new_err("the array is not contiguous"));
        }
        Ok(Self { pointer: DevicePtr::new(pointer), size, typestr, shape })
    }

    /// The type and the shape, for [`shape_of`].
    fn to_text(&self) -> String {
        let counts: Vec<String> = self.shape.iter().map(u64::to_string).collect();
        format!("{} {}", self.typestr, counts.join(" "))
    }
}

/// The type and the shape of an array of this many bytes.
fn shape_of(text: &str, size: u64) -> Option<(String, Vec<u64>)> {
    let (typestr, counts) = text.split_once(' ')?;
    let shape: Vec<u64> =
        counts.split_whitespace().map(|count| count.parse().ok()).collect::<Option<_>>()?;
    let bytes = shape.iter().try_fold(element_size(typestr)?, |bytes, &n| bytes.checked_mul(n))?;
    (bytes == size).then(|| (typestr.to_owned(), shape))
}

/// The bytes of an element of a type such as `<f4`.
fn element_size(typestr: &str) -> Option<u64> {
    typestr.get(2..)?.parse().ok().filter(|&bytes| bytes > 0)
}

/// Adds the classes.
pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<LeasedMemoryResource>()?;
    module.add_class::<LeasedArray>()
}
