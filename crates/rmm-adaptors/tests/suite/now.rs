//! Tests of calls that do not wait: `try_allocate_now` and `try_deallocate_now`, of every
//! suballocator and adaptor.

use std::alloc::Layout;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rmm_adaptors::{
    AlignedResourceAdaptor, ArenaMemoryResource, BinningMemoryResource, CallbackMemoryResource,
    FailureCallbackResourceAdaptor, FallbackMemoryResource, FixedSizeMemoryResource,
    LimitingResourceAdaptor, LoggingResourceAdaptor, PoolMemoryResource, PrefetchResourceAdaptor,
    StatisticsResourceAdaptor, Tag, TaggedResourceAdaptor, ThreadSafeResourceAdaptor,
    TrackingResourceAdaptor,
};
use rmm_core::{
    AnyResource, CudaStream, DevicePtr, Introspect, Resource, ResourceRef, StreamLifetime,
    StreamRef, SyncResource,
};
use rmm_resources::{CudaMemoryResource, ManagedMemoryResource};
use rmm_sim::Machine;

use crate::fixtures::{lazy_machine, pool};
use crate::support::{MIB, Pool, layout, stream};

type Any = AnyResource<()>;

const KIB: usize = 1 << 10;

/// Longer than any thread is kept from running: only a call that waits takes this long.
const LONG: Duration = Duration::from_secs(60);

/// A pool that frees without a lock: a checked free needs it.
fn pool_of(bytes: u64) -> Pool {
    let builder = Pool::builder(CudaMemoryResource::new()).initial_size(bytes);
    builder.check_frees(false).build().expect("a pool")
}

fn cuda_pool() -> Pool {
    pool_of(16 << 20)
}

/// A pool that caches blocks of a few MiB.
fn large_pool() -> Pool {
    pool_of(256 << 20)
}

fn callback(pool: Pool) -> CallbackMemoryResource {
    let same = pool.clone();
    let allocate = move |stream: StreamRef<'_>, layout| pool.allocate(stream, layout);
    let free = move |stream: StreamRef<'_>, pointer, layout| {
        // SAFETY: it was allocated by the other function, with this layout.
        unsafe { same.deallocate(stream, pointer, layout) }
    };
    // SAFETY: the functions are a resource's.
    unsafe { CallbackMemoryResource::new(allocate, free) }
}

/// Frees a block at once, if that is possible.
fn try_free<'s>(
    resource: &impl Resource,
    stream: impl Into<StreamRef<'s>>,
    pointer: DevicePtr,
    layout: Layout,
) -> bool {
    // SAFETY: every test allocates the block with this layout, and orders its uses before this.
    unsafe { resource.try_deallocate_now(stream, pointer, layout) }
}

fn free(resource: &impl Resource, stream: &CudaStream, pointer: DevicePtr, layout: Layout) {
    // SAFETY: as in `try_free`.
    unsafe { resource.deallocate(stream, pointer, layout) }
}

/// A kind of resource, and whether it allocates and frees what is cached without a wait: while one
/// thread uses it, and once a second one has.
struct Kind {
    name: &'static str,
    make: fn() -> Any,
    alone: (bool, bool),
    shared: (bool, bool),
    layout: Layout,
}

