//! What every part of a pool stands on: its settings, its lock and its thread caches.
//!
//! `PoolCore` does not hold the upstream, which ends with the last handle to the pool, and has no
//! step of an allocation: those stand in files above this one.

#![forbid(unsafe_code)]

use std::alloc::Layout;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, MutexGuard, Weak};

use rmm_core::siblings::{Awaited, LimitId, Siblings, may_be_waited_for};
use rmm_core::{
    Annotator, AnyResource, CUDA_ALLOCATION_ALIGNMENT, Context, Error, ExtendableResource,
    Introspect, StreamId, StreamRef,
};
use rmm_sys::epoch::{self, AtomicEpoch, Epoch};

use super::locking::PoolLock;
use super::pool_state::PoolState;
use super::pressure_callbacks::PressureCallbacks;
use super::segments::Segments;
use super::sleeping_memory;
use crate::shared::tracked::Tracking;
use crate::suballocators::pool::caches::{CachePolicy, Caches, Class};
use crate::suballocators::pool::values::growth::{Growth, Pace};
use crate::suballocators::pool::values::statistics::PoolStatistics;
use crate::suballocators::pool::values::units::GRANULE;
use crate::sync::fence::Fences;

/// Whose code a call to upstream runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum UpstreamCode {
    /// Code that [may be waited for](rmm_core::siblings::MayBeWaitedFor).
    Library,
    /// A resource that the program implements itself is among the upstreams.
    Program,
}

impl UpstreamCode {
    pub(crate) fn of(upstream: &AnyResource<()>) -> Self {
        if may_be_waited_for(upstream) { Self::Library } else { Self::Program }
    }
}

#[derive(Debug)]
pub(crate) struct PoolCore {
    /// Lock order: a cache is a leaf. Take no other lock while inside one.
    pub(crate) caches: Caches,
    pub(crate) state: PoolLock,
    /// Signalled when a call to upstream has ended, or runs code of the program.
    pub(crate) settled: Condvar,
    pub(crate) growth: Growth,
    /// The pool does not grow beyond this; it may hold more if the limit was lowered since.
    hard_limit: AtomicU64,
    /// The resource's name, for messages.
    pub(crate) name: &'static str,
    pub(crate) annotator: Annotator,
    /// The live blocks as callers know them, if frees are checked.
    pub(crate) checks: Option<Arc<Tracking>>,
    /// The bits of a stream's id that ask for a question to the driver at each call: which stream
    /// the handle names. None of a handle of unknown lifetime if all streams outlive the pool; that
    /// of default streams if the process has several contexts to choose from.
    unclear_ids: u64,
    /// Whether the program has promised that all streams outlive the pool.
    ///
    /// # Invariant
    /// It has, if this is set: see
    /// [`streams_outlive_pool`](crate::PoolMemoryResourceBuilder::streams_outlive_pool).
    pub(crate) streams_outlive: bool,
    /// Whether blocks are [cleared](crate::suballocators::pool::steps::clear) before the caller
    /// gets them.
    pub(crate) clears: bool,
    /// Whether the pool's memory is that of graphs: what [`Timeline::isolates`] says, readable
    /// without the lock. Changed with the lock held.
    ///
    /// [`Timeline::isolates`]: crate::suballocators::pool::timeline::Timeline::isolates
    for_graphs: AtomicBool,
    /// Whether blocks are cleared or entered into `checks`.
    pub(crate) finishes: bool,
    /// Whether the [release policy](crate::ReleasePolicy) asks for a look at unused memory.
    pub(crate) release_is_due: AtomicBool,
    /// The context of the memory, and of all streams and events of this pool.
    pub(crate) context: Context,
    /// The contexts of the pools below, whose memory this one divides.
    contexts_below: Box<[Context]>,
    /// The process's epoch when the pool's memory was last seen to be there and awake, without
    /// captures.
    epoch: AtomicEpoch,
    /// How many contexts had ended when those of this pool were last seen to work.
    ends: AtomicU64,
    /// The callbacks for when a request is about to fail.
    pub(crate) pressure: Arc<PressureCallbacks>,
    /// The functions that hear of what the pool has from upstream.
    pub(crate) segments: Arc<Segments>,
    /// The other suballocators that draw on the same memory.
    pub(crate) siblings: Siblings,
    pub(crate) upstream_code: UpstreamCode,
    /// The pool itself, for the streams that it watches.
    pub(crate) this: Weak<Self>,
}

