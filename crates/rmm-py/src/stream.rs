//! Streams, and what is taken as one.

pub(crate) mod capture_scope;
pub(crate) mod current_device;
pub(crate) mod device;
pub(crate) mod foreign;
pub(crate) mod place;
pub(crate) mod stream_pool;

use pyo3::PyTraverseError;
use pyo3::exceptions::PyValueError;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use rmm_core::sys::CuStream;
use rmm_core::{AnnouncedStream, CudaStream, Error, StreamFlags, StreamRef};

use crate::interpreter::drop_detached::DropDetached;
use crate::interpreter::errors::{of_call, wrong_type};
use crate::interpreter::fork;
use crate::stream::foreign::Lifetime;

/// A CUDA stream: a new one, or one of another library.
///
/// Parameters
/// ----------
/// obj : optional
///     `None` for a new stream; a `Stream`, an object with `__cuda_stream__`, or a stream of Numba
///     or CuPy for that stream.
/// flags : CudaStreamFlags, optional
///     For a new stream only.
#[derive(Debug)]
#[pyclass(subclass, frozen, weakref, module = "rmm_rs.pylibrmm.stream")]
pub(crate) struct Stream {
    handle: usize,
    /// The engine's stream; `None` if no owner says when the stream ends, so that the driver has to
    /// be asked at each use whether it is still the same.
    known: Option<DropDetached<CudaStream>>,
    /// The Python object that the stream belongs to.
    owner: Option<Py<PyAny>>,
    /// Of a stream that this made: C recognises its handle, and calls no driver to identify it.
    #[expect(dead_code, reason = "it ends with the stream")]
    announced: Option<DropDetached<AnnouncedStream>>,
}

static DEFAULT: PyOnceLock<Py<Stream>> = PyOnceLock::new();

impl Stream {
    pub(crate) fn new(handle: usize, known: Option<CudaStream>, owner: Option<Py<PyAny>>) -> Self {
        Self { handle, known: known.map(DropDetached::new), owner, announced: None }
    }

    /// The stream of a handle: the default streams are known.
    pub(crate) fn of_handle(handle: usize, owner: Option<Py<PyAny>>) -> Self {
        let known = match handle {
            0 | 1 => Some(CudaStream::legacy()),
            2 => Some(CudaStream::per_thread()),
            _ => None,
        };
        Self::new(handle, known, owner)
    }

    /// The one object that stands for handle 0.
    pub(crate) fn default_object(py: Python<'_>) -> PyResult<&Py<Self>> {
        DEFAULT.get_or_try_init(py, || Py::new(py, Self::of_handle(0, None)))
    }

    /// An object for a stream that a callback gets.
    pub(crate) fn of_engine(py: Python<'_>, stream: StreamRef<'_>) -> PyResult<Py<Self>> {
        if stream.kind() == rmm_core::StreamKind::Legacy {
            return Ok(Self::default_object(py)?.clone_ref(py));
        }
        let handle = stream.as_raw().as_raw().addr();
        let is_unknown = matches!(
            stream.kind(),
            rmm_core::StreamKind::Adopted(rmm_core::StreamLifetime::Unknown)
        );
        let known = if is_unknown { None } else { Some(stream.to_owned()) };
        Py::new(py, Self::new(handle, known, None))
    }

    fn of_object(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = object.py();
        if let Ok(stream) = object.cast::<Self>() {
            let stream = stream.get();
            let known = stream.known.as_ref().map(|known| known.peek().clone());
            // A stream that this made is its own owner.
            let given = || object.clone().unbind();
            let owner = stream.owner.as_ref().map_or_else(given, |owner| owner.clone_ref(py));
            let owner = Some(owner);
            return Ok(Self::new(stream.handle, known, owner));
        }
        let (handle, lifetime) = foreign::stream(object)?;
        let owner = object.clone().unbind();
        if handle > 2 && lifetime == Lifetime::Owned {
            fork::check()?;
            let known = foreign::adopt(handle, owner.clone_ref(py));
            return Ok(Self::new(handle, known, Some(owner)));
        }
        Ok(Self::of_handle(handle, Some(owner)))
    }

    /// The engine's stream, if its end is known: then there is no call of the driver.
    #[inline]
    pub(crate) fn known(&self) -> Option<StreamRef<'_>> {
        self.known.as_ref().map(|known| known.peek().as_stream_ref())
    }

    /// Calls `act` with the stream.
    ///
    /// # Errors
    /// If the driver does not know the stream; then `act` is not called.
    #[inline]
    pub(crate) fn with<R>(&self, act: impl FnOnce(StreamRef<'_>) -> R) -> Result<R, Error> {
        if let Some(known) = self.known() {
            return Ok(act(known));
        }
        let handle = std::ptr::with_exposed_provenance_mut(self.handle);
        // SAFETY: the contract of `Stream`, as of RMM's: the caller that makes one of another
        // library's stream keeps that stream for as long as it is used. Its owner is kept for the
        // same reason.
        unsafe { StreamRef::with_raw(CuStream::from_raw(handle), act) }
    }

    #[inline]
    pub(crate) fn is_default_stream(&self) -> bool {
        self.handle < 2
    }

    #[inline]
    pub(crate) fn is_per_thread(&self) -> bool {
        self.handle == 2
    }
}

/// Waits for a stream of any lifetime.
pub(crate) fn synchronize(stream: StreamRef<'_>) -> Result<(), Error> {
    stream.synchronize()
}

