//! How a pool falls asleep.

#![forbid(unsafe_code)]

use std::fmt;

use rmm_core::{AnySynchronousResource, HostAccessible};
use rmm_resources::PinnedHostMemoryResource;

/// What becomes of the contents of a pool's blocks while it sleeps.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Contents {
    /// They are lost: after the pool has woken up, its blocks hold undefined bytes.
    Discard,
    /// They are copied to host memory, and back when the pool wakes up.
    ToHost,
}

/// How far the copies of a pool that falls asleep or wakes up have come. Bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct CopyProgress {
    /// What is copied.
    pub copied: u64,
    /// What has to be copied in all.
    pub total: u64,
}

type Report<'a> = Box<dyn FnMut(CopyProgress) + 'a>;

/// How a [pool](crate::PoolMemoryResource) [falls asleep](crate::PoolMemoryResource::sleep_with).
///
/// ```
/// use rmm_adaptors::{Contents, PoolMemoryResource, SleepOptions};
/// use rmm_core::{AnySynchronousResource, HostDeviceAccessible};
/// use rmm_resources::{PinnedHostMemoryResource, VirtualMemoryResource};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let _machine = rmm_sim::enter();
/// // Pinned memory that is there before it is needed, and is used again each time.
/// let pinned = PinnedHostMemoryResource::new();
/// let pinned = PoolMemoryResource::<HostDeviceAccessible>::builder_with_properties(pinned);
/// let pinned = AnySynchronousResource::new(pinned.initial_size(4 << 20).build()?);
/// let pool = PoolMemoryResource::builder(VirtualMemoryResource::new()?);
/// let pool = pool.initial_size(4 << 20).build()?;
///
/// let mut copied = 0;
/// let options = SleepOptions::new(Contents::ToHost)
///     .wait_for_work(true)
///     .host_memory(pinned)
///     .on_progress(|progress| copied = progress.copied);
/// // SAFETY: no work uses the pool's memory: it has no blocks.
/// unsafe { pool.sleep_with(options) }?;
/// assert_eq!(pool.wake()?, 4 << 20);
/// # Ok(())
/// # }
/// ```
#[must_use = "options do nothing until a pool falls asleep with them"]
pub struct SleepOptions<'a> {
    pub(crate) contents: Contents,
    pub(crate) waits: bool,
    pub(crate) host: Option<AnySynchronousResource<HostAccessible>>,
    pub(crate) report: Option<Report<'a>>,
}

impl<'a> SleepOptions<'a> {
    /// Refuses while work is pending, takes pinned memory from `cudaHostAlloc`, reports nothing.
    pub fn new(contents: Contents) -> Self {
        Self { contents, waits: false, host: None, report: None }
    }

    /// Whether pending work is waited for. If not, which is the default, the pool refuses to fall
    /// asleep while one of its streams has work.
    pub fn wait_for_work(mut self, waits: bool) -> Self {
        self.waits = waits;
        self
    }

    /// The host memory for the contents, in blocks of 64 MiB. By default they are pinned, and are
    /// allocated when the pool falls asleep: 422 ms for each GiB. Pinned memory that is there
    /// before, such as a pool's over [`PinnedHostMemoryResource`], costs nothing then; other host
    /// memory is copied much slower. It is freed when the pool has woken up.
    pub fn host_memory(mut self, memory: AnySynchronousResource<HostAccessible>) -> Self {
        self.host = Some(memory);
        self
    }

    /// Calls `report` now and then while contents are copied to the host, on the thread of the
    /// call, with no lock held. If it panics, the pool stays awake and the panic goes on.
    pub fn on_progress(mut self, report: impl FnMut(CopyProgress) + 'a) -> Self {
        self.report = Some(Box::new(report));
        self
    }

    /// The memory for the contents.
    pub(crate) fn take_host_memory(&mut self) -> AnySynchronousResource<HostAccessible> {
        let pinned = || AnySynchronousResource::new(PinnedHostMemoryResource::new());
        self.host.take().unwrap_or_else(pinned)
    }
}

impl fmt::Debug for SleepOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SleepOptions")
            .field("contents", &self.contents)
            .field("waits", &self.waits)
            .field("host", &self.host)
            .finish_non_exhaustive()
    }
}