/// The settings of a [`PoolCore`] that do not change.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) name: &'static str,
    pub(crate) growth: Growth,
    pub(crate) hard_limit: u64,
    pub(crate) cached: CachePolicy,
    pub(crate) fences: Fences,
    pub(crate) checks: Option<Arc<Tracking>>,
    pub(crate) streams_outlive: bool,
    pub(crate) unclear_ids: u64,
    pub(crate) clears: bool,
    pub(crate) for_graphs: bool,
    pub(crate) context: Context,
    pub(crate) contexts_below: Box<[Context]>,
    pub(crate) siblings: Siblings,
    pub(crate) upstream_code: UpstreamCode,
}

impl PoolCore {
    pub(crate) fn new(settings: Settings, this: Weak<Self>) -> Self {
        let Settings {
            name,
            growth,
            hard_limit,
            cached,
            fences,
            checks,
            streams_outlive,
            unclear_ids,
            clears,
            for_graphs,
            context,
            contexts_below,
            siblings,
            upstream_code,
        } = settings;
        let mut state = PoolState::new();
        state.timeline.isolates = for_graphs;
        Self {
            caches: Caches::new(cached, fences),
            state: PoolLock::new(state),
            for_graphs: AtomicBool::new(for_graphs),
            settled: Condvar::new(),
            growth,
            hard_limit: AtomicU64::new(hard_limit),
            name,
            annotator: if for_graphs { Annotator::silent(name) } else { Annotator::new(name) },
            unclear_ids,
            streams_outlive,
            finishes: clears || checks.is_some(),
            clears,
            checks,
            release_is_due: AtomicBool::new(false),
            context,
            contexts_below,
            epoch: AtomicEpoch::new(Epoch::now().without_captures()),
            ends: AtomicU64::new(epoch::ends_of_contexts()),
            pressure: Arc::default(),
            segments: Arc::default(),
            siblings,
            upstream_code,
            this,
        }
    }

    /// Takes the [lock](PoolLock::lock).
    pub(crate) fn lock(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock()
    }

    /// The pool grows up to here.
    pub(crate) fn hard_limit(&self) -> u64 {
        self.hard_limit.load(Ordering::Relaxed)
    }

    /// What the pool retains over memory that can be extended, for a program whose peak was `peak`
    /// and for what its caches may hold beyond that.
    pub(crate) fn retain_target_extendable(&self, peak: u64, pace: Pace) -> u64 {
        self.growth.retain_target_extendable(peak, pace).saturating_add(self.caches.room())
    }

    /// The bytes up to which it may grow there when to stay below the target takes many calls.
    pub(crate) fn retain_limit(&self, peak: u64, pace: Pace) -> u64 {
        self.growth.retain_limit(peak, pace).saturating_add(self.caches.room())
    }

    pub(crate) fn set_hard_limit(&self, bytes: u64) {
        self.hard_limit.store(bytes, Ordering::Relaxed);
    }

    /// The pool grows up to here rather than make a stream wait.
    pub(crate) fn soft_limit(&self) -> u64 {
        self.growth.soft_limit.min(self.hard_limit())
    }

    /// The size of the block for a layout.
    ///
    /// # Errors
    /// If no block is that large.
    #[inline]
    pub(crate) fn block_size(&self, layout: Layout) -> Result<u64, Error> {
        let refused = || Error::out_of_memory(self.name).with_layout(layout);
        let size = padded_size(layout).ok_or_else(refused)?;
        match self.growth.block {
            None => Ok(size),
            Some(block) if size <= block => Ok(block),
            Some(block) => {
                let message = format!("{size} bytes, as aligned, are more than a block's {block}");
                let error = Error::invalid_argument(self.name, message);
                Err(refused().with_limit_id(LimitId::UNSHARED).with_source(error))
            }
        }
    }

