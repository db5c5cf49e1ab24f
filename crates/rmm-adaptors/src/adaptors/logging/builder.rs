//! Constructors of a log, and its options.

use std::fmt;
use std::io::{self, Write};
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use rmm_core::Device;

use super::file::{LogFile, named};
use super::sinks::{Sink, Sinks};
use super::{LOG_FILE_VARIABLE, LOG_HEADER, Log, LoggingResourceAdaptor};

/// Lines between two flushes by default: about as many as fit into the buffer of a file.
const FLUSH_EVERY: NonZeroU64 = NonZeroU64::new(100).expect("100 is not 0");

/// Options for a [`LoggingResourceAdaptor`]: where and when it writes.
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
    flush_every: NonZeroU64,
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

    /// Options for a log with several writers, or one that is flushed after every line.
    pub fn builder(upstream: U) -> LoggingResourceAdaptorBuilder<U> {
        LoggingResourceAdaptorBuilder { upstream, targets: Vec::new(), flush_every: FLUSH_EVERY }
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

    /// Opens the files, and writes the header.
    ///
    /// # Errors
    /// If a file cannot be created, there is no current device to name one after, or the header
    /// cannot be written. An error about a file names it, and has the kind of the system's error.
    pub fn build(self) -> io::Result<LoggingResourceAdaptor<U>> {
        let Self { upstream, targets, flush_every } = self;
        let sinks: io::Result<Vec<Sink>> = targets.into_iter().map(Target::open).collect();
        let sinks = Sinks::new(sinks?, LOG_HEADER, flush_every.get())?;
        Ok(LoggingResourceAdaptor::over(upstream, Log(sinks)))
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
        let Self { upstream, targets, flush_every } = self;
        let mut fields = f.debug_struct("LoggingResourceAdaptorBuilder");
        fields.field("upstream", upstream).field("writers", &targets.len());
        fields.field("flush_every", flush_every).finish()
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
