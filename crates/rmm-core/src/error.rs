//! The one error type.

use std::alloc::Layout;
use std::fmt;

use rmm_sys::{CuResult, LoadError};

use crate::oom::write_pending;
use crate::{PendingBytes, PoolUsage, StreamId, format_bytes};

/// What kind of thing went wrong; more kinds may come.
///
/// ```
/// use rmm_core::{Error, ErrorKind};
///
/// fn advice(error: &Error) -> &'static str {
///     match error.kind() {
///         ErrorKind::OutOfMemory => "try a smaller batch",
///         ErrorKind::DriverUnavailable => "run on the host",
///         _ => "report it",
///     }
/// }
/// assert_eq!(advice(&Error::out_of_memory("pool")), "try a smaller batch");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The memory asked for could not be had: the device, or the limit that was set, has not
    /// enough.
    #[doc(alias = "rmm::out_of_memory")]
    OutOfMemory,
    /// An argument that no state of the program could make valid, such as a limit that is no
    /// multiple of 256.
    #[doc(alias = "rmm::invalid_argument")]
    #[doc(alias = "rmm::logic_error")]
    InvalidArgument,
    /// An index or range beyond the end.
    #[doc(alias = "rmm::out_of_range")]
    OutOfRange,
    /// The driver refused a call for another reason than memory.
    #[doc(alias = "rmm::cuda_error")]
    Driver,
    /// There is no driver, or it lacks a function that is needed.
    DriverUnavailable,
    /// The driver or device cannot do this.
    Unsupported,
}

