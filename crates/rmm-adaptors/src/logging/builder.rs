//! Options for a log.

use std::fmt;
use std::io::{self, Write};
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use rmm_core::Device;

use super::file::{LogFile, named};
use super::sinks::{Sink, Sinks};
use super::{LOG_HEADER, Log, LoggingResourceAdaptor};

/// Lines between two flushes if nothing else is asked for: about as many as a buffer of a file
/// holds.
const FLUSH_EVERY: NonZeroU64 = NonZeroU64::new(100).expect("100 is not 0");

/// What a new [`LoggingResourceAdaptor`] should write to, and when.
///
/// ```
/// use rmm_adaptors::LoggingResourceAdaptor;
/// use rmm_resources::CudaMemoryResource;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let machine = rmm_sim::Machine::new();
/// # let _entered = machine.enter();
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

impl<U> LoggingResourceAdaptorBuilder<U> {
    pub(super) fn new(upstream: U) -> Self {
        Self { upstream, targets: Vec::new(), flush_every: FLUSH_EVERY }
    }

    /// Logs to a file, too; it is created or emptied.
    pub fn file(mut self, path: impl Into<PathBuf>) -> Self {
        self.targets.push(Target::File(path.into()));
        self
    }

    /// Logs to a file of the current device, too; it is created or emptied. Its name is the given
    /// one with `.dev` and the device's number before the extension: `log.dev0.csv`.
    pub fn file_of_device(mut self, path: impl Into<PathBuf>) -> Self {
        self.targets.push(Target::FileOfDevice(path.into()));
        self
    }

    /// Logs to a writer, too.
    #[doc(alias = "sink_ptr")]
    pub fn writer(mut self, writer: impl Write + Send + 'static) -> Self {
        self.targets.push(Target::Writer(Box::new(writer)));
        self
    }

    /// Whether each line is written out at once, or after [as many as by
    /// default](Self::flush_every).
    pub fn auto_flush(self, flushes: bool) -> Self {
        self.flush_every(if flushes { NonZeroU64::MIN } else { FLUSH_EVERY })
    }

    /// How many lines are written out together; 100 by default. This is how many lines are lost if
    /// the process is killed.
    #[doc(alias = "flush_every_n")]
    pub fn flush_every(mut self, lines: NonZeroU64) -> Self {
        self.flush_every = lines;
        self
    }

    /// Opens the files, and writes the first line out.
    ///
    /// # Errors
    /// If a file cannot be created, there is no current device to name one after, or the first
    /// line cannot be written. What goes wrong with a file names it, and has the kind that the
    /// system's error has.
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

/// The name with the device's number before the extension.
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
    fn the_device_s_number_goes_before_the_extension() {
        let named = |path: &str| of_device(Path::new(path), 3).display().to_string();
        assert_eq!(named("logs/rmm.csv"), "logs/rmm.dev3.csv");
        assert_eq!(named("rmm"), "rmm.dev3");
        assert_eq!(named("a.b/rmm.log.txt"), "a.b/rmm.log.dev3.txt");
    }
}