fn flags_of(flags: Option<&Bound<'_, PyAny>>) -> PyResult<StreamFlags> {
    let Some(flags) = flags else { return Ok(StreamFlags::empty()) };
    match flags.extract::<u32>() {
        Ok(0) => Ok(StreamFlags::empty()),
        Ok(1) => Ok(StreamFlags::NON_BLOCKING),
        _ => Err(PyValueError::new_err(format!("{flags} is not a valid CudaStreamFlags"))),
    }
}

/// A new stream of the engine.
pub(crate) fn create(py: Python<'_>, flags: Option<&Bound<'_, PyAny>>) -> PyResult<CudaStream> {
    let flags = flags_of(flags)?;
    fork::check()?;
    py.detach(|| CudaStream::with_flags(flags, 0)).map_err(|error| of_call(py, &error))
}

/// The flags of a pool's streams.
pub(crate) fn pool_flags(flags: Option<&Bound<'_, PyAny>>) -> PyResult<StreamFlags> {
    flags_of(flags)
}

#[pymethods]
impl Stream {
    #[new]
    #[pyo3(signature = (obj=None, flags=None))]
    fn py_new(
        py: Python<'_>,
        obj: Option<&Bound<'_, PyAny>>,
        flags: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let Some(object) = obj else {
            let stream = create(py, flags)?;
            let handle = stream.as_raw().as_raw().addr();
            let announced = Some(DropDetached::new(py.detach(|| stream.announce())));
            let known = Some(DropDetached::new(stream));
            return Ok(Self { handle, known, owner: None, announced });
        };
        if flags.is_some() {
            let text =
                "flags may only be specified when obj is None: an existing stream has its own";
            return Err(PyValueError::new_err(text));
        }
        Self::of_object(object)
    }

    /// Waits until all work of the stream is complete.
    fn synchronize(&self, py: Python<'_>) -> PyResult<()> {
        fork::check()?;
        let waited = py.detach(|| self.with(synchronize));
        waited.and_then(|waited| waited).map_err(|error| of_call(py, &error))
    }

    /// Whether this is the legacy default stream.
    fn is_default(&self) -> bool {
        self.is_default_stream()
    }

    fn __cuda_stream__(&self) -> (u32, usize) {
        (0, self.handle)
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Self>().is_ok_and(|other| other.get().handle == self.handle)
    }

    fn __hash__(&self) -> usize {
        self.handle
    }

    fn __repr__(&self) -> String {
        match self.handle {
            0 => "<Stream 0 (default)>".to_owned(),
            1 => "<Stream 1 (legacy default)>".to_owned(),
            2 => "<Stream 2 (per-thread default)>".to_owned(),
            handle => format!("<Stream {handle:#x}>"),
        }
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.owner)
    }
}

/// The owner of a new stream, as RMM has it. `Stream` needs none.
#[derive(Debug)]
#[pyclass(frozen, weakref, module = "rmm_rs.pylibrmm.stream")]
pub(crate) struct _OwningStream {
    stream: DropDetached<CudaStream>,
}

#[pymethods]
impl _OwningStream {
    #[new]
    #[pyo3(signature = (flags=None))]
    fn py_new(py: Python<'_>, flags: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        Ok(Self { stream: DropDetached::new(create(py, flags)?) })
    }

    fn __cuda_stream__(&self) -> (u32, usize) {
        (0, self.stream.peek().as_raw().as_raw().addr())
    }
}

/// A stream argument: a `Stream`, or an object with `__cuda_stream__`.
#[derive(Debug)]
pub(crate) enum StreamArg<'py> {
    /// None was given.
    Default,
    /// This one was.
    Given(Bound<'py, Stream>),
}

impl StreamArg<'_> {
    #[inline]
    pub(crate) fn get<'a>(&'a self, py: Python<'a>) -> PyResult<&'a Stream> {
        Ok(self.object(py)?.get())
    }

    #[inline]
    pub(crate) fn object<'a>(&'a self, py: Python<'a>) -> PyResult<&'a Py<Stream>> {
        match self {
            Self::Default => Stream::default_object(py),
            Self::Given(stream) => Ok(stream.as_unbound()),
        }
    }
}

impl<'py> FromPyObject<'_, 'py> for StreamArg<'py> {
    type Error = PyErr;

    #[inline]
    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(stream) = object.cast::<Stream>() {
            return Ok(Self::Given(stream.to_owned()));
        }
        Ok(Self::Given(as_stream(&object.to_owned())?))
    }
}

/// The `Stream` for a stream argument: itself, or one of an object with `__cuda_stream__`.
#[pyfunction]
#[pyo3(signature = (stream))]
pub(crate) fn as_stream<'py>(stream: &Bound<'py, PyAny>) -> PyResult<Bound<'py, Stream>> {
    if stream.is_none() {
        return Err(wrong_type("stream argument cannot be None"));
    }
    if let Ok(stream) = stream.cast::<Stream>() {
        return Ok(stream.clone());
    }
    if stream.hasattr("__cuda_stream__")? {
        return Bound::new(stream.py(), Stream::of_object(stream)?);
    }
    let kind = stream.get_type().name()?;
    Err(wrong_type(format!("a stream argument must be a Stream, not {kind}")))
}

/// The default streams.
pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add_class::<Stream>()?;
    module.add_class::<_OwningStream>()?;
    module.add("DEFAULT_STREAM", Stream::default_object(py)?)?;
    module.add("LEGACY_DEFAULT_STREAM", Py::new(py, Stream::of_handle(1, None))?)?;
    module.add("PER_THREAD_DEFAULT_STREAM", Py::new(py, Stream::of_handle(2, None))?)?;
    module.add_function(wrap_pyfunction!(as_stream, module)?)
}
