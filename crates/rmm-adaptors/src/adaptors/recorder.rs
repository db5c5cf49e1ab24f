//! The last calls and the blocks before them, in host memory.

mod builder;
mod clock;
mod history;
mod report;
mod ring;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use rmm_core::siblings::in_program;
use rmm_core::{Description, DevicePtr, Effort, Error, StreamRef, fork};

use super::layer::handle;
use super::logging::Action;
use super::observer::{AllocatedAs, Call, Observer};
use super::tagged::Tag;
use crate::shared::site::Site;
use crate::sync::address_table::AddressTable;
use crate::sync::first_thread::FirstThreadCell;
use crate::sync::thread_number;
use history::{Before, History};
use report::Reports;
use ring::{Event, Ring};

pub use builder::{RecorderResourceAdaptorBuilder, with_oom_report};
pub use report::{OOM_REPORT_VARIABLE, WritePage, write_pages_by};

handle! {
    /// Keeps the last allocations, frees and failures of another resource, and what was live before
    /// them, to write them as a log when it is needed.
    ///
    /// The log has the columns of a [`LoggingResourceAdaptor`](crate::LoggingResourceAdaptor), with
    /// tag, site and device. Blocks that were live before the first event that is kept are its
    /// first rows, as allocations by thread 0, the largest first. Their stream is that of their
    /// free, if that is kept, or null. Times are those of the system's clock at its last tick,
    /// every 1 to 10 milliseconds on Linux; the order of rows is that of the calls.
    ///
    /// With the option [`oom_report`](RecorderResourceAdaptorBuilder::oom_report), or the
    /// environment variable `RMM_OOM_REPORT`, it writes itself to a file when a request fails for
    /// lack of memory, before the error is returned.
    ///
    /// A call costs about 8 nanoseconds more while one thread calls, and 15 once a second has come,
    /// measured on two cores of an AMD EPYC. Call sites cost what
    /// [`sites`](RecorderResourceAdaptorBuilder::sites) says. No lock is taken. Host memory: 48
    /// bytes for each event that is kept, 3 MiB by default, 64 KiB, and up to 250 bytes for each
    /// live block beyond the first 500. Bytes of a block of 1 TiB and more are written as one less
    /// than 1 TiB, if its allocation is not kept.
    ///
    /// It is a handle: clones share what is kept.
    ///
    /// ```
    /// use std::alloc::Layout;
    /// use rmm_adaptors::RecorderResourceAdaptor;
    /// use rmm_core::SynchronousResource;
    /// use rmm_resources::CudaMemoryResource;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let _machine = rmm_sim::enter();
    /// let builder = RecorderResourceAdaptor::builder(CudaMemoryResource::new());
    /// let resource = builder.events(2).build();
    /// let layout = Layout::from_size_align(1000, 256)?;
    /// let [first, second, third] = [1, 2, 3].map(|_| resource.allocate_sync(layout));
    /// let mut log = Vec::new();
    /// resource.write_log(&mut log)?;
    /// // The block that was live before the last two events is in the log all the same.
    /// assert_eq!(String::from_utf8(log)?.matches(",allocate,").count(), 3);
    /// # for pointer in [first?, second?, third?] {
    /// #     // SAFETY: allocated above with this layout, and not used.
    /// #     unsafe { resource.deallocate_sync(pointer, layout) };
    /// # }
    /// # Ok(())
    /// # }
    /// ```
    RecorderResourceAdaptor(Recorder)
}

#[derive(Debug)]
struct Recorder {
    /// Owned by the thread that may write to `live` and `ring` exclusively.
    first: FirstThreadCell<()>,
    /// The [packed](pack) facts of the live blocks.
    live: AddressTable,
    ring: Ring,
    /// Whether sites of allocations are kept.
    sites: bool,
    /// The device that was current when this was made.
    device: Option<usize>,
    reports: Option<Reports>,
}

/// Bits of a word for a tag's number and a site's; the others hold a size.
const TAG_BITS: u32 = 10;
const SITE_BITS: u32 = 14;
const SIZE_BITS: u32 = u64::BITS - TAG_BITS - SITE_BITS;

/// What the table keeps of a block.
#[inline]
fn pack(bytes: u64, tag: Tag, site: Site) -> u64 {
    let bytes = bytes.min((1 << SIZE_BITS) - 1);
    let who = u64::from(tag.number()) << SITE_BITS | u64::from(site.number());
    bytes << (TAG_BITS + SITE_BITS) | who
}