/// Why something failed: a [kind](ErrorKind) to decide by, and what was asked for, to understand it
/// by.
///
/// It is one word wide and displays as one line. `{:?}` writes that line and those of its sources,
/// so that `fn main() -> Result<(), Error>` ends with a readable message; `{:#?}` writes the
/// fields.
///
/// ```
/// use std::alloc::Layout;
/// use rmm_core::{Error, ErrorKind};
///
/// let error = Error::out_of_memory("pool").with_layout(Layout::from_size_align(1 << 20, 256)?);
/// assert!(error.is_out_of_memory());
/// assert_eq!(error.kind(), ErrorKind::OutOfMemory);
/// assert_eq!(error.requested(), Some(1 << 20));
/// assert_eq!(error.to_string(), "out of memory: pool could not allocate 1.0 MiB (1048576 bytes, alignment 256)");
/// # Ok::<(), std::alloc::LayoutError>(())
/// ```
///
/// # RMM's exceptions
///
/// | RMM | here |
/// |---|---|
/// | `rmm::logic_error` | [`ErrorKind::InvalidArgument`] for a precondition that depends on arguments; the others are types here |
/// | `rmm::cuda_error` | [`ErrorKind::Driver`], with the [`code`](Self::code); [`ErrorKind::DriverUnavailable`] and [`ErrorKind::Unsupported`] where the code says so |
/// | `rmm::bad_alloc` | [`ErrorKind::OutOfMemory`]; [`ErrorKind::Driver`] where the driver refused for another reason than memory; [`ErrorKind::InvalidArgument`] for an alignment that the resource cannot give, such as more than 256. What was [`requested`](Self::requested) is in each |
/// | `rmm::out_of_memory` | [`ErrorKind::OutOfMemory`] |
/// | `rmm::out_of_range` | [`ErrorKind::OutOfRange`] |
/// | `rmm::invalid_argument` | [`ErrorKind::InvalidArgument`] |
///
/// A driver call that fails leaves no error behind for a later one to find: unlike the CUDA runtime
/// the driver keeps none, apart from a context that a fault of the device has spoilt.
#[doc(alias = "rmm::bad_alloc")]
pub struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    kind: ErrorKind,
    /// Who failed: a resource's name, or the driver function.
    origin: &'static str,
    message: Option<String>,
    code: Option<CuResult>,
    layout: Option<Layout>,
    stream: Option<StreamId>,
    usage: Option<PoolUsage>,
    pending: Vec<PendingBytes>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    fn new(kind: ErrorKind, origin: &'static str) -> Self {
        Self(Box::new(Inner {
            kind,
            origin,
            message: None,
            code: None,
            layout: None,
            stream: None,
            usage: None,
            pending: Vec::new(),
            source: None,
        }))
    }

    /// `resource` could not get the memory.
    #[cold]
    pub fn out_of_memory(resource: &'static str) -> Self {
        Self::new(ErrorKind::OutOfMemory, resource)
    }

    /// `origin` was given an argument that cannot be right; `message` says which and why.
    #[cold]
    #[doc(alias = "RMM_EXPECTS")]
    #[doc(alias = "RMM_FAIL")]
    pub fn invalid_argument(origin: &'static str, message: impl Into<String>) -> Self {
        let mut error = Self::new(ErrorKind::InvalidArgument, origin);
        error.0.message = Some(message.into());
        error
    }

    /// `origin` was given an index or range beyond the end; `message` says which.
    #[cold]
    pub fn out_of_range(origin: &'static str, message: impl Into<String>) -> Self {
        let mut error = Self::new(ErrorKind::OutOfRange, origin);
        error.0.message = Some(message.into());
        error
    }

    /// `origin` needs something that this driver or device cannot do; `message` says what.
    #[cold]
    pub fn unsupported(origin: &'static str, message: impl Into<String>) -> Self {
        let mut error = Self::new(ErrorKind::Unsupported, origin);
        error.0.message = Some(message.into());
        error
    }

    /// The driver function `origin` returned `code`. The kind follows from the code.
    #[cold]
    pub fn driver(origin: &'static str, code: CuResult) -> Self {
        let kind = match code {
            CuResult::OUT_OF_MEMORY => ErrorKind::OutOfMemory,
            CuResult::NOT_SUPPORTED => ErrorKind::Unsupported,
            CuResult::NO_DEVICE | CuResult::STUB_LIBRARY => ErrorKind::DriverUnavailable,
            _ => ErrorKind::Driver,
        };
        let mut error = Self::new(kind, origin);
        error.0.code = Some(code);
        error
    }

    /// Adds what was asked for.
    #[must_use]
    pub fn with_layout(mut self, layout: Layout) -> Self {
        self.0.layout = Some(layout);
        self
    }

    /// Adds the stream that it was asked for on.
    #[must_use]
    pub fn with_stream(mut self, stream: StreamId) -> Self {
        self.0.stream = Some(stream);
        self
    }

    /// Sets a message that says why it failed. `Display` shows it in place of the
    /// [usage](Self::with_usage), which stays readable by [`usage`](Self::usage).
    ///
    /// ```
    /// use rmm_core::{Error, PoolUsage};
    ///
    /// let usage = PoolUsage::new(4, 3).with_limit(4);
    /// let error = Error::out_of_memory("seats").with_usage(usage).with_message("3 of 4 are taken");
    /// assert_eq!(error.to_string(), "out of memory: seats could not allocate: 3 of 4 are taken");
    /// assert_eq!(error.usage(), Some(usage));
    /// ```
    #[must_use]
    pub fn with_message(mut self, message: impl Into<String>) -> Self {
        self.0.message = Some(message.into());
        self
    }

    /// Adds what the suballocator held.
    #[must_use]
    pub fn with_usage(mut self, usage: PoolUsage) -> Self {
        self.0.usage = Some(usage);
        self
    }

    /// Adds the bytes that were pending on each stream, the most first.
    #[must_use]
    pub fn with_pending_bytes(mut self, pending: Vec<PendingBytes>) -> Self {
        self.0.pending = pending;
        self
    }

    /// Adds the error that led to this one.
    ///
    /// ```
    /// use std::error::Error as _;
    ///
    /// let cause = "ten".parse::<usize>().unwrap_err();
    /// let error = rmm_core::Error::invalid_argument("pool", "`ten` is no size").with_source(cause);
    /// assert_eq!(error.to_string(), "invalid argument to pool: `ten` is no size");
    /// assert_eq!(error.source().unwrap().to_string(), "invalid digit found in string");
    /// ```
    #[must_use]
    pub fn with_source(
        mut self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// What kind of thing went wrong.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Whether the memory asked for could not be had, be it for the device or for a limit that was
    /// set.
    pub fn is_out_of_memory(&self) -> bool {
        self.0.kind == ErrorKind::OutOfMemory
    }

    /// Whether a context is lost: its device was reset, or a kernel has failed in it. What was made
    /// in it (memory, streams, events) is of no use any more. After a reset, [make the device
    /// current](crate::Device::make_current) and make new streams, resources and containers; after
    /// a failed kernel only a new process can use the device.
    ///
    /// ```
    /// use rmm_core::Error;
    /// use rmm_core::sys::CuResult;
    ///
    /// assert!(Error::driver("cuStreamSynchronize", CuResult::ILLEGAL_ADDRESS).is_context_lost());
    /// assert!(!Error::out_of_memory("pool").is_context_lost());
    /// ```
    pub fn is_context_lost(&self) -> bool {
        self.0.code.is_some_and(CuResult::is_sticky)
    }

    /// Whether an argument cannot be right, whatever the state of the program.
    pub fn is_invalid_argument(&self) -> bool {
        self.0.kind == ErrorKind::InvalidArgument
    }

    /// Whether an index or range lies beyond the end.
    pub fn is_out_of_range(&self) -> bool {
        self.0.kind == ErrorKind::OutOfRange
    }

    /// Whether the driver refused a call, for another reason than those of the other kinds.
    pub fn is_driver(&self) -> bool {
        self.0.kind == ErrorKind::Driver
    }

    /// Whether there is no driver to call, or no device.
    pub fn is_driver_unavailable(&self) -> bool {
        self.0.kind == ErrorKind::DriverUnavailable
    }

    /// Whether this driver or device cannot do it.
    pub fn is_unsupported(&self) -> bool {
        self.0.kind == ErrorKind::Unsupported
    }

    /// Who failed: a resource's name, or the driver function.
    pub fn origin(&self) -> &'static str {
        self.0.origin
    }

    /// The driver's code, if a driver call failed.
    pub fn code(&self) -> Option<CuResult> {
        self.0.code
    }

    /// The bytes that were asked for, if memory was.
    pub fn requested(&self) -> Option<usize> {
        self.0.layout.map(|layout| layout.size())
    }

    /// The alignment in bytes that was asked for, if memory was.
    pub fn alignment(&self) -> Option<usize> {
        self.0.layout.map(|layout| layout.align())
    }

    /// The stream that memory was asked for on.
    pub fn stream(&self) -> Option<StreamId> {
        self.0.stream
    }

    /// What the suballocator held when the allocation failed.
    pub fn usage(&self) -> Option<PoolUsage> {
        self.0.usage
    }

    /// What would help, if the allocator found out: the [reason](PoolUsage::reason), as text.
    ///
    /// ```
    /// use rmm_core::{Error, OomReason, PoolUsage};
    ///
    /// let usage = PoolUsage::new(1024, 1024).with_reason(OomReason::Upstream);
    /// let error = Error::out_of_memory("pool").with_usage(usage);
    /// assert_eq!(error.advice().as_deref(), Some("the upstream is out of memory"));
    /// assert_eq!(Error::out_of_memory("pool").advice(), None);
    /// ```
    pub fn advice(&self) -> Option<String> {
        self.0.usage.and_then(|usage| usage.reason).map(|reason| reason.to_string())
    }

    /// Bytes freed on each stream that other streams could not reuse yet when the allocation failed,
    /// the most first.
    pub fn pending_bytes(&self) -> &[PendingBytes] {
        &self.0.pending
    }
}

