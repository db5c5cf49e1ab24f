//! A stream-ordered pool.

use std::alloc::Layout;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use rmm_core::{
    AnyResource, Context, DeviceAccessible, DevicePtr, Error, LimitId, PendingBytes, PropertySet,
    StreamRef, TrimmableResource,
};
use rmm_resources::DefaultDeviceMemory;

use crate::shared::with_properties::Exactly;
use crate::suballocators::pool::state::core::PoolCore;
use crate::suballocators::pool::state::pressure_callbacks::{Pressure, PressureCallback};
use crate::suballocators::pool::state::segments::{Segment, SegmentEvent, SegmentGuard};
use crate::suballocators::pool::values::limits::usable_maximum;
use crate::suballocators::pool::values::statistics::{PoolBlock, PoolStatistics};

/// A stream-ordered pool: suballocates large upstream blocks without calling the driver.
///
/// A block freed on a stream can be reused on that stream immediately. It can be reused on another
/// stream once its last use is known to be complete, or once that stream is ordered after it.
///
/// An allocation tries, in order:
///
/// - a free block: of the stream's own free list, an idle one, or one that another stream freed
///   and whose last use the stream is already ordered after
/// - asking the driver which events of other streams are complete
/// - coalescing free neighbours of several streams
/// - growth, up to the [soft limit](crate::PoolMemoryResourceBuilder::soft_maximum_size)
/// - making the stream wait for others (`cuStreamWaitEvent`, never the host)
/// - growth, up to the [hard limit](crate::PoolMemoryResourceBuilder::maximum_size)
/// - idle memory of other suballocators of the device, after its own
/// - waiting on the host for the device
/// - releasing idle upstream blocks, and growth
/// - waiting for memory of other suballocators
/// - [callbacks](PoolMemoryResource::on_pressure) of the program
/// - an error that says what ran short, and [what would help](rmm_core::Error::remedies)
///
/// If the upstream supports [in-place growth](rmm_core::ExtendableResource) (virtual memory, for
/// one), the pool stays one contiguous range: it maps only the missing pages next to a free block,
/// and unmaps free pages from the middle. [`PoolPreset`](crate::PoolPreset) says what the pool
/// puts first.
///
/// **Handles and threads.** Clones share one pool. Any thread may use it. When the last clone is
/// dropped the pool waits for the device and releases its memory to upstream, except for upstream
/// blocks that hold a block which was never freed, or whose last use cannot be waited for. It
/// serves the device that was current when it was built: a stream of another device is refused, and
/// a free on one waits for that stream. The handle of a default stream means that of the current
/// device. If that is not the pool's, an allocation gets memory that no work uses, and a free waits
/// on the host for the current device. Which device that is, the pool asks the driver at each call
/// with a default stream if the process sees several; a program that makes several contexts of one
/// device calls a pool with a default stream only while the pool's context is current.
///
/// **Streams.** No call with a stream of this library, a default stream, or a stream of another
/// library whose end is [known](rmm_core::StreamLifetime::UntilDropped) makes a driver call as long
/// as caches and free lists serve it. For a stream of [unknown
/// lifetime](rmm_core::StreamLifetime::Unknown) each call asks the driver which stream its handle
/// names (unless [they outlive the pool](crate::PoolMemoryResourceBuilder::streams_outlive_pool)).
/// Memory freed on a thread's default stream, or on a stream that is gone, is reached by an event
/// behind all work of the context. Memory freed on the legacy default stream is reused there after
/// an event on it, which serves many blocks.
///
/// **Sizes.** Requests are rounded up to 256 bytes, and from 8 KiB to 1 MiB to 16 size classes per
/// power of two (less than a sixteenth more) unless memory is too scarce for that. Any alignment is
/// honoured.
///
/// **Contents.** Freed memory is not cleared: who allocates it next can read what was left there,
/// as in every pool in front of `cudaMalloc`. A pool that tenants share can [clear each
/// block](crate::PoolMemoryResourceBuilder::clear_blocks) before it hands it out.
///
/// **Thread caches.** Each thread caches freed blocks of up to 1 MiB per stream, so most calls take
/// no lock. All caches are flushed before the pool waits, or grows beyond what it retains. A
/// program that forbids itself system calls after its start has to [say
/// so](crate::PoolMemoryResourceBuilder::symmetric_fences) before.
///
/// **CUDA graphs.** On a stream under capture (announce it with a
/// [`CaptureScope`](rmm_core::CaptureScope)), the pool allocates only from memory it already holds
/// and that no work uses, and otherwise returns [an error](rmm_core::ErrorKind::Unsupported).
/// Memory freed during a capture stays reserved for the graph; see
/// [`release_graph_memory`](Self::release_graph_memory). An unannounced capture is detected only
/// when the pool misses its free lists, so the graph may alias other allocations. The pool never
/// invalidates a capture, with one exception: a wait for the device, or an event of its context, if
/// the stream under capture is non-blocking and either new to the pool or of an [unknown
/// lifetime](rmm_core::StreamLifetime::Unknown), and the capture was not announced.
///
/// **Cost.** Allocation and free are O(1) in the number of blocks; growth and waiting are linear.
/// Metadata lives on the host: about 70 bytes per block and 49 KiB per (thread, stream) cache.
/// After warm-up no host memory is allocated but for [spans](crate::SpanPolicy), 3 KiB for each.
/// Free memory is kept until [`trim`](Self::trim), until growth needs the room, or as
/// [`ReleasePolicy`](crate::ReleasePolicy) says.
///
/// `S` says what the memory can do, and is that of a device unless it is named: a pool over pinned
/// memory is a `PoolMemoryResource<HostDeviceAccessible>`, made by
/// [`builder_with_properties`](Self::builder_with_properties).
/// [`find`](rmm_core::Introspect::find) finds a pool by its own set, and by each of
/// `DeviceAccessible`, `HostAccessible`, `HostDeviceAccessible` and `()` that its memory has.
///
/// ```
/// use std::alloc::Layout;
/// use rmm_adaptors::PoolMemoryResource;
/// use rmm_core::{CudaStream, Resource};
/// use rmm_resources::CudaMemoryResource;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let _machine = rmm_sim::enter();
/// let pool = PoolMemoryResource::builder(CudaMemoryResource::new()).initial_size(1 << 20).build()?;
/// let stream = CudaStream::new()?;
/// let layout = Layout::from_size_align(1000, 256)?;
/// let first = pool.allocate(&stream, layout)?;
/// // SAFETY: allocated above with this layout; its only stream is the one it is freed on.
/// unsafe { pool.deallocate(&stream, first, layout) };
/// let second = pool.allocate(&stream, layout)?;
/// assert_eq!(first, second); // immediately: stream order separates the two uses
/// # // SAFETY: as above.
/// # unsafe { pool.deallocate(&stream, second, layout) };
/// assert_eq!(pool.statistics().upstream_allocations, 1);
/// # Ok(())
/// # }
/// ```
#[doc(alias = "rmm::mr::pool_memory_resource")]
#[repr(transparent)]
pub struct PoolMemoryResource<S: PropertySet = DeviceAccessible> {
    /// # Invariant
    /// The upstream's memory has every property in `S`.
    pub(crate) inner: Arc<Inner>,
    pub(super) set: Exactly<S>,
}

