//! Options for an arena resource.

use std::path::PathBuf;

use rmm_core::{CUDA_ALLOCATION_ALIGNMENT, Device, Error, SyncResource};

use super::ArenaMemoryResource;
use super::superblock::SUPERBLOCK;
use crate::pool::CachePolicy;
use crate::{GrowthPolicy, PoolMemoryResource};

/// The resource's name.
const NAME: &str = "arena";
/// Where reports go if nothing else is said.
const DUMP_LOG: &str = "rmm_arena_memory_dump.log";

/// What a new [`ArenaMemoryResource`] should be.
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it is built"]
pub struct ArenaMemoryResourceBuilder<U: SyncResource> {
    upstream: U,
    arena_size: Option<usize>,
    dumps: bool,
    dump_log: PathBuf,
}

impl<U: SyncResource> ArenaMemoryResourceBuilder<U> {
    pub(super) fn new(upstream: U) -> Self {
        Self { upstream, arena_size: None, dumps: false, dump_log: DUMP_LOG.into() }
    }

    /// Bytes to take from upstream, at least 1 MiB, rounded down to a multiple of 256; half of the
    /// device's free memory by default.
    pub fn arena_size(mut self, bytes: usize) -> Self {
        self.arena_size = Some(bytes);
        self
    }

    /// Whether a request that is refused for lack of memory leaves a
    /// [report](ArenaMemoryResource::report) in a file; not by default.
    pub fn dump_log_on_failure(mut self, dumps: bool) -> Self {
        self.dumps = dumps;
        self
    }

    /// The file that reports are appended to; `rmm_arena_memory_dump.log` in the current directory
    /// by default. One that cannot be written to gets none: the request is refused as without it.
    pub fn dump_log_path(mut self, path: impl Into<PathBuf>) -> Self {
        self.dump_log = path.into();
        self
    }

    /// Makes the resource and takes its memory from upstream, for the device that is current now.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](rmm_core::ErrorKind::InvalidArgument) if the size is below 1
    /// MiB; the upstream's error if the memory cannot be had; the driver's if it does not tell how
    /// much memory is free.
    pub fn build(self) -> Result<ArenaMemoryResource<U>, Error> {
        let Self { upstream, arena_size, dumps, dump_log } = self;
        let bytes = match arena_size {
            Some(bytes) => bytes - bytes % CUDA_ALLOCATION_ALIGNMENT,
            None => Device::percent_of_free_memory(50)?,
        };
        if (bytes as u64) < SUPERBLOCK {
            let message = format!("{bytes} bytes are less than a superblock's {SUPERBLOCK}");
            return Err(Error::invalid_argument(NAME, message));
        }
        let pool = PoolMemoryResource::builder(upstream)
            .initial_size(bytes)
            .maximum_size(bytes)
            .growth(GrowthPolicy::Exact)
            .build_of(NAME, None, CachePolicy::Off)?;
        Ok(ArenaMemoryResource::open(pool, dumps.then_some(dump_log)))
    }
}