fn kinds() -> Vec<Kind> {
    const BOTH: (bool, bool) = (true, true);
    const NEITHER: (bool, bool) = (false, false);
    const FREES: (bool, bool) = (false, true);
    // Blocks of one size are checked at their free in builds with debug assertions.
    const OF_BLOCKS: (bool, bool) = (true, !cfg!(debug_assertions));
    let kind = |name, alone, shared, make| Kind { name, make, alone, shared, layout: layout(1000) };
    let aligned = Layout::from_size_align(1000, 4096).expect("a layout");
    vec![
        kind("pool", BOTH, BOTH, || Any::new(cuda_pool())),
        Kind {
            layout: layout(3 * MIB),
            ..kind("pool, large", BOTH, BOTH, || Any::new(large_pool()))
        },
        kind("passing", BOTH, BOTH, || Any::new(Passing { upstream: cuda_pool() })),
        kind("counting", NEITHER, NEITHER, || {
            Any::new(Counting { upstream: cuda_pool(), live: AtomicU64::new(0) })
        }),
        kind("fixed-size", OF_BLOCKS, OF_BLOCKS, || {
            let builder = FixedSizeMemoryResource::builder(CudaMemoryResource::new());
            Any::new(builder.block_size(4096).build().expect("blocks"))
        }),
        kind("binning", OF_BLOCKS, OF_BLOCKS, || {
            let builder = BinningMemoryResource::builder(cuda_pool());
            Any::new(builder.bin(4096).expect("a bin").build())
        }),
        Kind {
            layout: layout(8 * KIB),
            ..kind("binning, no bin", BOTH, BOTH, || {
                let builder = BinningMemoryResource::builder(cuda_pool());
                Any::new(builder.bin(4096).expect("a bin").build())
            })
        },
        kind("arena", BOTH, BOTH, || {
            let builder = ArenaMemoryResource::builder(CudaMemoryResource::new());
            Any::new(builder.arena_size(16 << 20).check_frees(false).build().expect("an arena"))
        }),
        kind("aligned", BOTH, BOTH, || {
            Any::new(AlignedResourceAdaptor::new(cuda_pool(), 256).expect("a power of two"))
        }),
        Kind {
            layout: aligned,
            ..kind("aligned, moved", BOTH, BOTH, || {
                Any::new(AlignedResourceAdaptor::new(cuda_pool(), 256).expect("a power of two"))
            })
        },
        kind("callback", NEITHER, NEITHER, || Any::new(callback(cuda_pool()))),
        kind("failure-callback", BOTH, BOTH, || {
            Any::new(FailureCallbackResourceAdaptor::new(cuda_pool(), |_| panic!("no failure")))
        }),
        kind("fallback", BOTH, BOTH, || {
            Any::new(FallbackMemoryResource::new(cuda_pool(), cuda_pool()))
        }),
        kind("fallback, from the second", FREES, FREES, || {
            let first = LimitingResourceAdaptor::new(cuda_pool(), 0);
            Any::new(FallbackMemoryResource::new(first, cuda_pool()))
        }),
        kind("limiting", BOTH, BOTH, || {
            Any::new(LimitingResourceAdaptor::new(cuda_pool(), 1 << 20))
        }),
        kind("logging", NEITHER, NEITHER, || {
            let writer = std::io::sink();
            Any::new(LoggingResourceAdaptor::to_writer(cuda_pool(), writer).expect("a log"))
        }),
        kind("prefetch", BOTH, BOTH, || Any::new(PrefetchResourceAdaptor::new(cuda_pool()))),
        kind("prefetch, managed", FREES, FREES, || {
            let managed = PoolMemoryResource::builder(ManagedMemoryResource::new());
            let managed = managed.check_frees(false).build().expect("a pool");
            Any::new(PrefetchResourceAdaptor::new(managed))
        }),
        kind("statistics", BOTH, BOTH, || Any::new(StatisticsResourceAdaptor::new(cuda_pool()))),
        kind("tagged", BOTH, BOTH, || Any::new(TaggedResourceAdaptor::new(cuda_pool()))),
        kind("thread-safe", BOTH, BOTH, || Any::new(ThreadSafeResourceAdaptor::new(cuda_pool()))),
        kind("tracking", BOTH, NEITHER, || Any::new(TrackingResourceAdaptor::new(cuda_pool()))),
        kind("tracking, stacks", FREES, NEITHER, || {
            let builder = TrackingResourceAdaptor::builder(cuda_pool());
            Any::new(builder.capture_stacks(true).build())
        }),
        kind("all that pass on", BOTH, NEITHER, || {
            let aligned = AlignedResourceAdaptor::new(cuda_pool(), 256).expect("a power of two");
            let tagged = TaggedResourceAdaptor::new(ThreadSafeResourceAdaptor::new(aligned));
            let limited = LimitingResourceAdaptor::new(tagged, 1 << 20);
            let tracked = TrackingResourceAdaptor::new(StatisticsResourceAdaptor::new(limited));
            Any::new(FailureCallbackResourceAdaptor::new(tracked, |_| panic!("no failure")))
        }),
        kind("no pool", NEITHER, NEITHER, || {
            Any::new(StatisticsResourceAdaptor::new(CudaMemoryResource::new()))
        }),
    ]
}