    /// The size class of a layout that is not empty, if such blocks are cached.
    #[inline]
    pub(crate) fn class(&self, layout: Layout) -> Option<Class> {
        // A cache knows only the address of a block, not its alignment.
        let is_plain = layout.align() <= CUDA_ALLOCATION_ALIGNMENT;
        if is_plain { self.caches.class(layout.size() as u64) } else { None }
    }

    /// The size class of a layout that is not empty, if such blocks are cached and not large.
    #[inline]
    pub(crate) fn small_class(&self, layout: Layout) -> Option<Class> {
        let is_plain = layout.align() <= CUDA_ALLOCATION_ALIGNMENT;
        if is_plain { self.caches.small_class(layout.size()) } else { None }
    }

    /// Whether the pool's memory is that of graphs: then what is freed on a captured stream serves
    /// that stream again, and the pool grows for it.
    #[inline]
    pub(crate) fn is_for_graphs(&self) -> bool {
        self.for_graphs.load(Ordering::Relaxed)
    }

    /// Ends that: no graph uses the memory any more.
    pub(crate) fn end_graphs(&self) {
        let mut state = self.lock();
        self.for_graphs.store(false, Ordering::Relaxed);
        if state.timeline.isolates {
            state.timeline.end_isolation();
        }
    }

    /// Whether a block of `bytes` bytes is smaller than the size class of its layout.
    pub(crate) fn is_undersized(&self, layout: Layout, bytes: u64) -> bool {
        self.class(layout).is_some_and(|class| class.block_size() > bytes)
    }

    /// Whether the process is in the epoch in which this pool was last checked: no context has
    /// ended since, no memory has fallen asleep, and no capture is announced. Two loads and a
    /// comparison.
    #[inline]
    pub(crate) fn in_checked_epoch(&self) -> bool {
        Epoch::now() == self.epoch.load()
    }

    /// Checks that the pool's memory is there and awake, if a context has ended or memory has
    /// fallen asleep since the last check. Every way to a block begins with it, unless the pool is
    /// [in the epoch](Self::in_checked_epoch) of that check. The pool's lock must not be held.
    ///
    /// # Errors
    /// If a context has ended or failed: then the pool allocates nothing any more. Not ready while
    /// the memory sleeps: this pool's, or that of one below.
    #[cold]
    pub(crate) fn check_memory(&self) -> Result<(), Error> {
        if self.is_awake()? {
            return Ok(());
        }
        self.lock().phase.check_awake(self.name)?;
        let why = "the pool below, whose memory it divides, is asleep: wake that first";
        Err(Error::not_ready(self.name, why))
    }

    /// Checks that the pool's memory is there, for a free. Unlike with
    /// [`check_memory`](Self::check_memory), a pool that sleeps passes.
    ///
    /// # Errors
    /// If a context has ended or failed.
    #[cold]
    pub(crate) fn check_contexts(&self) -> Result<(), Error> {
        self.is_awake().map(|_is_awake| ())
    }

    /// Whether the memory is awake, if its contexts work.
    fn is_awake(&self) -> Result<bool, Error> {
        let epoch = Epoch::now().without_captures();
        if epoch == self.epoch.load() {
            return Ok(true);
        }
        let ends_of_contexts = epoch::ends_of_contexts();
        if ends_of_contexts != self.ends.load(Ordering::Relaxed) {
            self.context.check_works()?;
            for context in &self.contexts_below {
                context.check_works()?;
            }
            self.ends.store(ends_of_contexts, Ordering::Relaxed);
        }
        let is_awake = !sleeping_memory::sleeps(self.lock().upstream_ranges());
        if is_awake {
            self.epoch.store(epoch);
        }
        Ok(is_awake)
    }

    /// Whether the memory sleeps: this pool's, or that of one below. Calls no driver.
    pub(crate) fn is_asleep(&self, state: &PoolState) -> bool {
        !state.phase.is_awake()
            || Epoch::now().without_captures() != self.epoch.load()
                && sleeping_memory::sleeps(state.upstream_ranges())
    }

