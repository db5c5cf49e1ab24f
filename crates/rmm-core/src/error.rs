//! The one error type.

use std::alloc::Layout;
use std::fmt;

use rmm_sys::{CuResult, LoadError};

use crate::limit_id::LimitId;
use crate::oom::{OomReason, write_pending};
use crate::{DeviceUsage, PendingBytes, PoolUsage, Remedy, StreamId, format_bytes, remedy};

/// The kind of an [`Error`].
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
    /// Out of memory: the device does not have enough, or a limit does not allow it.
    #[doc(alias = "rmm::out_of_memory")]
    OutOfMemory,
    /// An argument that is invalid in any state of the program, such as a limit that is not a
    /// multiple of 256.
    #[doc(alias = "rmm::invalid_argument")]
    #[doc(alias = "rmm::logic_error")]
    InvalidArgument,
    /// An index or range beyond the end.
    #[doc(alias = "rmm::out_of_range")]
    OutOfRange,
    /// A driver call failed for another reason than memory.
    #[doc(alias = "rmm::cuda_error")]
    Driver,
    /// There is no driver, or it lacks a required function.
    DriverUnavailable,
    /// The driver or device does not support this.
    Unsupported,
    /// Not possible in the resource's present state, for another reason than memory: work is
    /// pending, or a pool is asleep. It is once that has changed.
    #[doc(alias = "CUDA_ERROR_NOT_READY")]
    NotReady,
}