/// An adaptor that says what it does in calls that do not wait.
#[derive(Debug)]
struct Passing<R> {
    upstream: R,
}

rmm_core::adaptor! {
    Passing<R> over upstream, name = "passing";
    fn allocate(&self, below, layout) { below.allocate(layout) }
    fn allocate_now(&self, below, layout) { below.allocate_now(layout) }
}

/// An adaptor that does not say so: it sees every block.
#[derive(Debug)]
struct Counting<R> {
    upstream: R,
    live: AtomicU64,
}

rmm_core::adaptor! {
    Counting<R> over upstream, name = "counting";
    fn allocate(&self, below, layout) {
        self.live.fetch_add(1, Ordering::Relaxed);
        below.allocate(layout)
    }
    fn freed(&self, _layout) { self.live.fetch_sub(1, Ordering::Relaxed); }
}

/// As [`Counting`], and it counts in calls that do not wait.
#[derive(Debug)]
struct CountingNow<R> {
    upstream: R,
    live: AtomicU64,
}

rmm_core::adaptor! {
    CountingNow<R> over upstream, name = "counting-now";
    fn allocate(&self, below, layout) {
        self.live.fetch_add(1, Ordering::Relaxed);
        below.allocate(layout)
    }
    fn freed(&self, _layout) { self.live.fetch_sub(1, Ordering::Relaxed); }
    fn allocate_now(&self, below, layout) {
        below.allocate_now(layout).inspect(|_| _ = self.live.fetch_add(1, Ordering::Relaxed))
    }
    fn freed_now(&self, _layout) { self.live.fetch_sub(1, Ordering::Relaxed); }
}

/// Allocates and frees until every cache is warm, and keeps one block.
fn warm_up(resource: &Any, stream: &CudaStream, layout: Layout) -> DevicePtr {
    let stays = resource.allocate(stream, layout).expect("memory");
    for _ in 0..20 {
        let block = resource.allocate(stream, layout).expect("memory");
        free(resource, stream, block, layout);
    }
    stays
}

/// Two resources of a kind do the same, one by calls that do not wait where these succeed. They do
/// so exactly where the table says, without a driver call, with the block that `allocate` would
/// return, and both resources count the same.
fn now_is_as_ordinary(kind: &Kind, is_shared: bool) {
    let (name, layout) = (kind.name, kind.layout);
    let (allocates, frees) = if is_shared { kind.shared } else { kind.alone };
    let machine = Machine::builder().memory(1 << 30).build();
    let _entered = machine.enter();
    let stream = stream();
    let (now, ordinary) = ((kind.make)(), (kind.make)());
    let same = |when: &str| {
        let [now, ordinary] = [&now, &ordinary].map(|resource| resource.describe().to_string());
        assert_eq!(now, ordinary, "{name}, {when}");
    };
    let stay = [&now, &ordinary].map(|resource| {
        let stays = warm_up(resource, &stream, layout);
        if is_shared {
            thread::scope(|scope| {
                scope.spawn(|| {
                    let _entered = machine.enter();
                    let block = resource.allocate(&stream, layout).expect("memory");
                    free(resource, &stream, block, layout);
                });
            });
            let block = resource.allocate(&stream, layout).expect("memory");
            free(resource, &stream, block, layout);
        }
        stays
    });
    same("warm");
    for _ in 0..3 {
        let newest = [&now, &ordinary].map(|resource| {
            let block = resource.allocate(&stream, layout).expect("memory");
            free(resource, &stream, block, layout);
            block
        });
        let calls = machine.calls();
        let block = now.try_allocate_now(&stream, layout);
        assert_eq!(machine.calls(), calls, "{name} called the driver");
        assert_eq!(block, allocates.then_some(newest[0]), "{name}");
        let block = block.unwrap_or_else(|| now.allocate(&stream, layout).expect("memory"));
        let twin = ordinary.allocate(&stream, layout).expect("memory");
        same("allocated");

        let calls = machine.calls();
        let is_freed = try_free(&now, &stream, block, layout);
        assert_eq!(machine.calls(), calls, "{name} called the driver");
        assert_eq!(is_freed, frees, "{name}");
        if !is_freed {
            free(&now, &stream, block, layout);
        }
        free(&ordinary, &stream, twin, layout);
        same("freed");
    }
    for (resource, stays) in [&now, &ordinary].into_iter().zip(stay) {
        free(resource, &stream, stays, layout);
    }
    same("at the end");
    machine.assert_no_violations();
}

