//! Options for an arena.

use std::path::PathBuf;

use rmm_core::{
    AnyResource, CUDA_ALLOCATION_ALIGNMENT, Device, DeviceAccessible, Error, PropertySet,
};

use super::ArenaMemoryResource;
use crate::PoolMemoryResourceBuilder;

/// The resource's name.
const NAME: &str = "arena";
/// The minimum size of an arena, as in RMM.
const MINIMUM_SIZE: u64 = 1 << 20;
/// The default path of the dump log.
const DUMP_LOG: &str = "rmm_arena_memory_dump.log";

/// Options for an [`ArenaMemoryResource`].
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it is built"]
pub struct ArenaMemoryResourceBuilder<S: PropertySet = DeviceAccessible> {
    pool: PoolMemoryResourceBuilder<S>,
    arena_size: Option<u64>,
    maximum_size: Option<u64>,
    dumps: bool,
    dump_log: PathBuf,
}

impl<S: PropertySet> ArenaMemoryResourceBuilder<S> {
    pub(super) fn new(upstream: AnyResource<S>) -> Self {
        Self {
            pool: PoolMemoryResourceBuilder::new(upstream),
            arena_size: None,
            maximum_size: None,
            dumps: false,
            dump_log: DUMP_LOG.into(),
        }
    }

    /// Bytes to allocate from upstream, at least 1 MiB, rounded down to a multiple of 256, or to
    /// whole pages of upstream; half of the device's free memory by default.
    pub fn arena_size(mut self, bytes: u64) -> Self {
        self.arena_size = Some(bytes);
        self
    }

    /// The most bytes to allocate from upstream, at least the arena's size, rounded down to a
    /// multiple of 256, or to whole pages of upstream; the arena's size by default. Up to here the
    /// arena grows when it is exhausted, by blocks that are not contiguous with the first unless
    /// the upstream can [extend](rmm_core::ExtendableResource) it.
    ///
    /// ```
    /// use std::alloc::Layout;
    /// use rmm_adaptors::ArenaMemoryResource;
    /// use rmm_core::SynchronousResource;
    /// use rmm_resources::CudaMemoryResource;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let _machine = rmm_sim::enter();
    /// let builder = ArenaMemoryResource::builder(CudaMemoryResource::new()).arena_size(4 << 20);
    /// let arena = builder.maximum_size(16 << 20).build()?;
    /// let layout = Layout::from_size_align(8 << 20, 256)?;
    /// let block = arena.allocate_sync(layout)?;
    /// assert_eq!(arena.arena_size(), 12 << 20);
    /// # // SAFETY: allocated above with this layout, and not used.
    /// # unsafe { arena.deallocate_sync(block, layout) };
    /// # Ok(())
    /// # }
    /// ```
    pub fn maximum_size(mut self, bytes: u64) -> Self {
        self.maximum_size = Some(bytes);
        self
    }

    /// Whether each free is checked, as
    /// [`PoolMemoryResourceBuilder::check_frees`](crate::PoolMemoryResourceBuilder::check_frees)
    /// says; in builds with debug assertions by default.
    pub fn check_frees(mut self, check: bool) -> Self {
        self.pool = self.pool.check_frees(check);
        self
    }

    /// Whether to write a [report](ArenaMemoryResource::report) to a file when an allocation fails
    /// for lack of memory; off by default.
    pub fn dump_log_on_failure(mut self, dumps: bool) -> Self {
        self.dumps = dumps;
        self
    }

    /// The file that reports are appended to; `rmm_arena_memory_dump.log` in the current directory
    /// by default. If it cannot be written, no report is left, and the error of the allocation is
    /// the same.
    pub fn dump_log_path(mut self, path: impl Into<PathBuf>) -> Self {
        self.dump_log = path.into();
        self
    }

    /// Builds the resource and allocates its memory from upstream, for the current device.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](rmm_core::ErrorKind::InvalidArgument) if the size is below 1
    /// MiB or a page of upstream, or above the maximum size; the upstream's error if it cannot
    /// allocate the memory; the driver's if it cannot report how much memory is free.
    pub fn build(self) -> Result<ArenaMemoryResource<S>, Error> {
        let Self { pool, arena_size, maximum_size, dumps, dump_log } = self;
        let whole = |bytes: u64| bytes - bytes % CUDA_ALLOCATION_ALIGNMENT as u64;
        let bytes = match arena_size {
            Some(bytes) => whole(bytes),
            None => Device::percent_of_free_memory(50)?,
        };
        if bytes < MINIMUM_SIZE {
            let message =
                format!("{bytes} bytes are below the minimum size of an arena, {MINIMUM_SIZE}");
            return Err(Error::invalid_argument(NAME, message));
        }
        let pool = pool
            .name(NAME)
            .initial_size(bytes)
            .maximum_size(maximum_size.map_or(bytes, whole))
            .build()?;
        pool.merge_first();
        Ok(ArenaMemoryResource { pool, dump_log: dumps.then(|| dump_log.into()) })
    }
}
