//! Options for a pool.

use std::alloc::Layout;
use std::collections::BTreeSet;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rmm_core::accessible_from::check_access;
use rmm_core::siblings::Siblings;
use rmm_core::{
    AnyResource, CUDA_ALLOCATION_ALIGNMENT, Context, Device, DeviceAccessible, Error, Introspect,
    MemoryKind, PropertySet, RelaxedCapture, StreamId, SynchronousResource, fork,
};
use rmm_resources::Budget;

use super::pool::PoolMemoryResource;
use crate::TrackingFinding;
use crate::shared::with_properties::Exactly;
use crate::suballocators::pool::caches::{CachePolicy, LEAST_SCALE, MOST_SCALE};
use crate::suballocators::pool::state::checks::{Report, checks};
use crate::suballocators::pool::state::core::{PoolCore, Settings, UpstreamCode};
use crate::suballocators::pool::steps::extents::granularity;
use crate::suballocators::pool::values::growth::Growth;
use crate::suballocators::pool::values::idle_time::{Clock, IdleTime, ManualClock};
use crate::suballocators::pool::values::limits::{check_sizes, usable_maximum};
use crate::suballocators::pool::values::policy::{
    GrowthPolicy, PoolPreset, ReleasePolicy, SpanPolicy,
};
use crate::suballocators::pool::values::segment_options::SegmentOptions;
use crate::sync::fence::Fences;

/// What a new [`PoolMemoryResource`] should be. Sizes are in bytes and multiples of 256.
///
/// A pool asks an upstream that allocates whole pages, as virtual memory does with 2 MiB, for whole
/// pages: the initial size and steps are rounded up to them, within the maximum size, which is
/// rounded down.
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it is built"]
#[expect(clippy::struct_excessive_bools, reason = "each is an option, off by default or not")]
pub struct PoolMemoryResourceBuilder<S: PropertySet = DeviceAccessible> {
    /// # Invariant
    /// Its memory has every property in `S`.
    upstream: AnyResource<()>,
    set: Exactly<S>,
    name: &'static str,
    initial_size: u64,
    maximum_size: Option<Budget>,
    soft_maximum_size: Option<u64>,
    growth: GrowthPolicy,
    /// Whether frees are checked, and whether callers are captured and what is found is reported.
    check_frees: bool,
    on_wrong_free: Option<Report>,
    symmetric_fences: bool,
    streams_outlive: bool,
    clears: bool,
    for_graphs: bool,
    preset: PoolPreset,
    spans: SpanPolicy,
    release: ReleasePolicy,
    release_after: Option<Duration>,
    clock: Option<ManualClock>,
    pub(super) segments: SegmentOptions,
}

impl<S: PropertySet> PoolMemoryResourceBuilder<S> {
    pub(crate) fn new(upstream: AnyResource<S>) -> Self {
        Self {
            upstream: upstream.narrow(),
            set: PhantomData,
            name: "pool",
            initial_size: 0,
            maximum_size: None,
            soft_maximum_size: None,
            growth: GrowthPolicy::default(),
            check_frees: cfg!(debug_assertions),
            on_wrong_free: None,
            symmetric_fences: false,
            streams_outlive: false,
            clears: false,
            for_graphs: false,
            preset: PoolPreset::default(),
            spans: SpanPolicy::default(),
            release: ReleasePolicy::default(),
            release_after: None,
            clock: None,
            segments: SegmentOptions::default(),
        }
    }

    /// What errors, [remedies](rmm_core::Remedy), descriptions and logs call the pool; `pool` by
    /// default. Pools may share a name. Each different one stays in host memory to the end of the
    /// process.
    ///
    /// ```
    /// use std::alloc::Layout;
    /// use rmm_adaptors::PoolMemoryResource;
    /// use rmm_core::SynchronousResource;
    /// use rmm_resources::CudaMemoryResource;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let _machine = rmm_sim::enter();
    /// let pool = PoolMemoryResource::builder(CudaMemoryResource::new()).name("kv-cache");
    /// let pool = pool.maximum_size(4 << 20).build()?;
    /// let layout = Layout::from_size_align(6 << 20, 256)?;
    /// let error = pool.allocate_sync(layout).unwrap_err();
    /// assert_eq!(error.remedies()[0].to_string(), "raise the limit of kv-cache by 2.0 MiB");
    /// # Ok(())
    /// # }
    /// ```
    pub fn name(mut self, name: impl AsRef<str>) -> Self {
        self.name = kept(name.as_ref());
        self
    }