#[test]
fn now_calls_do_as_ordinary_ones_on_one_thread() {
    for kind in kinds() {
        now_is_as_ordinary(&kind, false);
    }
}

#[test]
fn now_calls_do_as_ordinary_ones_after_a_second_thread() {
    for kind in kinds() {
        now_is_as_ordinary(&kind, true);
    }
}

#[test]
fn a_now_call_that_fails_changes_nothing() {
    for Kind { name, make, layout: warm, .. } in kinds() {
        let machine = Machine::builder().memory(1 << 30).build();
        let _entered = machine.enter();
        let (resource, stream, other) = (make(), stream(), stream());
        let stays = warm_up(&resource, &stream, warm);
        // Larger than all that was freed, and no multiple of it.
        let cold = layout(900 * KIB);
        let before = resource.describe().to_string();
        // Descriptions ask the driver.
        let calls = machine.calls();
        let block = resource.try_allocate_now(&stream, cold);
        let is_freed = block.is_none_or(|block| try_free(&resource, &stream, block, cold));
        assert_eq!(machine.calls(), calls, "{name}");
        assert!(is_freed && block.is_none(), "{name}");
        assert_eq!(resource.describe().to_string(), before, "{name}");
        let calls = machine.calls();
        assert!(!try_free(&resource, &other, stays, warm), "{name} has no cache for the stream");
        assert_eq!(machine.calls(), calls, "{name}");
        assert_eq!(resource.describe().to_string(), before, "{name}");
        free(&resource, &stream, stays, warm);
        drop((resource, stream, other));
        machine.assert_no_violations();
        assert_eq!(machine.leaks(), [], "{name}");
    }
}

#[test]
fn now_calls_reach_the_pool_through_pointers_and_references() {
    fn pair(resource: &impl Resource, stream: &CudaStream, newest: DevicePtr) {
        let name = std::any::type_name_of_val(resource);
        let block = resource.try_allocate_now(stream, layout(1000));
        assert_eq!(block, Some(newest), "{name}");
        assert!(try_free(resource, stream, newest, layout(1000)), "{name}");
    }
    let (_machine, _entered, pool, [stream]) =
        pool(|builder| builder.initial_size(1 << 20).check_frees(false));
    let any = Any::new(pool.clone());
    let stays = warm_up(&any, &stream, layout(1000));
    let newest = pool.allocate(&stream, layout(1000)).expect("memory");
    free(&pool, &stream, newest, layout(1000));
    pair(&pool, &stream, newest);
    pair(&&pool, &stream, newest);
    pair(&Box::new(pool.clone()), &stream, newest);
    pair(&Arc::new(pool.clone()), &stream, newest);
    pair(&(Box::new(pool.clone()) as Box<dyn Resource>), &stream, newest);
    pair(&any, &stream, newest);
    pair(&ResourceRef::<()>::new(&pool), &stream, newest);
    free(&pool, &stream, stays, layout(1000));
}

#[test]
fn an_adaptor_s_now_hooks_count_what_succeeds() {
    let (_machine, _entered, pool, [stream]) =
        pool(|builder| builder.initial_size(1 << 20).check_frees(false));
    let stays = warm_up(&Any::new(pool.clone()), &stream, layout(1000));
    let counting = CountingNow { upstream: pool, live: AtomicU64::new(0) };
    let live = || counting.live.load(Ordering::Relaxed);
    let block = counting.try_allocate_now(&stream, layout(1000)).expect("it is cached");
    assert_eq!((counting.try_allocate_now(&stream, layout(2 * KIB)), live()), (None, 1));
    assert!(!try_free(&counting, StreamRef::legacy(), block, layout(1000)));
    assert_eq!(live(), 1, "the block is still allocated");
    assert!(try_free(&counting, &stream, block, layout(1000)));
    assert_eq!(live(), 0);
    free(counting.upstream_ref(), &stream, stays, layout(1000));
}

impl<R> CountingNow<R> {
    fn upstream_ref(&self) -> &R {
        &self.upstream
    }
}

