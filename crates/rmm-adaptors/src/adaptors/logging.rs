//! A log of allocations and frees, in RMM's format.

mod builder;
mod columns;
mod file;
mod line;
mod sinks;

use std::fmt;
use std::io;

use rmm_core::siblings::in_program;
use rmm_core::{Description, DevicePtr, Error, StreamRef};

use super::layer::handle;
use super::observer::{AllocatedAs, Call, Observer};
use super::tagged::Tag;
use crate::shared::site::Site;
use sinks::Sinks;

pub use builder::LoggingResourceAdaptorBuilder;
pub use columns::LogColumn;
pub(crate) use columns::{Columns, DeviceColumn};
pub(crate) use line::{Action, Line, Row};

/// The first line of a log.
pub const LOG_HEADER: &str = "Thread,Time,Action,Pointer,Size,Stream";

/// The environment variable that names the log file for
/// [`LoggingResourceAdaptor::from_environment`].
pub const LOG_FILE_VARIABLE: &str = "RMM_LOG_FILE";

handle! {
    /// Writes one line for every allocation and free of another resource.
    ///
    /// The lines are RMM's, `Thread,Time,Action,Pointer,Size,Stream`: a number for the thread, the
    /// time of day (UTC) to the microsecond, `allocate`, `free` or `allocate failure`, the address
    /// (`(nil)` for none), the requested bytes, and the stream's handle (`0` for null). An
    /// allocation is logged after it succeeded, a free before it is made, so an address that
    /// another thread gets next never appears to be allocated twice. RMM's tools and `rmm replay`
    /// read it.
    ///
    /// [More columns](LoggingResourceAdaptorBuilder::columns) may be added: the tag, the call site,
    /// and the device. A log that was not cut [ends with a
    /// mark](LoggingResourceAdaptorBuilder::end_mark).
    ///
    /// The header is flushed at once. Lines are flushed [every 100
    /// lines](LoggingResourceAdaptorBuilder::flush_every), by [`flush`](Self::flush), when the last
    /// handle is dropped, and on Unix when the process returns from `main` or calls `exit`, so the
    /// log of a resource that is never dropped, such as the current one, is complete as well. A
    /// process that is killed loses up to 99 lines.
    ///
    /// Lines go to a file, to any writer, or to [several](Self::builder). If a writer fails or
    /// panics, the line is lost for that writer and counted; other writers get it, and no memory
    /// leaks. The lock on the writers is not held while upstream is called. It is held while they
    /// are called, so a writer must not use the resource. Clones are handles to the same log and
    /// are equal.
    ///
    /// ```
    /// use std::alloc::Layout;
    /// use rmm_adaptors::LoggingResourceAdaptor;
    /// use rmm_core::SynchronousResource;
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

/// The writers of the log, and what it says of a call.
struct Log {
    sinks: std::sync::Arc<Sinks>,
    columns: Columns,
    header: String,
}

impl<U> LoggingResourceAdaptor<U> {
    /// Flushes all writers.
    ///
    /// # Errors
    /// If a writer fails, with the name of the file if it is one; the other writers are flushed all
    /// the same.
    pub fn flush(&self) -> io::Result<()> {
        self.inner.layer.sinks.flush()
    }

    /// Lines that could not be written, counted once for each writer that lacks the line.
    pub fn lost_lines(&self) -> u64 {
        self.inner.layer.sinks.lost_lines()
    }

    /// The first line of the log: [`LOG_HEADER`], and the names of further columns.
    pub fn header(&self) -> &str {
        &self.inner.layer.header
    }
}

impl Log {
    fn line(&self, action: Action, pointer: DevicePtr, call: Call<'_>) {
        let stream = call.stream.map(StreamRef::as_raw);
        let line = Line::new(action, pointer, call.layout.size(), stream);
        if self.columns.is_empty() {
            in_program(|| self.sinks.write(line.as_bytes()));
            return;
        }
        let mut line = line.open();
        // A block is its allocation's, whichever thread frees it.
        let tag = (action != Action::Free).then(Tag::current);
        self.columns.finish(&mut line, tag, call.site);
        in_program(|| self.sinks.write(&line));
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log").field("lost", &self.sinks.lost_lines()).finish_non_exhaustive()
    }
}

impl Observer for Log {
    const NAME: &'static str = "logging";

    #[inline]
    fn site(&self) -> Site {
        if self.columns.site { Site::here() } else { Site::NONE }
    }

    fn allocated(&self, pointer: DevicePtr, call: Call<'_>) -> Result<(), Error> {
        self.line(Action::Allocate, pointer, call);
        Ok(())
    }

    fn failed(&self, error: Error, call: Call<'_>) -> Error {
        self.line(Action::Failure, DevicePtr::NULL, call);
        error
    }

    fn freeing(&self, pointer: DevicePtr, call: Call<'_>) -> Option<AllocatedAs> {
        self.line(Action::Free, pointer, call);
        None
    }

    fn describe(&self, description: &mut Description) {
        description
            .count("writers", self.sinks.len() as u64)
            .count("lost lines", self.sinks.lost_lines());
    }
}
