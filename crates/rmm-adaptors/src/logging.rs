//! A log of allocations, in RMM's format.

use std::alloc::Layout;
use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use rmm_core::{
    Claims, DevicePtr, Error, HasMemoryKind, HasProperty, HasPropertyValue, MemoryCaps, MemoryKind,
    Property, PropertyWithValue, Resource, StreamRef, SyncResource,
};
use rmm_sys::CuStream;

/// The first line of a log.
pub const LOG_HEADER: &str = "Thread,Time,Action,Pointer,Size,Stream";

/// Writes a line for everything that is allocated from and freed to another resource.
///
/// The lines are RMM's, `Thread,Time,Action,Pointer,Size,Stream`: a number for the thread, the time of day (UTC) to the microsecond,
/// `allocate`, `free` or `allocate failure`, the address (`(nil)` for none), the bytes asked for, and the stream's handle
/// (`0` for null). An allocation is logged once it succeeded, a free before it happens, so that an address that another thread gets
/// next never seems to be handed out twice. Both RMM's own tools and `rmm replay` read it.
///
/// A line that can not be written, or whose writer panics, is lost, and counted; it never costs memory. The lock on the writer is
/// never held while upstream is called; it is held while the writer is, which must not call the resource itself. Handles are clones; two are equal if they share a log and their upstreams are equal.
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
#[derive(Debug)]
pub struct LoggingResourceAdaptor<U> {
    upstream: U,
    log: Arc<Log>,
}

struct Log {
    writer: Mutex<Box<dyn Write + Send>>,
    lost: AtomicU64,
}

#[derive(Clone, Copy)]
enum Action {
    Allocate,
    Free,
    Failure,
}

impl<U> LoggingResourceAdaptor<U> {
    /// Logs to a file, which is created or emptied.
    ///
    /// # Errors
    /// If the file can not be created or its first line not be written.
    pub fn create(upstream: U, path: impl AsRef<Path>) -> io::Result<Self> {
        Self::to_writer(upstream, BufWriter::new(File::create(path)?))
    }

    /// Logs to a writer. It is flushed by [`flush`](Self::flush) and when the last handle is dropped.
    ///
    /// # Errors
    /// If the first line can not be written.
    pub fn to_writer(upstream: U, writer: impl Write + Send + 'static) -> io::Result<Self> {
        let mut writer: Box<dyn Write + Send> = Box::new(writer);
        writeln!(writer, "{LOG_HEADER}")?;
        Ok(Self {
            upstream,
            log: Arc::new(Log { writer: Mutex::new(writer), lost: AtomicU64::new(0) }),
        })
    }

    /// Writes out what is buffered.
    ///
    /// # Errors
    /// If it can not be written.
    pub fn flush(&self) -> io::Result<()> {
        self.log.writer.lock().unwrap_or_else(PoisonError::into_inner).flush()
    }

    /// Lines that could not be written.
    pub fn lost_lines(&self) -> u64 {
        self.log.lost.load(Ordering::Relaxed)
    }

    /// The resource whose calls are logged.
    #[doc(alias = "get_upstream_resource")]
    pub fn upstream(&self) -> &U {
        &self.upstream
    }
}

impl Log {
    fn line(&self, action: Action, pointer: DevicePtr, bytes: usize, stream: Option<CuStream>) {
        let thread = thread_number();
        let time = TimeOfDay::now();
        let action = match action {
            Action::Allocate => "allocate",
            Action::Free => "free",
            Action::Failure => "allocate failure",
        };
        // The synchronous calls are, to the log, calls on the null stream, as they are in RMM.
        let stream = Handle(stream.map_or(0, CuStream::addr));
        let pointer = Address(pointer.0);
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        // A writer's panic ends here too: on its way out it would take the memory along, and it would leave the `Drop` that frees.
        let written = catch_unwind(AssertUnwindSafe(|| {
            writeln!(writer, "{thread},{time},{action},{pointer},{bytes},{stream}")
        }));
        if !matches!(written, Ok(Ok(()))) {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        let writer = self.writer.get_mut().unwrap_or_else(PoisonError::into_inner);
        // Nobody is left to hear that it failed.
        let _lost = catch_unwind(AssertUnwindSafe(|| writer.flush()));
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log").field("lost", &self.lost).finish_non_exhaustive()
    }
}

/// A small number for the calling thread, given once in a process.
fn thread_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local! {
        static NUMBER: u64 = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    NUMBER.try_with(|number| *number).unwrap_or(0)
}

/// `HH:MM:SS.uuuuuu`, UTC.
struct TimeOfDay(u64);

impl TimeOfDay {
    fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(since.as_secs() % 86_400 * 1_000_000 + u64::from(since.subsec_micros()))
    }
}

