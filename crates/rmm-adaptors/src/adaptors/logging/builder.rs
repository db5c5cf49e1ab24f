//! Constructors of a log, and its options.

use std::fmt;
use std::io::{self, Write};
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use rmm_core::Device;

use super::columns::{Columns, DeviceColumn, LogColumn};
use super::file::{LogFile, named};
use super::line::Line;
use super::sinks::{EndMark, OnLine, Sink, Sinks};
use super::{LOG_FILE_VARIABLE, Log, LoggingResourceAdaptor};
use crate::shared::site::Site;

/// Lines between two flushes by default: about as many as fit into the buffer of a file.
const FLUSH_EVERY: NonZeroU64 = NonZeroU64::new(100).expect("100 is not 0");

/// Options for a [`LoggingResourceAdaptor`]: where, when and what it writes.
///
/// ```
/// use rmm_adaptors::LoggingResourceAdaptor;
/// use rmm_resources::CudaMemoryResource;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let _machine = rmm_sim::enter();
/// # let folder = std::env::temp_dir();
/// # let log = folder.join(format!("rmm-builder-{}.csv", std::process::id()));
/// // One file for each device, as `rmm.enable_logging` of RMM's Python package names them.
/// let resource = LoggingResourceAdaptor::builder(CudaMemoryResource::new())
///     .file_of_device(&log)
///     .writer(std::io::sink())
///     .auto_flush(true)
///     .build()?;
/// let of_device = log.with_extension("dev0.csv");
/// assert_eq!(std::fs::read_to_string(&of_device)?.trim_end(), resource.header());
/// # std::fs::remove_file(&of_device)?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a builder does nothing until it is built"]
pub struct LoggingResourceAdaptorBuilder<U> {
    upstream: U,
    targets: Vec<Target>,
    functions: Vec<OnLine>,
    flush_every: NonZeroU64,
    columns: Vec<LogColumn>,
    has_end_mark: bool,
}

enum Target {
    File(PathBuf),
    FileOfDevice(PathBuf),
    Writer(Sink),
}

impl<U> LoggingResourceAdaptor<U> {
    /// Logs to a file, which is created or truncated. Two adaptors must not log to the same file.
    ///
    /// # Errors
    /// If the file cannot be created or the header cannot be written. The error has the kind of the
    /// system's error, and names the file.
    pub fn create(upstream: U, path: impl AsRef<Path>) -> io::Result<Self> {
        Self::builder(upstream).file(path.as_ref()).build()
    }

    /// Logs to a writer, which is flushed as a file is. If the resource is never dropped, the
    /// writer is called while the process exits, after thread-locals of the exiting thread have
    /// been destroyed.
    ///
    /// # Errors
    /// If the header cannot be written.
    pub fn to_writer(upstream: U, writer: impl Write + Send + 'static) -> io::Result<Self> {
        Self::builder(upstream).writer(writer).build()
    }

    /// Logs to the file that the environment variable [`RMM_LOG_FILE`](LOG_FILE_VARIABLE) names,
    /// which is created or truncated.
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

    /// Options for a log with several writers, more columns, or a flush after every line.
    pub fn builder(upstream: U) -> LoggingResourceAdaptorBuilder<U> {
        LoggingResourceAdaptorBuilder {
            upstream,
            targets: Vec::new(),
            functions: Vec::new(),
            flush_every: FLUSH_EVERY,
            columns: Vec::new(),
            has_end_mark: true,
        }
    }
}

impl<U> LoggingResourceAdaptorBuilder<U> {
    /// Adds a file, which is created or truncated.
    pub fn file(mut self, path: impl Into<PathBuf>) -> Self {
        self.targets.push(Target::File(path.into()));
        self
    }

    /// Adds a file for the current device, which is created or truncated. Its name is the given one
    /// with `.dev` and the device's number before the extension: `log.dev0.csv`.
    pub fn file_of_device(mut self, path: impl Into<PathBuf>) -> Self {
        self.targets.push(Target::FileOfDevice(path.into()));
        self
    }

    /// Adds a writer.
    #[doc(alias = "sink_ptr")]
    pub fn writer(mut self, writer: impl Write + Send + 'static) -> Self {
        self.targets.push(Target::Writer(Box::new(writer)));
        self
    }