    /// The in-place growth interface of `upstream`, if the pool [uses](Growth::extends) it.
    pub(crate) fn extendable<'u>(
        &self,
        upstream: &'u AnyResource<()>,
    ) -> Option<&'u dyn ExtendableResource> {
        if self.growth.extends { upstream.as_extendable() } else { None }
    }

    /// The stream under the identity by which memory freed on it is kept; `None` for
    /// [none](Self::in_context) of this context's. A driver call or two if the handle may name
    /// another stream than at the last call.
    ///
    /// # Errors
    /// If the driver does not know the stream.
    #[inline]
    pub(crate) fn identified<'s>(
        &self,
        stream: Option<StreamRef<'s>>,
    ) -> Result<Option<StreamRef<'s>>, Error> {
        match stream {
            Some(stream) if !self.is_identified(stream) => {
                self.in_context(stream).map(StreamRef::identified).transpose()
            }
            stream => Ok(stream),
        }
    }

    /// Whether the stream's identity is known without a driver call.
    #[inline]
    pub(crate) fn is_identified(&self, stream: StreamRef<'_>) -> bool {
        stream.id().get() & self.unclear_ids == 0
    }

    /// The stream, unless it is a default stream while another context than the pool's is current:
    /// then the handle means a stream of that context, in whose order the pool can do nothing.
    #[inline]
    pub(crate) fn in_context<'s>(&self, stream: StreamRef<'s>) -> Option<StreamRef<'s>> {
        let is_unclear = stream.id().get() & self.unclear_ids & StreamId::OF_DEFAULT != 0;
        let is_own = |current| current == self.context;
        let is_another = is_unclear && !Context::current().is_ok_and(is_own);
        if is_another { None } else { Some(stream) }
    }

    /// The counters so far.
    pub(crate) fn statistics(&self) -> PoolStatistics {
        let state = self.lock();
        let (asked, counted) = (state.timeline.counts, &state.statistics);
        let (mut cached_bytes, cached) = self.caches.totals();
        // Threads count, and the heap counts back, at different times.
        let excess = cached.excess.wrapping_sub(state.excess_back).cast_signed().max(0);
        cached_bytes += state.transfer.bytes() + u64::from(excess.cast_unsigned()) * GRANULE;
        let checked = |count: fn(&Tracking) -> u64| self.checks.as_deref().map_or(0, count);
        PoolStatistics {
            allocations: counted.allocations + cached.taken,
            failed_allocations: self.state.failed(),
            cached_allocations: cached.taken,
            frees: counted.frees + cached.put,
            unknown_frees: counted.unknown_frees + checked(Tracking::unknown_frees),
            wrong_frees: checked(Tracking::wrong_frees),
            lock_waits: self.state.waits(),
            flushes: self.caches.flushes(),
            spans: self.caches.span_count(),
            // Threads may have changed their caches since the heap was last updated.
            live_bytes: state.heap.live().saturating_sub(cached_bytes),
            cached_bytes,
            largest_free_bytes: state.heap.largest_free(),
            whole_free_bytes: state.heap.whole_free_bytes(),
            asleep_bytes: state.phase.asleep_bytes(),
            events_recorded: asked.records,
            event_queries: asked.queries,
            stream_waits: asked.waits,
            bookkeeping_bytes: state.bookkeeping_bytes() + self.caches.bookkeeping_bytes(),
            ..*counted
        }
    }
}

impl Awaited for PoolCore {
    fn pause(&self) {
        self.lock().in_program += 1;
        self.settled.notify_all();
    }

    fn resume(&self) {
        self.lock().in_program -= 1;
    }
}

/// The bytes of a block for a layout: whole granules, with room to align beyond them. No block is
/// empty, whatever a hook is called with.
#[inline]
pub(crate) fn padded_size(layout: Layout) -> Option<u64> {
    let slack = (layout.align() as u64).saturating_sub(GRANULE);
    (layout.size().max(1) as u64).checked_add(slack)?.checked_next_multiple_of(GRANULE)
}

#[cfg(all(test, not(rmm_loom)))]
mod tests {
    use std::cell::Cell;
    use std::sync::mpsc::{Sender, channel};
    use std::thread;
    use std::time::Duration;

    use rmm_core::{CudaStream, Resource as _, wait};
    use rmm_resources::CudaMemoryResource;

    use super::*;
    use crate::PoolMemoryResource;

    /// Longer than any thread is kept from running: only a call that waits takes this long.
    const LONG: Duration = Duration::from_secs(60);

