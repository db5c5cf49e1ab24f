//! A log of allocations, in RMM's format.

mod builder;
mod file;
mod line;
mod sinks;

use std::alloc::Layout;
use std::fmt;
use std::io::{self, Write};
use std::path::Path;

use rmm_core::{Description, DevicePtr, Error, StreamRef};

use crate::layer::{Below, Layer, adaptor};
use line::{Action, Line};
use sinks::Sinks;

pub use builder::LoggingResourceAdaptorBuilder;

/// The first line of a log.
pub const LOG_HEADER: &str = "Thread,Time,Action,Pointer,Size,Stream";

/// The environment variable that names the log file for
/// [`LoggingResourceAdaptor::from_environment`].
pub const LOG_FILE_VARIABLE: &str = "RMM_LOG_FILE";

adaptor! {
    /// Writes a line for everything that is allocated from and freed to another resource.
    ///
    /// The lines are RMM's, `Thread,Time,Action,Pointer,Size,Stream`: a number for the thread, the
    /// time of day (UTC) to the microsecond, `allocate`, `free` or `allocate failure`, the address
    /// (`(nil)` for none), the bytes asked for, and the stream's handle (`0` for null). An
    /// allocation is logged once it succeeded, a free before it happens, so that an address that
    /// another thread gets next never seems to be handed out twice. Both RMM's own tools and
    /// `rmm replay` read it.
    ///
    /// The header is written out at once, the lines after [every 100 of
    /// them](LoggingResourceAdaptorBuilder::flush_every), when [`flush`](Self::flush) is called,
    /// when the last handle is dropped, and on Unix when the process returns from `main` or calls
    /// `exit`: also of a resource that is never dropped, such as the current one. A process that is
    /// killed loses up to 99 lines.
    ///
    /// They go to a file, to any writer, or to [several](Self::builder). A line that cannot be
    /// written, or whose writer panics, is lost, and counted; it never costs memory, nor the line
    /// in other writers. The lock on the writers is never held while upstream is called; it is held
    /// while they are, which must not call the resource itself. Handles are clones, which share the
    /// log, and are equal.
    ///
    /// ```
    /// use std::alloc::Layout;
    /// use rmm_adaptors::LoggingResourceAdaptor;
    /// use rmm_core::SyncResource;
    /// use rmm_resources::CudaMemoryResource;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let machine = rmm_sim::Machine::new();
    /// # let _entered = machine.enter();
    /// let log = std::env::temp_dir().join(format!("rmm-log-{}.csv", std::process::id()));
    /// let resource = LoggingResourceAdaptor::create(CudaMemoryResource::new(), &log)?;
    /// let layout = Layout::from_size_align(1000, 256)?;
    /// let pointer = resource.allocate_sync(layout)?;
    /// // SAFETY: allocated above with this layout, and not used.
    /// unsafe { resource.deallocate_sync(pointer, layout) };
    /// resource.flush()?;
    /// let text = std::fs::read_to_string(&log)?;
    /// assert_eq!(text.lines().next(), Some("Thread,Time,Action,Pointer,Size,Stream"));
    /// assert_eq!(text.matches(",allocate,").count(), 1);
    /// assert_eq!(text.matches(",free,").count(), 1);
    /// # std::fs::remove_file(&log)?;
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "rmm::mr::logging_resource_adaptor")]
    LoggingResourceAdaptor(Log)
}

/// Where the lines go.
struct Log(std::sync::Arc<Sinks>);

impl<U> LoggingResourceAdaptor<U> {
    /// Logs to a file, which is created or emptied. No two adaptors may log to one file.
    ///
    /// # Errors
    /// If the file cannot be created or its first line not be written. The error has the kind of
    /// the system's, and names the file.
    pub fn create(upstream: U, path: impl AsRef<Path>) -> io::Result<Self> {
        Self::builder(upstream).file(path.as_ref()).build()
    }

    /// Logs to a writer. It is flushed as a file is: a writer of a resource that is never dropped
    /// also while the process ends, when the values of the thread that ends it are gone.
    ///
    /// # Errors
    /// If the first line cannot be written.
    pub fn to_writer(upstream: U, writer: impl Write + Send + 'static) -> io::Result<Self> {
        Self::builder(upstream).writer(writer).build()
    }

    /// Logs to the file that the environment variable [`RMM_LOG_FILE`](LOG_FILE_VARIABLE) names,
    /// which is created or emptied.
    ///
    /// # Errors
    /// [`NotFound`](io::ErrorKind::NotFound) if the variable is not set; as
    /// [`create`](Self::create) otherwise.
    #[doc(alias = "get_default_filename")]
    pub fn from_environment(upstream: U) -> io::Result<Self> {
        let unset = || {
            let message = format!("{LOG_FILE_VARIABLE} is not set, and no log file was named");
            io::Error::new(io::ErrorKind::NotFound, message)
        };
        Self::create(upstream, std::env::var_os(LOG_FILE_VARIABLE).ok_or_else(unset)?)
    }

    /// Options for a log with several writers, or that is always written out.
    pub fn builder(upstream: U) -> LoggingResourceAdaptorBuilder<U> {
        LoggingResourceAdaptorBuilder::new(upstream)
    }

    /// Writes out what is buffered.
    ///
    /// # Errors
    /// If it cannot be written, with the name of the file if it is one; to the others it is all
    /// the same.
    pub fn flush(&self) -> io::Result<()> {
        self.inner.layer.0.flush()
    }

    /// Lines that could not be written, once for each writer that lacks it.
    pub fn lost_lines(&self) -> u64 {
        self.inner.layer.0.lost_lines()
    }

    /// The first line of the log, [`LOG_HEADER`].
    pub fn header(&self) -> &'static str {
        LOG_HEADER
    }
}

impl Log {
    fn line(&self, action: Action, pointer: DevicePtr, layout: Layout, below: impl Below) {
        let stream = below.stream().map(StreamRef::as_raw);
        let line = Line::new(action, pointer, layout.size(), stream);
        self.0.write(line.as_bytes());
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log").field("lost", &self.0.lost_lines()).finish_non_exhaustive()
    }
}

// SAFETY: every call goes to the upstream as it is.
unsafe impl Layer for Log {
    const NAME: &'static str = "logging";

    fn allocate(&self, below: impl Below, layout: Layout) -> Result<DevicePtr, Error> {
        let result = below.allocate(layout);
        match result {
            Ok(pointer) => self.line(Action::Allocate, pointer, layout, below),
            Err(_) => self.line(Action::Failure, DevicePtr::NULL, layout, below),
        }
        result
    }

    unsafe fn deallocate(&self, below: impl Below, pointer: DevicePtr, layout: Layout) {
        self.line(Action::Free, pointer, layout, below);
        // SAFETY: the caller's contract is the same.
        unsafe { below.deallocate(pointer, layout) }
    }

    fn tell(&self, description: &mut Description) {
        description.count("writers", self.0.len() as u64).count("lost lines", self.0.lost_lines());
    }
}