#[test]
fn a_limit_holds_for_now_calls() {
    let (_machine, _entered, pool, [stream]) =
        pool(|builder| builder.initial_size(1 << 20).check_frees(false));
    let any = Any::new(pool.clone());
    let [one, two] = [(); 2].map(|()| warm_up(&any, &stream, layout(1000)));
    for is_shared in [false, true] {
        let limited = LimitingResourceAdaptor::new(pool.clone(), 1024);
        if is_shared {
            let pair = || {
                let block = limited.allocate_sync(layout(1)).expect("memory");
                // SAFETY: allocated just now with this layout, and not used.
                unsafe { limited.deallocate_sync(block, layout(1)) };
            };
            pair();
            thread::scope(|scope| {
                scope.spawn(pair);
            });
        }
        let block = limited.try_allocate_now(&stream, layout(1000)).expect("within the limit");
        assert_eq!(limited.try_allocate_now(&stream, layout(1000)), None);
        assert_eq!(limited.allocated_bytes(), 1024);
        assert!(!try_free(&limited, StreamRef::legacy(), block, layout(1000)));
        assert_eq!(limited.allocated_bytes(), 1024);
        assert!(try_free(&limited, &stream, block, layout(1000)));
        assert_eq!(limited.try_allocate_now(&stream, layout(512)), None, "no such block is cached");
        assert_eq!(limited.allocated_bytes(), 0);
    }
    for block in [one, two] {
        free(&pool, &stream, block, layout(1000));
    }
}

#[test]
fn the_user_s_tags_and_findings_stay_exact() {
    let (_machine, _entered, pool, [stream]) =
        pool(|builder| builder.initial_size(1 << 20).check_frees(false));
    let found = Arc::new(AtomicU64::new(0));
    let same = Arc::clone(&found);
    let tracked = TrackingResourceAdaptor::builder(pool)
        .on_finding(move |_| _ = same.fetch_add(1, Ordering::Relaxed));
    let tagged = TaggedResourceAdaptor::new(tracked);
    let any = Any::new(tagged.clone());
    let stays = warm_up(&any, &stream, layout(1000));
    let tag = Tag::named("now");
    let block = {
        let _scope = tag.enter();
        tagged.try_allocate_now(&stream, layout(1000)).expect("it is cached")
    };
    assert_eq!((tagged.usage_of(tag).live_bytes, tagged.usage_of(tag).live_blocks), (1000, 1));
    // The wrong layout, and a block that is not allocated: `deallocate` reports both.
    for (pointer, bytes) in [(block, 900), (DevicePtr(block.0 + 256), 1000)] {
        assert!(!try_free(&tagged, &stream, pointer, layout(bytes)));
    }
    assert_eq!(tagged.usage_of(tag).live_blocks, 1);
    assert_eq!(found.load(Ordering::Relaxed), 0, "the program's code is not called");
    assert!(try_free(&tagged, &stream, block, layout(1000)));
    assert_eq!((tagged.usage_of(tag).live_bytes, tagged.usage_of(tag).live_blocks), (0, 0));
    assert_eq!(tagged.usage_of(tag).peak_bytes, 1000);
    free(&tagged, &stream, stays, layout(1000));
}

#[test]
fn now_calls_fail_where_the_driver_would_be_asked() {
    let (_machine, _entered, pool, [theirs]) =
        pool(|builder| builder.initial_size(1 << 20).check_frees(false));
    // SAFETY: `theirs` outlives it.
    let unknown = unsafe { CudaStream::adopt(theirs.as_raw(), StreamLifetime::Unknown) };
    let unknown = unknown.expect("a stream");
    let stays = warm_up(&Any::new(pool.clone()), &unknown, layout(1000));
    assert_eq!(pool.try_allocate_now(&unknown, layout(1000)), None);
    assert!(!try_free(&pool, &unknown, stays, layout(1000)));
    free(&pool, &unknown, stays, layout(1000));
}

#[test]
fn a_pool_that_checks_frees_does_not_free_now() {
    let (_machine, _entered, pool, [stream]) =
        pool(|builder| builder.initial_size(1 << 20).check_frees(true));
    let stays = warm_up(&Any::new(pool.clone()), &stream, layout(1000));
    let block = pool.try_allocate_now(&stream, layout(1000)).expect("it is cached");
    assert!(!try_free(&pool, &stream, block, layout(1000)));
    for block in [block, stays] {
        free(&pool, &stream, block, layout(1000));
    }
    assert_eq!(pool.statistics().live_bytes, 0);
}