/// An error: its [kind](ErrorKind), for programs, and the details of the request, for people.
///
/// It is one word wide. `Display` writes one line; `{:?}` writes that line and those of its
/// sources, so that `fn main() -> Result<(), Error>` prints a readable message; `{:#?}` writes the
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
/// let text = "out of memory: pool could not allocate 1.0 MiB (1048576 bytes, alignment 256)";
/// assert_eq!(error.to_string(), text);
/// # Ok::<(), std::alloc::LayoutError>(())
/// ```
///
/// # RMM's exceptions
///
/// | RMM | here |
/// |---|---|
/// | `rmm::logic_error` | [`ErrorKind::InvalidArgument`], where no type rules it out |
/// | `rmm::cuda_error` | [`ErrorKind::Driver`], `DriverUnavailable` or `Unsupported`, by [code](Self::code) |
/// | `rmm::bad_alloc` | [`ErrorKind::OutOfMemory`], `Driver` or `InvalidArgument` (an alignment) |
/// | `rmm::out_of_memory` | [`ErrorKind::OutOfMemory`] |
/// | `rmm::out_of_range` | [`ErrorKind::OutOfRange`] |
/// | `rmm::invalid_argument` | [`ErrorKind::InvalidArgument`] |
///
/// A failed driver call leaves no error behind for a later call to report: unlike the CUDA runtime,
/// the driver keeps no last error, except in a context that a device fault has corrupted.
#[doc(alias = "rmm::bad_alloc")]
pub struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    kind: ErrorKind,
    /// What failed: a resource's name, or a driver function.
    origin: &'static str,
    message: Option<String>,
    code: Option<CuResult>,
    layout: Option<Layout>,
    stream: Option<StreamId>,
    usage: Option<PoolUsage>,
    pending: Vec<PendingBytes>,
    /// What refused by a limit of its own, if that is the cause.
    limit: Option<LimitId>,
    remedies: Vec<Remedy>,
    /// Who holds the device's memory, if the device has refused.
    device: Option<DeviceUsage>,
    /// The largest tags of the program, with their bytes.
    tags: Vec<(&'static str, u64)>,
    /// Which files report on it, or why none do.
    report: Option<String>,
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
            limit: None,
            remedies: Vec::new(),
            device: None,
            tags: Vec::new(),
            report: None,
            source: None,
        }))
    }

    /// `resource` is out of memory.
    #[cold]
    pub fn out_of_memory(resource: &'static str) -> Self {
        Self::new(ErrorKind::OutOfMemory, resource)
    }

    /// `origin` was passed an invalid argument; `message` says which and why.
    #[cold]
    #[doc(alias = "RMM_EXPECTS")]
    #[doc(alias = "RMM_FAIL")]
    pub fn invalid_argument(origin: &'static str, message: impl Into<String>) -> Self {
        let mut error = Self::new(ErrorKind::InvalidArgument, origin);
        error.0.message = Some(message.into());
        error
    }

    /// `origin` was passed an index or range beyond the end; `message` says which.
    #[cold]
    pub fn out_of_range(origin: &'static str, message: impl Into<String>) -> Self {
        let mut error = Self::new(ErrorKind::OutOfRange, origin);
        error.0.message = Some(message.into());
        error
    }

    /// `origin` needs what this driver or device does not support; `message` says what.
    #[cold]
    pub fn unsupported(origin: &'static str, message: impl Into<String>) -> Self {
        let mut error = Self::new(ErrorKind::Unsupported, origin);
        error.0.message = Some(message.into());
        error
    }

    /// `origin` cannot do it in its present state; `message` says what has to change.
    ///
    /// ```
    /// use rmm_core::{Error, ErrorKind};
    ///
    /// let error = Error::not_ready("pool", "it is asleep: wake it first");
    /// assert_eq!(error.kind(), ErrorKind::NotReady);
    /// assert_eq!(error.to_string(), "pool is not ready: it is asleep: wake it first");
    /// ```
    #[cold]
    pub fn not_ready(origin: &'static str, message: impl Into<String>) -> Self {
        let mut error = Self::new(ErrorKind::NotReady, origin);
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

    /// Adds the requested layout.
    #[must_use]
    pub fn with_layout(mut self, layout: Layout) -> Self {
        self.0.layout = Some(layout);
        self
    }

    /// Adds the stream of the request.
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
    /// let error = Error::out_of_memory("seats").with_usage(usage);
    /// let error = error.with_message("3 of 4 are taken");
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

    /// Adds what would help, in any order.
    #[must_use]
    pub fn with_remedies(mut self, mut remedies: Vec<Remedy>) -> Self {
        remedy::sort(&mut remedies);
        self.0.remedies = remedies;
        self
    }

    /// What would make memory available to the request, with bytes and names: first what is enough
    /// by itself, and of that what asks least. Empty if the allocator knows of nothing. [`Remedy`]
    /// has an example.
    pub fn remedies(&self) -> &[Remedy] {
        &self.0.remedies
    }

    /// Adds who holds the device's memory.
    #[doc(hidden)]
    #[must_use]
    pub fn with_device_usage(mut self, usage: impl Into<Option<DeviceUsage>>) -> Self {
        self.0.device = usage.into();
        self
    }

    /// Who holds the device's memory, if it is the device that has refused the request, and not a
    /// limit. `Display` says it, too.
    pub fn device_usage(&self) -> Option<&DeviceUsage> {
        self.0.device.as_ref()
    }

    /// Adds the tags that hold the most bytes, for the message.
    #[doc(hidden)]
    #[must_use]
    pub fn with_largest_tags(mut self, tags: Vec<(&'static str, u64)>) -> Self {
        self.0.tags = tags;
        self
    }

    /// Adds which files report on the failure, for the message.
    #[doc(hidden)]
    #[must_use]
    pub fn with_report(mut self, report: impl Into<String>) -> Self {
        self.0.report = Some(report.into());
        self
    }

    /// Which files report on the failure, or why none do, if a recorder was to write them.
    /// `Display` says it, too.
    pub fn report(&self) -> Option<&str> {
        self.0.report.as_deref()
    }

    /// Notes which limit has refused the request.
    #[doc(hidden)]
    #[must_use]
    pub fn with_limit_id(mut self, limit: impl Into<Option<LimitId>>) -> Self {
        self.0.limit = limit.into();
        self
    }

    /// Which limit has refused the request, if one has: that of the resource called or of one
    /// below. `PoolMemoryResource::limit_id` and `LimitingResourceAdaptor::limit_id` say whose it
    /// is.
    pub fn limit_id(&self) -> Option<LimitId> {
        self.0.limit
    }

    /// Adds the error that led to this one.
    ///
    /// ```
    /// use std::error::Error as _;
    ///
    /// let cause = "ten".parse::<usize>().unwrap_err();
    /// let error = rmm_core::Error::invalid_argument("pool", "`ten` is no size");
    /// let error = error.with_source(cause);
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

    /// The kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Whether there was not enough memory, on the device or within a limit.
    pub fn is_out_of_memory(&self) -> bool {
        self.0.kind == ErrorKind::OutOfMemory
    }

    /// Whether a context is lost: its device was reset, or a kernel has failed in it. Its memory,
    /// streams and events are invalid. After a reset, [make the device
    /// current](crate::Device::make_current) and create new streams, resources and containers;
    /// after a failed kernel only a new process can use the device.
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

    /// Whether an argument is invalid in any state of the program.
    pub fn is_invalid_argument(&self) -> bool {
        self.0.kind == ErrorKind::InvalidArgument
    }

    /// Whether an index or range lies beyond the end.
    pub fn is_out_of_range(&self) -> bool {
        self.0.kind == ErrorKind::OutOfRange
    }

    /// Whether a driver call failed for a reason that no other kind covers.
    pub fn is_driver(&self) -> bool {
        self.0.kind == ErrorKind::Driver
    }

    /// Whether there is no driver to call, or no device.
    pub fn is_driver_unavailable(&self) -> bool {
        self.0.kind == ErrorKind::DriverUnavailable
    }

    /// Whether this driver or device does not support it.
    pub fn is_unsupported(&self) -> bool {
        self.0.kind == ErrorKind::Unsupported
    }

    /// Whether it is not possible in the resource's present state, as while work is pending.
    pub fn is_not_ready(&self) -> bool {
        self.0.kind == ErrorKind::NotReady
    }

    /// What failed: a resource's name, or a driver function.
    pub fn origin(&self) -> &'static str {
        self.0.origin
    }

    /// The driver's code, if a driver call failed.
    pub fn code(&self) -> Option<CuResult> {
        self.0.code
    }

    /// The requested bytes, if it was a request for memory.
    pub fn requested(&self) -> Option<usize> {
        self.0.layout.map(|layout| layout.size())
    }

    /// The requested alignment in bytes, if it was a request for memory.
    pub fn alignment(&self) -> Option<usize> {
        self.0.layout.map(|layout| layout.align())
    }

    /// The stream of a request for memory.
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

    /// Bytes freed on each stream that other streams could not reuse yet when the allocation
    /// failed, the most first.
    pub fn pending_bytes(&self) -> &[PendingBytes] {
        &self.0.pending
    }
}