pub(crate) struct Inner {
    pub(crate) core: Arc<PoolCore>,
    pub(super) upstream: AnyResource<()>,
}

impl Inner {
    /// Allocates a block that is not empty.
    #[inline]
    pub(super) fn allocate(
        &self,
        stream: Option<StreamRef<'_>>,
        layout: Layout,
    ) -> Result<DevicePtr, Error> {
        let pointer = self.core.allocate(&self.upstream, stream, layout)?;
        if self.core.finishes { self.core.finish(stream, pointer, layout) } else { Ok(pointer) }
    }
}

impl<S: PropertySet> PoolMemoryResource<S> {
    /// The upstream's memory has every property in `S`.
    pub(super) fn open(core: Arc<PoolCore>, upstream: AnyResource<()>) -> Self {
        Self { inner: Arc::new(Inner { core, upstream }), set: PhantomData }
    }

    /// From now on other suballocators of the device may ask the pool for idle memory.
    pub(crate) fn announce(&self) {
        let pool: Arc<dyn TrimmableResource> = Arc::clone(&self.inner) as _;
        let upstream: &AnyResource<()> = &self.inner.upstream;
        self.inner.core.siblings.announce(Arc::downgrade(&pool), Some(upstream));
    }

    /// From now on free memory is merged before a large block is split off it: for a pool that does
    /// not grow, and has to serve all sizes from what it has.
    pub(crate) fn merge_first(&self) {
        self.inner.core.lock().merges_first = true;
    }