#[inline]
fn unpack(word: u64) -> (u64, Tag, Site) {
    let low = |word: u64, bits: u32| u16::try_from(word & ((1 << bits) - 1)).unwrap_or(0);
    let (tag, site) = (low(word >> SITE_BITS, TAG_BITS), low(word, SITE_BITS));
    (word >> (TAG_BITS + SITE_BITS), Tag::numbered(tag), Site::numbered(site))
}

impl<U> RecorderResourceAdaptor<U> {
    /// Writes what is kept as a log. Calls of other threads meanwhile may be in it or not.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn write_log(&self, mut to: impl Write) -> io::Result<()> {
        self.inner.layer.history().write(&mut to)
    }

    /// Writes what is kept to a file, which is created or truncated.
    ///
    /// # Errors
    /// If the file cannot be created or written; the error names it.
    pub fn save(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let path = path.as_ref();
        let saved = File::create(path).and_then(|file| self.write_log(BufWriter::new(file)));
        saved.map_err(|error| {
            io::Error::new(error.kind(), format!("log file {}: {error}", path.display()))
        })
    }

    /// The most events that are kept.
    pub fn capacity(&self) -> usize {
        self.inner.layer.ring.capacity()
    }

    /// The events so far, those that are no longer kept included.
    pub fn events(&self) -> u64 {
        self.inner.layer.ring.events()
    }
}

impl Recorder {
    /// What is kept now.
    fn history(&self) -> History {
        // First, so that events which come meanwhile are among those that are read.
        let live = self.live.iter().map(|(pointer, word)| {
            let (bytes, tag, site) = unpack(word);
            Before { pointer, bytes, stream: 0, tag, site }
        });
        History::new(live.collect(), self.ring.read(), self.device)
    }

    /// The event of a call, for the calling thread.
    #[inline]
    fn event(action: Action, pointer: DevicePtr, call: Call<'_>, tag: Tag, site: Site) -> Event {
        let stream = call.stream.map(StreamRef::as_raw);
        // Threads that are 2^32 apart share a number.
        #[expect(clippy::cast_possible_truncation, reason = "the lower half is kept")]
        let thread = thread_number() as u32;
        Event {
            action,
            pointer,
            bytes: call.layout.size() as u64,
            stream: stream.map_or(0, rmm_sys::CuStream::addr) as u64,
            time: clock::now(),
            thread,
            tag,
            site,
        }
    }
}

impl Observer for Recorder {
    const NAME: &'static str = "recorder";

    #[inline]
    fn site(&self) -> Site {
        if self.sites && !fork::is_child() { Site::here() } else { Site::NONE }
    }

    #[inline]
    fn allocated(&self, pointer: DevicePtr, call: Call<'_>) -> Result<(), Error> {
        let tag = Tag::current();
        let event = Self::event(Action::Allocate, pointer, call, tag, call.site);
        let block = pack(event.bytes, tag, call.site);
        let access = &self.first.access();
        if !self.live.insert(access, pointer, block) {
            // Some code freed the block before to upstream.
            self.live.remove(access, pointer);
            self.live.insert(access, pointer, block);
        }
        self.ring.record(access, event);
        Ok(())
    }

    #[cold]
    fn failed(&self, error: Error, call: Call<'_>) -> Error {
        if fork::is_child() {
            return error;
        }
        let site = if call.site == Site::NONE { Site::here() } else { call.site };
        let event = Self::event(Action::Failure, DevicePtr::NULL, call, Tag::current(), site);
        self.ring.record(&self.first.access(), event);
        let Some(reports) = &self.reports else { return error };
        // One that was refused for a limited effort is expected, and may be frequent.
        let is_full = Effort::current() == Effort::Full;
        if !is_full || !error.is_out_of_memory() || error.report().is_some() {
            return error;
        }
        match in_program(|| reports.write(|| self.history())) {
            Some(said) => error.with_report(said),
            None => error,
        }
    }

    #[inline]
    fn freeing(&self, pointer: DevicePtr, call: Call<'_>) -> Option<AllocatedAs> {
        // There, threads of the parent are missing that may be in the middle of a change.
        if fork::is_child() {
            return None;
        }
        let access = &self.first.access();
        let block = self.live.remove(access, pointer);
        let (_, tag, site) = block.map_or((0, Tag::UNTAGGED, Site::NONE), unpack);
        self.ring.record(access, Self::event(Action::Free, pointer, call, tag, site));
        None
    }

    fn describe(&self, description: &mut Description) {
        description
            .count("events", self.ring.events())
            .count("kept", self.ring.events().min(self.ring.capacity() as u64));
    }
}