/// For `?` on a driver's status code. [`check`](crate::check) also records which function failed.
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
        let Inner {
            kind,
            origin,
            message,
            code,
            layout,
            stream,
            usage,
            pending,
            limit: _,
            remedies: _,
            device,
            tags,
            report,
            source,
        } = &*self.0;
        match kind {
            ErrorKind::OutOfMemory => write!(f, "out of memory: {origin} could not allocate")?,
            ErrorKind::InvalidArgument => write!(f, "invalid argument to {origin}")?,
            ErrorKind::OutOfRange => write!(f, "out of range in {origin}")?,
            ErrorKind::Driver => write!(f, "{origin} failed")?,
            ErrorKind::DriverUnavailable => write!(f, "no usable {origin}")?,
            ErrorKind::Unsupported => write!(f, "{origin} is not supported here")?,
            ErrorKind::NotReady => write!(f, "{origin} is not ready")?,
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
            let upstream = source.as_ref().and_then(|source| source.downcast_ref::<Self>());
            if let (OomReason::Upstream, Some(upstream)) = (reason, upstream)
                && let Some(why) = &upstream.0.message
            {
                write!(f, ", {} says: {why}", upstream.0.origin)?;
            }
        }
        if let Some(code) = code {
            write!(f, ": {code}")?;
        }
        for (number, (tag, bytes)) in tags.iter().enumerate() {
            f.write_str(if number == 0 { "; largest tags: " } else { ", " })?;
            write!(f, "{tag} {}", format_bytes(*bytes))?;
        }
        if let Some(device) = device {
            write!(f, "; {device}")?;
        }
        if let Some(report) = report {
            write!(f, "; {report}")?;
        }
        // The driver's absence is explained by its cause alone, so the one line has to carry it.
        if let (ErrorKind::DriverUnavailable, Some(source)) = (kind, source) {
            write!(f, ": {source}")?;
        }
        Ok(())
    }
}

/// The line that [`Display`](fmt::Display) writes and a line for each source, since this is what a
/// program prints whose `main` returns an error; the fields for `{:#?}`.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.alternate() {
            return f.debug_tuple("Error").field(&self.0).finish();
        }
        write!(f, "{self}")?;
        let mut next = std::error::Error::source(self);
        // For a missing driver the line itself states the cause.
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