impl fmt::Display for TimeOfDay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, micros) = (self.0 / 1_000_000, self.0 % 1_000_000);
        write!(f, "{:02}:{:02}:{:02}.{micros:06}", seconds / 3600, seconds / 60 % 60, seconds % 60)
    }
}

/// An address as C's `%p` prints it.
struct Address(u64);

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 { f.write_str("(nil)") } else { write!(f, "{:#x}", self.0) }
    }
}

/// A stream's handle: `0` for null, else hexadecimal.
struct Handle(usize);

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 { f.write_str("0") } else { write!(f, "{:#x}", self.0) }
    }
}

impl<U: Clone> Clone for LoggingResourceAdaptor<U> {
    fn clone(&self) -> Self {
        Self { upstream: self.upstream.clone(), log: Arc::clone(&self.log) }
    }
}

impl<U: PartialEq> PartialEq for LoggingResourceAdaptor<U> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.log, &other.log) && self.upstream == other.upstream
    }
}

impl<U: Eq> Eq for LoggingResourceAdaptor<U> {}

impl<U> LoggingResourceAdaptor<U> {
    fn log_allocation(
        &self,
        result: &Result<DevicePtr, Error>,
        layout: Layout,
        stream: Option<CuStream>,
    ) {
        match *result {
            Ok(pointer) => self.log.line(Action::Allocate, pointer, layout.size(), stream),
            Err(_) => self.log.line(Action::Failure, DevicePtr::NULL, layout.size(), stream),
        }
    }
}

// SAFETY: every call goes to the upstream, which keeps the contract.
unsafe impl<U: SyncResource> SyncResource for LoggingResourceAdaptor<U> {
    fn allocate_sync(&self, layout: Layout) -> Result<DevicePtr, Error> {
        let result = self.upstream.allocate_sync(layout);
        self.log_allocation(&result, layout, None);
        result
    }

    unsafe fn deallocate_sync(&self, pointer: DevicePtr, layout: Layout) {
        self.log.line(Action::Free, pointer, layout.size(), None);
        // SAFETY: the caller's contract is the same.
        unsafe { self.upstream.deallocate_sync(pointer, layout) }
    }

    fn name(&self) -> &'static str {
        "logging"
    }

    fn properties(&self, claims: &mut Claims<'_>) {
        self.upstream.properties(claims);
    }

    fn upstream_resource(&self) -> Option<&(dyn SyncResource + 'static)>
    where
        Self: 'static,
    {
        Some(&self.upstream)
    }
}

// SAFETY: as above.
unsafe impl<U: Resource> Resource for LoggingResourceAdaptor<U> {
    fn allocate(&self, stream: StreamRef<'_>, layout: Layout) -> Result<DevicePtr, Error> {
        let result = self.upstream.allocate(stream, layout);
        self.log_allocation(&result, layout, Some(stream.as_raw()));
        result
    }

    unsafe fn deallocate(&self, stream: StreamRef<'_>, pointer: DevicePtr, layout: Layout) {
        self.log.line(Action::Free, pointer, layout.size(), Some(stream.as_raw()));
        // SAFETY: the caller's contract is the same.
        unsafe { self.upstream.deallocate(stream, pointer, layout) }
    }
}

// SAFETY: the memory is the upstream's.
unsafe impl<P: Property, U: HasProperty<P>> HasProperty<P> for LoggingResourceAdaptor<U> {}

impl<P: PropertyWithValue, U: HasPropertyValue<P>> HasPropertyValue<P>
    for LoggingResourceAdaptor<U>
{
    fn property_value(&self) -> P::Value {
        self.upstream.property_value()
    }
}

// SAFETY: the memory is the upstream's.
unsafe impl<U: HasMemoryKind> HasMemoryKind for LoggingResourceAdaptor<U> {
    const KIND: MemoryKind = U::KIND;
    const CAPS: MemoryCaps = U::CAPS;
}