    thread_local! {
        static SIGNAL: Cell<Option<Sender<()>>> = const { Cell::new(None) };
    }

    #[test]
    fn a_thread_that_waits_for_the_pool_s_lock_runs_the_hook() {
        let _machine = rmm_sim::enter();
        let builder = PoolMemoryResource::builder(CudaMemoryResource::new()).check_frees(false);
        let pool = builder.initial_size(1 << 20).build().expect("a pool");
        let stream = CudaStream::non_blocking().expect("a stream");
        let [cached, cold] = [1000, 5000].map(|size| Layout::from_size_align(size, 256).unwrap());
        let pair = |layout| {
            let block = pool.allocate(&stream, layout).expect("memory");
            pool.inner.core.deallocate(Some(stream.as_stream_ref()), block, layout);
        };
        (0..20).for_each(|_| pair(cached));
        let (arrived, arrival) = channel();
        let (signal, go_on) = channel();
        thread::scope(|scope| {
            let core = &pool.inner.core;
            let locker = scope.spawn(move || {
                let locked = core.lock();
                arrived.send(()).expect("the test waits for it");
                let is_told = go_on.recv_timeout(LONG).is_ok();
                drop(locked);
                is_told
            });
            arrival.recv_timeout(LONG).expect("the thread locks the pool");
            let send = || SIGNAL.take().expect("once").send(()).expect("the thread waits");
            SIGNAL.set(Some(signal));
            let ((), has_waited) = wait::before_first_wait(send, || {}, || pair(cached));
            assert!(!has_waited, "a hit needs no lock");
            let ((), has_waited) = wait::before_first_wait(send, || {}, || pair(cold));
            assert!(has_waited);
            assert!(locker.join().expect("it does not panic"), "the hook ran before the wait");
        });
    }

    #[test]
    fn a_larger_block_that_a_cache_hands_out_is_not_live_once_it_is_freed() {
        let _machine = rmm_sim::Machine::builder().memory(1 << 30).enter();
        let builder = PoolMemoryResource::builder(CudaMemoryResource::new()).check_frees(false);
        let pool = builder.initial_size(64 << 20).build().expect("a pool");
        let stream = CudaStream::non_blocking().expect("a stream");
        let layout = |size| Layout::from_size_align(size, 256).expect("a size");
        let core = &pool.inner.core;
        let free = |block, size| core.deallocate(Some(stream.as_stream_ref()), block, layout(size));
        let figures = || {
            let PoolStatistics { live_bytes, cached_bytes, .. } = pool.statistics();
            assert_eq!(live_bytes + cached_bytes, core.lock().heap.live());
            live_bytes
        };
        for _ in 0..2 {
            free(pool.allocate(&stream, layout(9216)).expect("memory"), 9216);
        }
        core.caches.set_contended(true);
        let larger = pool.allocate(&stream, layout(8192)).expect("memory");
        assert_eq!(figures(), 8192, "it counts as a block of its class");
        free(larger, 8192);
        assert_eq!(figures(), 0);
        core.caches.set_contended(true);
        let again = pool.allocate(&stream, layout(7168)).expect("memory");
        assert_eq!((again, figures()), (larger, 7168));
        core.flush_caches(&mut core.lock());
        assert_eq!(figures(), 7168);
        core.deallocate(None, again, layout(7168));
        assert_eq!((figures(), core.lock().heap.live()), (0, 0));
    }

    #[test]
    fn a_thread_that_finds_the_lock_taken_counts_as_a_wait() {
        let _machine = rmm_sim::Machine::builder().memory(1 << 30).enter();
        let builder = PoolMemoryResource::builder(CudaMemoryResource::new());
        let pool = builder.build().expect("there is memory");
        let core = &pool.inner.core;
        drop(core.lock());
        assert_eq!(pool.statistics().lock_waits, 0, "it was free");
        let taken = core.lock();
        thread::scope(|scope| {
            scope.spawn(|| drop(core.lock()));
            while !core.state.is_waited_for() {
                thread::yield_now();
            }
            drop(taken);
        });
        assert_eq!(pool.statistics().lock_waits, 1);
    }
}