    /// Bytes to allocate from upstream when the pool is built; 0 by default.
    #[doc(alias = "initial_pool_size")]
    pub fn initial_size(mut self, bytes: u64) -> Self {
        self.initial_size = bytes;
        self
    }

    /// Hard limit on the bytes allocated from upstream; none by default. A number of bytes, or a
    /// [`Budget`] in relation to the memory that there is when the pool is built. Rounded down to
    /// whole pages of upstream, as [`PoolMemoryResource::maximum_size`] then says. It can be
    /// [changed](PoolMemoryResource::set_maximum_size) later.
    ///
    /// ```
    /// use rmm_adaptors::PoolMemoryResource;
    /// use rmm_resources::{Budget, CudaMemoryResource};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let _machine = rmm_sim::Machine::builder().memory(1 << 30).enter();
    /// let pool = PoolMemoryResource::builder(CudaMemoryResource::new());
    /// let pool = pool.maximum_size(64 << 20).build()?;
    /// assert_eq!(pool.maximum_size(), Some(64 << 20));
    /// let half = PoolMemoryResource::builder(CudaMemoryResource::new());
    /// let half = half.maximum_size(Budget::free_fraction(0.5)).build()?;
    /// assert_eq!(half.maximum_size(), Some(512 << 20));
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "maximum_pool_size")]
    #[doc(alias = "budget")]
    pub fn maximum_size(mut self, limit: impl Into<Budget>) -> Self {
        self.maximum_size = Some(limit.into());
        self
    }

    /// Soft limit: up to here the pool grows rather than make a stream wait for another.
    /// [`maximum_size`](Self::maximum_size) by default, or 0 with the
    /// [compact](PoolPreset::Compact) preset. A lower value means a smaller pool and more waits.
    pub fn soft_maximum_size(mut self, bytes: u64) -> Self {
        self.soft_maximum_size = Some(bytes);
        self
    }

    /// How the pool grows; [`Geometric`](GrowthPolicy::Geometric) by default. Steps are multiples
    /// of 256 bytes.
    pub fn growth(mut self, policy: GrowthPolicy) -> Self {
        self.growth = policy;
        self
    }

    /// Whether the pool keeps a table of what it has handed out, to check each free; in builds with
    /// debug assertions by default. A free of an address that is not allocated from this pool (a
    /// second free, a free inside a block or of another pool's block) changes nothing and is
    /// counted in [`unknown_frees`](crate::PoolStatistics::unknown_frees); one with another size or
    /// alignment frees the block with those of its allocation, and is counted in
    /// [`wrong_frees`](crate::PoolStatistics::wrong_frees). Without it all of these are undefined.
    pub fn check_frees(mut self, check: bool) -> Self {
        self.check_frees = check;
        self
    }

    /// [Checks frees](Self::check_frees), captures the caller of each allocation, which takes
    /// microseconds, and calls `report` with each wrong free: with the address, the sizes, and
    /// where the block was allocated and is freed. It is called on the thread that frees, with no
    /// lock held; a panic is caught.
    ///
    /// ```
    /// use std::alloc::Layout;
    /// use std::sync::mpsc::channel;
    /// use rmm_adaptors::PoolMemoryResource;
    /// use rmm_core::SynchronousResource;
    /// use rmm_resources::CudaMemoryResource;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let _machine = rmm_sim::enter();
    /// let (sender, found) = channel();
    /// let builder = PoolMemoryResource::builder(CudaMemoryResource::new());
    /// let pool = builder.on_wrong_free(move |what| drop(sender.send(what.to_string()))).build()?;
    /// let block = pool.allocate_sync(Layout::from_size_align(1000, 256)?)?;
    /// // SAFETY: the check frees it with its own size.
    /// unsafe { pool.deallocate_sync(block, Layout::from_size_align(2000, 256)?) };
    /// assert!(found.recv()?.starts_with("Alloc bytes (1000) and Dealloc bytes (2000) do not match"));
    /// assert_eq!(pool.statistics().wrong_frees, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn on_wrong_free(
        mut self,
        report: impl Fn(&TrackingFinding<'_>) + Send + Sync + 'static,
    ) -> Self {
        self.on_wrong_free = Some(Report::new(report));
        self
    }

    /// Whether each block is filled with zeros before the caller gets it; not by default. So no
    /// tenant of a shared pool reads what another has left, whatever stream, thread or tag it uses,
    /// and no leak of memory is a leak of data. Bytes beyond the requested ones are not cleared.
    ///
    /// The price is `cuMemsetD8Async` in the stream's order for each allocation: about a
    /// microsecond of the calling thread, and the time in which the device writes the block (some
    /// terabytes a second). Allocating without a stream also makes a stream and waits for the fill.
    /// Blocks are cleared for the same tenant too; give tenants that trust themselves
    /// pools of their own. The memory has to be accessible to the device.
    ///
    /// ```
    /// use std::alloc::Layout;
    /// use rmm_adaptors::PoolMemoryResource;
    /// use rmm_core::{CudaStream, Resource, copy};
    /// use rmm_resources::CudaMemoryResource;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let _machine = rmm_sim::enter();
    /// let builder = PoolMemoryResource::builder(CudaMemoryResource::new());
    /// let pool = builder.clear_blocks(true).build()?;
    /// let (stream, layout) = (CudaStream::new()?, Layout::from_size_align(4096, 256)?);
    /// let secret = pool.allocate(&stream, layout)?;
    /// // SAFETY: the block is as long, and its only stream is this one.
    /// unsafe { copy::fill(secret, 7, 4096, &stream) }?;
    /// // SAFETY: allocated above with this layout; its only stream is the one it is freed on.
    /// unsafe { pool.deallocate(&stream, secret, layout) };
    ///
    /// let block = pool.allocate(&stream, layout)?;
    /// assert_eq!(block, secret);
    /// let mut bytes = [1_u8; 4096];
    /// // SAFETY: both are as long, and `bytes` outlives the synchronization below.
    /// unsafe { copy::device_to_host(bytes.as_mut_ptr().cast(), block, 4096, &stream) }?;
    /// stream.synchronize()?;
    /// assert_eq!(bytes, [0; 4096]);
    /// # // SAFETY: as above.
    /// # unsafe { pool.deallocate(&stream, block, layout) };
    /// # Ok(())
    /// # }
    /// ```
    pub fn clear_blocks(mut self, clear: bool) -> Self {
        self.clears = clear;
        self
    }

    /// Whether the pool's memory is that of CUDA graphs, which use it at each launch; not by
    /// default. Such a pool serves streams under capture as any others: what a stream has freed
    /// serves that stream again, during the capture and after it, and never another stream, and
    /// the pool grows during a capture. It has no thread caches and does not [check
    /// frees](Self::check_frees). Memory that was used stays in it until
    /// [`release_graph_memory`](PoolMemoryResource::release_graph_memory): no trim, no sibling and
    /// no wait gets it; without that call, not even the pool's end.
    ///
    /// Graphs that share a pool share memory: the program orders their launches one after another.
    /// Checkers see races in such a pool, not uses after a free.
    ///
    /// ```
    /// use std::alloc::Layout;
    /// use rmm_adaptors::PoolMemoryResource;
    /// use rmm_core::{CaptureScope, CudaStream, Resource};
    /// use rmm_resources::CudaMemoryResource;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let _machine = rmm_sim::enter();
    /// let builder = PoolMemoryResource::builder(CudaMemoryResource::new());
    /// let pool = builder.for_graphs(true).build()?;
    /// let (stream, layout) = (CudaStream::new()?, Layout::from_size_align(1 << 20, 256)?);
    /// let scope = CaptureScope::announce();
    /// // ... begin the capture of `stream` ...
    /// let scratch = pool.allocate(&stream, layout)?; // the pool grows
    /// // SAFETY: allocated above with this layout; its only stream is the one it is freed on.
    /// unsafe { pool.deallocate(&stream, scratch, layout) };
    /// assert_eq!(pool.allocate(&stream, layout)?, scratch);
    /// // ... end the capture ...
    /// drop(scope);
    /// # // SAFETY: no graph was made.
    /// # unsafe { pool.deallocate(&stream, scratch, layout); pool.release_graph_memory() };
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "MemPool")]
    #[doc(alias = "beginAllocateToPool")]
    pub fn for_graphs(mut self, for_graphs: bool) -> Self {
        self.for_graphs = for_graphs;
        self
    }

    /// Whether each use of a thread cache runs a full memory fence, some nanoseconds; not by
    /// default.
    ///
    /// By default it runs none where the operating system can run one on behalf of all threads when
    /// it matters (on Linux, by the system call `membarrier`). A program that forbids itself this
    /// call after it has built a pool, as a sandbox by `seccomp` may, has to set this, or the
    /// environment variable `RMM_FENCES=symmetric` for all pools and adaptors of the process.
    /// Otherwise the process is aborted, with a message that says so, when a thread first has to
    /// flush another's cache: nothing can replace the fences that were not run.
    ///
    /// ```
    /// use rmm_adaptors::PoolMemoryResource;
    /// use rmm_resources::CudaMemoryResource;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let _machine = rmm_sim::enter();
    /// let builder = PoolMemoryResource::builder(CudaMemoryResource::new());
    /// let pool = builder.symmetric_fences(true).build()?;
    /// // From here on the program may forbid itself `membarrier`.
    /// # drop(pool);
    /// # Ok(())
    /// # }
    /// ```
    pub fn symmetric_fences(mut self, symmetric: bool) -> Self {
        self.symmetric_fences = symmetric;
        self
    }

    /// Promises that every stream which the pool is used with outlives the pool, also those
    /// [adopted](rmm_core::CudaStream::adopt) with an [unknown
    /// lifetime](rmm_core::StreamLifetime::Unknown).
    ///
    /// Then the pool does not ask the driver, at each call with such a stream, which stream the
    /// handle names now: two driver calls less for each allocation and free. The streams of most
    /// frameworks (`PyTorch`, RMM's own stream pools) are never destroyed; those of `CuPy` and
    /// Numba are, with their objects.
    ///
    /// ```
    /// use rmm_adaptors::PoolMemoryResource;
    /// use rmm_core::{CudaStream, Resource, StreamLifetime};
    /// use rmm_resources::CudaMemoryResource;
    /// # use std::alloc::Layout;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let _machine = rmm_sim::enter();
    /// let theirs = CudaStream::new()?; // in its place: a stream of another library
    /// let builder = PoolMemoryResource::builder(CudaMemoryResource::new());
    /// // SAFETY: `theirs` is declared before the pool, so it is destroyed after it.
    /// let pool = unsafe { builder.streams_outlive_pool() }.build()?;
    /// // SAFETY: the stream exists during the calls below.
    /// let ours = unsafe { CudaStream::adopt(theirs.as_raw(), StreamLifetime::Unknown) }?;
    /// let layout = Layout::from_size_align(1000, 256)?;
    /// let block = pool.allocate(&ours, layout)?;
    /// // SAFETY: allocated above with this layout; its only stream is the one it is freed on.
    /// unsafe { pool.deallocate(&ours, block, layout) };
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Safety
    /// Each stream that an allocation or a free of the pool is called with exists until the last
    /// handle of the pool is dropped.
    pub unsafe fn streams_outlive_pool(mut self) -> Self {
        self.streams_outlive = true;
        self
    }

    /// What the pool puts first; [`Throughput`](PoolPreset::Throughput) by default.
    ///
    /// ```
    /// use rmm_adaptors::{PoolMemoryResource, PoolPreset};
    /// use rmm_core::SynchronousResource;
    /// use rmm_resources::VirtualMemoryResource;
    /// # use std::alloc::Layout;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let _machine = rmm_sim::enter();
    /// let upstream = VirtualMemoryResource::new()?;
    /// let pool = PoolMemoryResource::builder(upstream).preset(PoolPreset::Compact).build()?;
    /// let layout = Layout::from_size_align(10 << 20, 256)?;
    /// let blocks = [pool.allocate_sync(layout)?, pool.allocate_sync(layout)?];
    /// assert_eq!(pool.reserved_bytes(), 20 << 20);
    /// // SAFETY: allocated above with this layout, and not used.
    /// blocks.map(|block| unsafe { pool.deallocate_sync(block, layout) });
    /// // The two are contiguous: only the missing pages are mapped.
    /// let large = Layout::from_size_align(30 << 20, 256)?;
    /// let block = pool.allocate_sync(large)?;
    /// assert_eq!(pool.reserved_bytes(), 30 << 20);
    /// # // SAFETY: as above.
    /// # unsafe { pool.deallocate_sync(block, large) };
    /// # Ok(())
    /// # }
    /// ```
    pub fn preset(mut self, preset: PoolPreset) -> Self {
        self.preset = preset;
        self
    }

    /// Which threads get memory for large blocks of their own: by default those that
    /// [wait for each other](SpanPolicy::Contended).
    pub fn spans(mut self, policy: SpanPolicy) -> Self {
        self.spans = policy;
        self
    }

    /// When the pool releases memory by itself; [never](ReleasePolicy::Never) by default.
    #[doc(alias = "cudaMemPoolAttrReleaseThreshold")]
    pub fn release(mut self, policy: ReleasePolicy) -> Self {
        self.release = policy;
        self
    }

    /// How long memory has to be unused until the pool releases it by itself; for ever by default.
    /// After each such span of time the pool keeps as much as was in use at once during it, beside
    /// what the [policy](Self::release) keeps, so memory is released after one to two spans.
    ///
    /// As with a [`ReleasePolicy`], the pool does so in frees and in
    /// [`release_unused`](PoolMemoryResource::release_unused): it has no thread of its own, and in
    /// a program that makes no call nothing is released. It reads the clock once in 64 frees that
    /// miss the thread caches, or 2 MiB of them. [`ManualClock`] has an example.
    #[doc(alias = "decay")]
    pub fn release_after(mut self, unused: Duration) -> Self {
        self.release_after = Some(unused);
        self
    }

    /// The clock for [`release_after`](Self::release_after); the system's monotonic clock by
    /// default.
    pub fn clock(mut self, clock: ManualClock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Builds the pool, for the current device.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](rmm_core::ErrorKind::InvalidArgument) if a size is no
    /// multiple of 256, the initial size is above the maximum, the maximum is less than a page of
    /// upstream, the segment size is no power of two or less than a page, or the current device may
    /// not use upstream's memory, which is another's; the upstream's error if it cannot allocate
    /// the initial size.
    pub fn build(self) -> Result<PoolMemoryResource<S>, Error> {
        let name = self.name;
        let pool = self.build_of(name, None, CachePolicy::SizeClasses)?;
        pool.announce();
        Ok(pool)
    }

    /// Builds a pool of this name that others do not know yet, in which all blocks are of `block`
    /// bytes if that is set.
    pub(crate) fn build_of(
        self,
        name: &'static str,
        block: Option<u64>,
        cached: CachePolicy,
    ) -> Result<PoolMemoryResource<S>, Error> {
        let Self {
            upstream,
            set: _,
            name: _,
            initial_size,
            maximum_size,
            soft_maximum_size,
            growth,
            preset,
            spans,
            release,
            release_after,
            clock,
            check_frees,
            on_wrong_free,
            symmetric_fences,
            streams_outlive,
            clears,
            for_graphs,
            segments,
        } = self;
        let limit = maximum_size.map(Budget::resolve).transpose()?;
        check_sizes(name, initial_size, limit, soft_maximum_size, growth)?;
        let page = granularity(&upstream);
        let page = segments.granularity(name, page)?;
        if let Some(maximum) = limit {
            usable_maximum(name, maximum, block, page)?;
        }
        let hard = limit.map_or(u64::MAX, |maximum| maximum / page * page);
        let unset = if preset == PoolPreset::Compact { 0 } else { u64::MAX };
        let soft = soft_maximum_size.unwrap_or(unset);
        let context = Context::current()?;
        check_access(name, &upstream, Device::current()?)?;
        let contexts_below = contexts_of(&upstream, context);
        let is_extendable = upstream.as_extendable().is_some();
        let mut growth = Growth {
            initial_size: 0,
            soft_limit: soft,
            policy: segments.growth(growth),
            preset,
            spans,
            release,
            block,
            page,
            extends: is_extendable && block.is_none() && !segments.single_handle,
            segment: segments.size,
            is_pinned: segments.pinned,
        };
        let pages = growth.whole_pages(initial_size);
        growth.initial_size = if limit.is_some() { pages.min(growth.room(0, hard)) } else { pages };
        let initial_size = growth.initial_size;
        let returns = release != ReleasePolicy::Never || release_after.is_some();
        let cached = cached_with(preset, cached, is_extendable, returns);
        let cached = if for_graphs { CachePolicy::Off } else { cached };
        let fences = if symmetric_fences { Fences::SYMMETRIC } else { Fences::of_process() };
        let checks = checks(check_frees && !for_graphs, on_wrong_free);
        let siblings = Siblings::join(Device::current()?, upstream.try_property::<MemoryKind>())?;
        let of_handles = if streams_outlive { 0 } else { StreamId::OF_HANDLE };
        let of_defaults = if Device::count()? > 1 { StreamId::OF_DEFAULT } else { 0 };
        let settings = Settings {
            name,
            growth,
            hard_limit: hard,
            cached,
            fences,
            checks,
            streams_outlive,
            unclear_ids: of_handles | of_defaults,
            clears,
            for_graphs,
            context,
            contexts_below,
            siblings,
            upstream_code: UpstreamCode::of(&upstream),
        };
        let core = Arc::new_cyclic(|this| PoolCore::new(settings, this.clone()));
        {
            let mut state = core.lock();
            let system = || Clock::System(Instant::now());
            let clock = clock.map_or_else(system, Clock::Manual);
            state.idle_time = release_after.map(|unused| IdleTime::new(unused, clock));
            state.timeline.polls = preset != PoolPreset::Deterministic;
            state.heap.keeps_pieces = segments.pinned;
            if preset == PoolPreset::Compact {
                state.heap.look_closer();
            }
        }
        if initial_size > 0 {
            let too_large = || Error::invalid_argument(name, "the initial size is too large");
            let bytes =
                usize::try_from(initial_size).map_err(|error| too_large().with_source(error))?;
            let layout = Layout::from_size_align(bytes, CUDA_ALLOCATION_ALIGNMENT)
                .map_err(|error| too_large().with_source(error))?;
            let _relaxed = RelaxedCapture::enter();
            let extent = core.allocate_extent(&upstream, layout)?;
            core.add_segments(extent.ranges())?;
            core.add_extent(&mut core.lock(), &upstream, &extent);
        }
        Ok(PoolMemoryResource::open(core, upstream))
    }
}