    /// The resource that the pool takes its memory from.
    #[doc(alias = "get_upstream_resource")]
    pub fn upstream(&self) -> &AnyResource<S> {
        // SAFETY: the invariant of `inner`.
        unsafe { self.inner.upstream.assume() }
    }

    /// Whether the pool divides virtual memory or memory of `cudaMalloc`; `None` if it is over
    /// neither.
    ///
    /// ```
    /// use rmm_adaptors::PoolMemoryResource;
    /// use rmm_resources::{CudaMemoryResource, DefaultDeviceMemory};
    ///
    /// # fn main() -> Result<(), rmm_core::Error> {
    /// # let _machine = rmm_sim::enter();
    /// let pool = rmm_adaptors::default_pool()?;
    /// assert_eq!(pool.default_memory(), Some(DefaultDeviceMemory::VirtualMemory));
    /// let pool = PoolMemoryResource::builder(CudaMemoryResource::new()).build()?;
    /// assert_eq!(pool.default_memory(), Some(DefaultDeviceMemory::CudaMalloc));
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "backing")]
    pub fn default_memory(&self) -> Option<DefaultDeviceMemory> {
        DefaultDeviceMemory::of(&self.inner.upstream)
    }

    /// The context of the memory, and of the default streams that the pool serves.
    pub(crate) fn context(&self) -> Context {
        self.inner.core.context
    }

    /// Bytes taken from upstream now.
    #[doc(alias = "pool_size")]
    pub fn reserved_bytes(&self) -> u64 {
        self.inner.core.lock().heap.reserved()
    }

    /// What the pool has done so far.
    pub fn statistics(&self) -> PoolStatistics {
        self.inner.core.statistics()
    }

    /// Lowers [`peak_reserved_bytes`](PoolStatistics::peak_reserved_bytes) to what is reserved now,
    /// for everyone who reads it.
    #[doc(alias = "cudaMemPoolAttrReservedMemHigh")]
    #[doc(alias = "reset_peak_memory_stats")]
    pub fn reset_peak_reserved(&self) {
        let mut state = self.inner.core.lock();
        state.statistics.peak_reserved_bytes = state.heap.reserved();
    }

    /// Releases idle upstream blocks, until no more than `keep` bytes are reserved or none is idle.
    /// Returns the bytes. Never waits for the device, except as upstream does, and with the
    /// [deterministic](crate::PoolPreset::Deterministic) preset, unless a stream may be under
    /// capture.
    pub fn trim(&self, keep: u64) -> u64 {
        self.inner.core.trim(&self.inner.upstream, keep)
    }

    /// Releases idle upstream blocks, as [`trim`](Self::trim) does, after a wait on this thread for
    /// the work that comes before frees, if some of it is pending. While a stream may be under
    /// capture it does not wait.
    ///
    /// ```
    /// use std::alloc::Layout;
    /// use rmm_adaptors::PoolMemoryResource;
    /// use rmm_core::{CudaStream, Resource};
    /// use rmm_resources::CudaMemoryResource;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let _machine = rmm_sim::Machine::builder().schedule(rmm_sim::Schedule::Lazy).enter();
    /// let pool = PoolMemoryResource::builder(CudaMemoryResource::new()).build()?;
    /// let (stream, layout) = (CudaStream::new()?, Layout::from_size_align(256 << 20, 256)?);
    /// let block = pool.allocate(&stream, layout)?;
    /// # // SAFETY: the block is allocated, and the stream exists.
    /// # unsafe { rmm_core::current_driver()?.cuMemsetD8Async(block, 0, 1, stream.as_raw()) };
    /// // ... enqueue work on `stream` that uses the block ...
    /// // SAFETY: allocated above with this layout; its only stream is the one it is freed on.
    /// unsafe { pool.deallocate(&stream, block, layout) };
    /// assert_eq!(pool.trim(0), 0); // the work may still run
    /// assert_eq!(pool.trim_blocking(0), 256 << 20);
    /// # Ok(())
    /// # }
    /// ```
    pub fn trim_blocking(&self, keep: u64) -> u64 {
        self.inner.core.trim_blocking(&self.inner.upstream, keep)
    }

    /// Releases to upstream what the [policy](crate::ReleasePolicy) does not keep, as far as it is
    /// known to be idle. Frees do this now and then; call it in a program that frees nothing for a
    /// while. Returns the bytes. Never waits for the device, except as upstream does.
    pub fn release_unused(&self) -> u64 {
        self.inner.core.release_unused(&self.inner.upstream)
    }

    /// Calls `callback` when a request is about to fail for lack of memory, after everything else
    /// was tried, until the guard is dropped. It returns whether it has freed memory: to this pool,
    /// or to the device by another way. Then the request is tried again.
    ///
    /// Callbacks run on the thread of the request, the oldest first, each at most once for a
    /// request, and with no lock held: they may call the pool, and wait for threads that do. One
    /// that puts the pool to sleep makes the request fail. A request that fails within a callback
    /// calls none. Under an adaptor with code of the program (`adaptor!`, callbacks) they run after
    /// that code has returned. Where the pool is the upstream of another suballocator, callbacks of
    /// the one that the program called count.
    ///
    /// ```
    /// use std::alloc::Layout;
    /// use std::sync::{Arc, Mutex};
    /// use rmm_adaptors::PoolMemoryResource;
    /// use rmm_core::SynchronousResource;
    /// use rmm_resources::CudaMemoryResource;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let _machine = rmm_sim::enter();
    /// let pool = PoolMemoryResource::builder(CudaMemoryResource::new());
    /// let pool = pool.maximum_size(4 << 20).build()?;
    /// let layout = Layout::from_size_align(3 << 20, 256)?;
    /// let cached = Arc::new(Mutex::new(vec![pool.allocate_sync(layout)?]));
    /// let spill = {
    ///     let (pool, cached) = (pool.clone(), Arc::clone(&cached));
    ///     move |_: &rmm_adaptors::Pressure<'_>| {
    ///         // ... copy the block to the host ...
    ///         let Some(block) = cached.lock().unwrap().pop() else { return false };
    ///         // SAFETY: allocated above with this layout, and used no more.
    ///         unsafe { pool.deallocate_sync(block, layout) };
    ///         true
    ///     }
    /// };
    /// let guard = pool.on_pressure(spill);
    /// let block = pool.allocate_sync(layout)?; // in the place of the spilled one
    /// assert!(pool.allocate_sync(layout).is_err()); // nothing is left to spill
    /// drop(guard); // the callback holds a handle to the pool
    /// # // SAFETY: allocated above with this layout, and not used.
    /// # unsafe { pool.deallocate_sync(block, layout) };
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "failure_callback_resource_adaptor")]
    pub fn on_pressure(
        &self,
        callback: impl Fn(&Pressure<'_>) -> bool + Send + Sync + 'static,
    ) -> PressureCallback {
        PressureCallback { _registration: self.inner.core.pressure.register(Arc::new(callback)) }
    }

    /// Calls `callback` with each [segment](Segment) that the pool has, takes and returns, for as
    /// long as the guard lives: so that NCCL, cuFile, UCX and NIXL register whole segments, once.
    ///
    /// [`Added`](SegmentEvent::Added) comes for the segments that there are, and for a new one
    /// before a block of it is handed out. If the callback fails or panics then, the segment goes
    /// back and the request fails. [`Removing`](SegmentEvent::Removing) comes before a segment is
    /// unmapped or freed, to make room, by a trim, by sleep or at the pool's end. If the callback
    /// fails then, the segment stays: a trim returns less, sleep fails, and at its end the pool
    /// leaves the memory allocated. When the guard is dropped it comes for each segment.
    ///
    /// The callback is called with no lock held, on the thread that makes the pool change, also by
    /// several threads at once. While it runs, other threads' requests are served from what the
    /// pool holds. It may allocate from this pool, but not make it grow, which is
    /// [`ErrorKind::Unsupported`](rmm_core::ErrorKind::Unsupported). It is not called while the
    /// process exits, nor in a child of `fork`. Requests that the pool serves from what it holds do
    /// not read the callbacks.
    ///
    /// ```
    /// use std::alloc::Layout;
    /// use std::sync::{Arc, Mutex};
    ///
    /// use rmm_adaptors::{PoolMemoryResource, SegmentEvent};
    /// use rmm_core::{Error, SynchronousResource};
    /// use rmm_resources::CudaMemoryResource;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let _machine = rmm_sim::enter();
    /// let pool = PoolMemoryResource::builder(CudaMemoryResource::new()).build()?;
    /// let registered = Arc::new(Mutex::new(Vec::new()));
    /// let guard = {
    ///     let registered = Arc::clone(&registered);
    ///     pool.on_segment(move |event| {
    ///         let mut registered = registered.lock().unwrap();
    ///         match event {
    ///             SegmentEvent::Added(segment) => registered.push(segment),
    ///             SegmentEvent::Removing(segment) => registered.retain(|&it| it != segment),
    ///             _ => {}
    ///         }
    ///         Ok::<(), Error>(())
    ///     })?
    /// };
    /// let layout = Layout::from_size_align(1 << 20, 256)?;
    /// let block = pool.allocate_sync(layout)?;
    /// assert!(registered.lock().unwrap()[0].range().contains(&block.0));
    /// // SAFETY: allocated above with this layout, and not used.
    /// unsafe { pool.deallocate_sync(block, layout) };
    /// pool.trim(0);
    /// assert!(registered.lock().unwrap().is_empty());
    /// # drop(guard);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](rmm_core::ErrorKind::Unsupported) if the callback refuses a
    /// segment that there is: then it has let go of the others, and is not registered.
    #[doc(alias = "ncclCommRegister")]
    #[doc(alias = "cuFileBufRegister")]
    #[doc(alias = "AllocatorTraceTracker")]
    pub fn on_segment<E: Into<Box<dyn std::error::Error + Send + Sync>>>(
        &self,
        callback: impl Fn(SegmentEvent) -> Result<(), E> + Send + Sync + 'static,
    ) -> Result<SegmentGuard, Error> {
        let callback = Arc::new(move |event| callback(event).map_err(Into::into));
        self.inner.core.segments.register(self.inner.core.name, callback)
    }

    /// The segments that the pool has now, by address; none while it sleeps.
    pub fn segments(&self) -> Vec<Segment> {
        self.inner.core.segments.all()
    }

    /// Bytes freed on each stream that may still be in use, so that other streams cannot reuse them
    /// yet: the most first. O(streams). Calls no driver, so work that was completed since the last
    /// poll counts as pending.
    ///
    /// ```
    /// use rmm_adaptors::PoolMemoryResource;
    /// use rmm_core::{CudaStream, PendingBytes, Resource};
    /// use rmm_resources::CudaMemoryResource;
    /// # use std::alloc::Layout;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let _machine = rmm_sim::enter();
    /// let pool = PoolMemoryResource::builder(CudaMemoryResource::new()).build()?;
    /// let (stream, layout) = (CudaStream::new()?, Layout::from_size_align(2 << 20, 256)?);
    /// let block = pool.allocate(&stream, layout)?;
    /// // SAFETY: allocated above with this layout; its only stream is the one it is freed on.
    /// unsafe { pool.deallocate(&stream, block, layout) };
    /// let held = PendingBytes::new(stream.id(), 2 << 20);
    /// assert_eq!(pool.pending_bytes(), [held]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn pending_bytes(&self) -> Vec<PendingBytes> {
        let mut state = self.inner.core.lock();
        self.inner.core.flush_caches(&mut state);
        state.pending_bytes()
    }

    /// All blocks of the pool, by segment and address: a map of its memory. O(blocks) in time and
    /// host memory. Threads that wait for the pool meanwhile are let in, and what they change is in
    /// the map.
    pub fn blocks(&self) -> Vec<PoolBlock> {
        self.inner.core.blocks()
    }

    /// The most bytes that the pool may reserve, if a limit was set.
    pub fn maximum_size(&self) -> Option<u64> {
        Some(self.inner.core.hard_limit()).filter(|&limit| limit != u64::MAX)
    }

    /// Changes the [maximum size](crate::PoolMemoryResourceBuilder::maximum_size), or lifts it.
    /// Requests from now on, and those that are waiting, get memory up to the new one. If more is
    /// held already, it stays, and what is freed of it serves requests: [`trim`](Self::trim)
    /// returns it.
    ///
    /// ```
    /// use std::alloc::Layout;
    /// use rmm_adaptors::PoolMemoryResource;
    /// use rmm_core::{RemedyAction, SynchronousResource};
    /// use rmm_resources::CudaMemoryResource;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let _machine = rmm_sim::enter();
    /// let pool = PoolMemoryResource::builder(CudaMemoryResource::new());
    /// let pool = pool.maximum_size(4 << 20).build()?;
    /// let layout = Layout::from_size_align(6 << 20, 256)?;
    /// let error = pool.allocate_sync(layout).unwrap_err();
    /// let remedy = error.remedies()[0];
    /// let RemedyAction::RaiseLimit { limit, .. } = remedy.action else { unreachable!() };
    /// if limit == pool.limit_id() {
    ///     pool.set_maximum_size((4 << 20) + remedy.bytes)?;
    /// }
    /// let block = pool.allocate_sync(layout)?;
    /// # // SAFETY: allocated above with this layout, and not used.
    /// # unsafe { pool.deallocate_sync(block, layout) };
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](rmm_core::ErrorKind::InvalidArgument) if it is no multiple of
    /// 256, or has no room for a page of upstream.
    #[doc(alias = "maximum_pool_size")]
    pub fn set_maximum_size(&self, bytes: impl Into<Option<u64>>) -> Result<(), Error> {
        let core = &self.inner.core;
        let usable =
            |maximum| usable_maximum(core.name, maximum, core.growth.block, core.growth.page);
        core.set_hard_limit(bytes.into().map_or(Ok(u64::MAX), usable)?);
        Ok(())
    }

    /// The identity of the pool in errors and remedies: [`Error::limit_id`].
    pub fn limit_id(&self) -> LimitId {
        self.inner.core.siblings.id()
    }
}

impl<S: PropertySet> Clone for PoolMemoryResource<S> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner), set: PhantomData }
    }
}

impl<S: PropertySet> PartialEq for PoolMemoryResource<S> {
    /// Whether both are handles to one pool.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}

impl<S: PropertySet> Eq for PoolMemoryResource<S> {}

impl<S: PropertySet> fmt::Debug for PoolMemoryResource<S> {
    /// One line: containers show the pool that they are in.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PoolStatistics { live_bytes, reserved_bytes, .. } = self.statistics();
        f.debug_struct("PoolMemoryResource")
            .field("live_bytes", &live_bytes)
            .field("reserved_bytes", &reserved_bytes)
            .field("upstream", &self.inner.upstream)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("upstream", &self.upstream).finish_non_exhaustive()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.core.close(&self.upstream);
    }
}