    /// Adds a function that is called with the header when the log is built, and then with each
    /// line as it comes, without its end. Unlike a writer it is called without a lock: on several
    /// threads at once, and it may use the resource, but then it is called for that as well. It
    /// gets no [end mark](Self::end_mark). If it panics, the line is lost for it and counted.
    ///
    /// ```
    /// use std::alloc::Layout;
    /// use std::sync::mpsc;
    /// use rmm_adaptors::{LOG_HEADER, LoggingResourceAdaptor};
    /// use rmm_core::SynchronousResource;
    /// use rmm_resources::CudaMemoryResource;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let _machine = rmm_sim::enter();
    /// let (send, lines) = mpsc::channel();
    /// let builder = LoggingResourceAdaptor::builder(CudaMemoryResource::new());
    /// let resource = builder.on_line(move |line| drop(send.send(line.to_owned()))).build()?;
    /// let layout = Layout::from_size_align(1000, 256)?;
    /// let pointer = resource.allocate_sync(layout)?;
    /// assert_eq!(lines.try_recv()?, LOG_HEADER);
    /// assert!(lines.try_recv()?.ends_with(",1000,0"));
    /// # // SAFETY: allocated above with this layout, and not used.
    /// # unsafe { resource.deallocate_sync(pointer, layout) };
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "callback_sink")]
    pub fn on_line(mut self, function: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.functions.push(Box::new(function));
        self
    }

    /// Whether to flush after each line, or after the [default number of lines](Self::flush_every).
    pub fn auto_flush(self, flushes: bool) -> Self {
        self.flush_every(if flushes { NonZeroU64::MIN } else { FLUSH_EVERY })
    }

    /// The number of lines between two flushes; 100 by default. A process that is killed loses up
    /// to this many lines.
    #[doc(alias = "flush_every_n")]
    pub fn flush_every(mut self, lines: NonZeroU64) -> Self {
        self.flush_every = lines;
        self
    }

    /// Writes these columns after RMM's six, in the order of [`LogColumn::ALL`]; none by default.
    /// RMM's reader and `rmm replay` find columns by their names. Calls add up.
    ///
    /// A text with a comma or a double quote is quoted as in RFC 4180; control characters are
    /// replaced by spaces, so a row is one line. Rows of frees have no tag and no site.
    ///
    /// ```
    /// use std::alloc::Layout;
    /// use rmm_adaptors::{LogColumn, LoggingResourceAdaptor, Tag};
    /// use rmm_core::SynchronousResource;
    /// use rmm_resources::CudaMemoryResource;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let _machine = rmm_sim::enter();
    /// # let log = std::env::temp_dir().join(format!("rmm-columns-{}.csv", std::process::id()));
    /// let builder = LoggingResourceAdaptor::builder(CudaMemoryResource::new()).file(&log);
    /// let resource = builder.columns([LogColumn::Tag, LogColumn::Device]).build()?;
    /// let layout = Layout::from_size_align(1000, 256)?;
    /// let _scope = Tag::named("loader").enter();
    /// let pointer = resource.allocate_sync(layout)?;
    /// resource.flush()?;
    /// let text = std::fs::read_to_string(&log)?;
    /// assert!(text.starts_with("Thread,Time,Action,Pointer,Size,Stream,Tag,Device\n"), "{text}");
    /// assert!(text.ends_with(",1000,0,loader,0\n"), "{text}");
    /// # // SAFETY: allocated above with this layout, and not used.
    /// # unsafe { resource.deallocate_sync(pointer, layout) };
    /// # std::fs::remove_file(&log)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn columns(mut self, columns: impl IntoIterator<Item = LogColumn>) -> Self {
        self.columns.extend(columns);
        self
    }

    /// Whether the log ends with a mark, which one that was cut lacks; `true` by
    /// default. The mark is a failed allocation of 0 bytes, which RMM's replay ignores. It is
    /// written when the last handle is dropped, and on Unix when the process exits.
    pub fn end_mark(mut self, has_mark: bool) -> Self {
        self.has_end_mark = has_mark;
        self
    }

    /// Opens the files, and writes the header.
    ///
    /// # Errors
    /// If a file cannot be created, there is no current device to name one after, or the header
    /// cannot be written. An error about a file names it, and has the kind of the system's error.
    pub fn build(self) -> io::Result<LoggingResourceAdaptor<U>> {
        let Self { upstream, targets, functions, flush_every, columns, has_end_mark } = self;
        let sinks: io::Result<Vec<Sink>> = targets.into_iter().map(Target::open).collect();
        let has = |column| columns.contains(&column);
        let device = if has(LogColumn::Device) {
            DeviceColumn::Of(Device::current().ok().map(Device::ordinal))
        } else {
            DeviceColumn::Absent
        };
        let columns = Columns { tag: has(LogColumn::Tag), site: has(LogColumn::Site), device };
        let end_mark = move || {
            let mut line = Line::end_mark().open();
            columns.finish(&mut line, None, Site::NONE);
            line
        };
        let end_mark = has_end_mark.then(|| Box::new(end_mark) as EndMark);
        let header = columns.header();
        let sinks = Sinks::new(sinks?, functions, &header, flush_every.get(), end_mark)?;
        Ok(LoggingResourceAdaptor::over(upstream, Log { sinks, columns, header }))
    }
}

impl Target {
    fn open(self) -> io::Result<Sink> {
        let create = |path| Ok(Box::new(LogFile::create(path)?) as Sink);
        match self {
            Self::File(path) => create(path),
            Self::FileOfDevice(path) => {
                let device = Device::current();
                let device = device.map_err(|error| named(&path, &io::Error::other(error)))?;
                create(of_device(&path, device.ordinal()))
            }
            Self::Writer(writer) => Ok(writer),
        }
    }
}

/// Inserts the device's number before the extension of a file name.
fn of_device(path: &Path, ordinal: usize) -> PathBuf {
    match path.extension() {
        Some(extension) => {
            path.with_extension(format!("dev{ordinal}.{}", extension.to_string_lossy()))
        }
        None => path.with_extension(format!("dev{ordinal}")),
    }
}

impl<U: fmt::Debug> fmt::Debug for LoggingResourceAdaptorBuilder<U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { upstream, targets, functions, flush_every, columns, has_end_mark } = self;
        let mut fields = f.debug_struct("LoggingResourceAdaptorBuilder");
        fields.field("upstream", upstream).field("writers", &(targets.len() + functions.len()));
        fields.field("flush_every", flush_every).field("columns", columns);
        fields.field("has_end_mark", has_end_mark).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_device_number_precedes_the_extension() {
        let named = |path: &str| of_device(Path::new(path), 3).display().to_string();
        assert_eq!(named("logs/rmm.csv"), "logs/rmm.dev3.csv");
        assert_eq!(named("rmm"), "rmm.dev3");
        assert_eq!(named("a.b/rmm.log.txt"), "a.b/rmm.log.dev3.txt");
    }
}