/// The name, kept for the rest of the process, once for all pools that have it.
fn kept(name: &str) -> &'static str {
    static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut names = fork::lock(&NAMES);
    if let Some(known) = names.get(name) {
        return known;
    }
    let name: &'static str = Box::leak(name.into());
    names.insert(name);
    name
}

/// The contexts of the resources in a stack, apart from `own`.
fn contexts_of(upstream: &AnyResource<()>, own: Context) -> Box<[Context]> {
    fn note(resource: &(dyn SynchronousResource + 'static), contexts: &mut Vec<Context>) {
        if let Some(context) = resource.try_value::<Context>()
            && !contexts.contains(&context)
        {
            contexts.push(context);
        }
        for next in resource.upstream_resource().into_iter().chain(resource.other_upstreams()) {
            note(next, contexts);
        }
    }
    let mut contexts = Vec::new();
    note(upstream, &mut contexts);
    contexts.retain(|&context| context != own);
    contexts.into_boxed_slice()
}

/// What a pool caches, with a preset and over memory that can be extended or not. Cached blocks
/// keep their pages: a pool that `returns` memory by itself has few of them.
fn cached_with(
    preset: PoolPreset,
    cached: CachePolicy,
    is_extendable: bool,
    returns: bool,
) -> CachePolicy {
    match (preset, cached) {
        (PoolPreset::Compact | PoolPreset::Deterministic, _) => CachePolicy::Off,
        (PoolPreset::Throughput, CachePolicy::SizeClasses) if is_extendable => {
            CachePolicy::SizeClassesByDemand {
                most: if returns { LEAST_SCALE } else { MOST_SCALE },
            }
        }
        (PoolPreset::Throughput | PoolPreset::LowLatency, cached) => cached,
    }
}