#[test]
fn a_now_free_evicts_no_other_block() {
    let machine = Machine::builder().memory(1 << 30).build();
    let _entered = machine.enter();
    let (pool, stream, large) = (large_pool(), stream(), layout(3 * MIB));
    let stays = warm_up(&Any::new(pool.clone()), &stream, large);
    let blocks: Vec<DevicePtr> =
        (0..5).map(|_| pool.allocate(&stream, large).expect("memory")).collect();
    let freed = blocks.iter().map(|&block| try_free(&pool, &stream, block, large));
    assert_eq!(freed.collect::<Vec<_>>(), [true, true, true, true, false]);
    free(&pool, &stream, blocks[4], large);
    let mut again: Vec<DevicePtr> =
        (0..6).map(|_| pool.allocate(&stream, large).expect("memory")).collect();
    again.sort_unstable_by_key(|block| block.0);
    again.dedup();
    assert_eq!(again.len(), 6, "a block was freed twice");
    for block in again.into_iter().chain([stays]) {
        free(&pool, &stream, block, large);
    }
    assert_eq!(pool.statistics().live_bytes, 0);
}

/// The size of requests that wait at the gate.
const GATED: usize = 5000;

/// Lets a thread say that it has arrived, and go on once it is told to.
#[derive(Debug)]
struct Gate {
    arrived: Sender<()>,
    go_on: Mutex<Receiver<()>>,
    /// How often no one told it.
    forgotten: AtomicU64,
}

impl Gate {
    fn pass(&self) {
        self.arrived.send(()).expect("the test waits for it");
        let go_on = self.go_on.lock().unwrap_or_else(PoisonError::into_inner);
        let is_forgotten = go_on.recv_timeout(LONG).is_err();
        self.forgotten.fetch_add(is_forgotten.into(), Ordering::Relaxed);
    }
}

/// An adaptor in which requests of one size wait.
#[derive(Debug)]
struct Gated<R> {
    upstream: R,
    gate: Arc<Gate>,
}

rmm_core::adaptor! {
    Gated<R> over upstream, name = "gated";
    fn allocate(&self, below, layout) {
        if layout.size() == GATED {
            self.gate.pass();
        }
        below.allocate(layout)
    }
    fn allocate_now(&self, below, layout) { below.allocate_now(layout) }
}

#[test]
fn a_now_call_waits_for_no_other_thread() {
    for is_shared in [false, true] {
        let machine = lazy_machine();
        let _entered = machine.enter();
        let (pool, stream) = (cuda_pool(), stream());
        let stays = warm_up(&Any::new(pool.clone()), &stream, layout(1000));
        let (arrived, arrivals) = channel();
        let (signal, go_on) = channel();
        let gate = Gate { arrived, go_on: Mutex::new(go_on), forgotten: AtomicU64::new(0) };
        let gate = Arc::new(gate);
        let gated = Gated { upstream: pool.clone(), gate: Arc::clone(&gate) };
        let locked = ThreadSafeResourceAdaptor::new(gated);
        if is_shared {
            let block = locked.allocate(&stream, layout(1)).expect("memory");
            free(&locked, &stream, block, layout(1));
        }
        thread::scope(|scope| {
            scope.spawn(|| {
                let _entered = machine.enter();
                let block = locked.allocate(&stream, layout(GATED)).expect("memory");
                free(&locked, &stream, block, layout(GATED));
            });
            arrivals.recv_timeout(LONG).expect("the thread arrives");
            assert_eq!(locked.try_allocate_now(&stream, layout(1000)), None);
            assert!(!try_free(&locked, &stream, stays, layout(1000)));
            signal.send(()).expect("the thread waits");
        });
        assert_eq!(gate.forgotten.load(Ordering::Relaxed), 0, "the calls waited");
        // The other thread took the cache along, and has ended.
        let back = locked.allocate(&stream, layout(1000)).expect("memory");
        free(&locked, &stream, back, layout(1000));
        let block = locked.try_allocate_now(&stream, layout(1000)).expect("no thread is inside");
        for block in [block, stays] {
            assert!(try_free(&locked, &stream, block, layout(1000)));
        }
    }
}