/// For `?` on a code that the driver returned. [`check`](crate::check) also says which function
/// failed.
///
/// ```
/// use rmm_core::Error;
/// use rmm_core::sys::CuResult;
///
/// let error = Error::from(CuResult::INVALID_VALUE);
/// assert!(error.is_driver());
/// assert_eq!(error.code(), Some(CuResult::INVALID_VALUE));
/// ```
impl From<CuResult> for Error {
    #[cold]
    fn from(code: CuResult) -> Self {
        Self::driver("a driver call", code)
    }
}

impl From<LoadError> for Error {
    #[cold]
    fn from(source: LoadError) -> Self {
        Self::new(ErrorKind::DriverUnavailable, "driver").with_source(source)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { kind, origin, message, code, layout, stream, usage, pending, source } =
            &*self.0;
        match kind {
            ErrorKind::OutOfMemory => write!(f, "out of memory: {origin} could not allocate")?,
            ErrorKind::InvalidArgument => write!(f, "invalid argument to {origin}")?,
            ErrorKind::OutOfRange => write!(f, "out of range in {origin}")?,
            ErrorKind::Driver => write!(f, "{origin} failed")?,
            ErrorKind::DriverUnavailable => write!(f, "no usable {origin}")?,
            ErrorKind::Unsupported => write!(f, "{origin} is not supported here")?,
        }
        if let Some(layout) = layout {
            let (size, alignment) = (layout.size(), layout.align());
            write!(f, " {} ({size} bytes, alignment {alignment})", format_bytes(size as u64))?;
        }
        if let Some(stream) = stream {
            write!(f, " on stream {stream}")?;
        }
        if let Some(message) = message {
            write!(f, ": {message}")?;
        }
        let usage = usage.filter(|_| message.is_none());
        if let Some(usage) = usage {
            write!(f, "; {usage}")?;
        }
        write_pending(f, pending)?;
        if let Some(reason) = usage.and_then(|usage| usage.reason) {
            write!(f, "; {reason}")?;
        }
        if let Some(code) = code {
            write!(f, ": {code}")?;
        }
        // The driver's absence is explained by its cause alone, so the one line has to carry it.
        if let (ErrorKind::DriverUnavailable, Some(source)) = (kind, source) {
            write!(f, ": {source}")?;
        }
        Ok(())
    }
}

/// The line that [`Display`](fmt::Display) writes and a line for each error that led to it, since
/// this is what a program prints whose `main` returns an error; the fields for `{:#?}`.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.alternate() {
            return f.debug_tuple("Error").field(&self.0).finish();
        }
        write!(f, "{self}")?;
        let mut next = std::error::Error::source(self);
        // Where there is no driver the line tells of the cause itself.
        if self.is_driver_unavailable() {
            next = next.and_then(std::error::Error::source);
        }
        while let Some(source) = next {
            write!(f, "\n  caused by: {source}")?;
            next = source.source();
        }
        Ok(())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_ref().map(|source| &**source as _)
    }
}

const _: () = {
    const fn crosses_threads<T: Send + Sync + 'static>() {}
    crosses_threads::<Error>();
    assert!(size_of::<Error>() == size_of::<usize>());
};
