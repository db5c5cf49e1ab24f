//! Tests of the hook before a call's first wait ([`rmm_core::wait`]): what is cached is served
//! without it, by every suballocator and adaptor, and whatever may wait runs it.

use std::alloc::Layout;
use std::cell::Cell;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rmm_adaptors::{
    AlignedResourceAdaptor, ArenaMemoryResource, BinningMemoryResource, CallbackMemoryResource,
    FailureCallbackResourceAdaptor, FallbackMemoryResource, FixedSizeMemoryResource,
    LimitingResourceAdaptor, LoggingResourceAdaptor, PoolMemoryResource, PrefetchResourceAdaptor,
    StatisticsResourceAdaptor, TaggedResourceAdaptor, ThreadSafeResourceAdaptor,
    TrackingResourceAdaptor,
};
use rmm_core::{AnyResource, CudaStream, DevicePtr, Resource, StreamLifetime, StreamRef, wait};
use rmm_resources::{CudaMemoryResource, ManagedMemoryResource};
use rmm_sim::Machine;

use crate::fixtures::{lazy_machine, pool};
use crate::support::{MIB, Pool, free, layout, stream};

type Any = AnyResource<()>;

/// Longer than any thread is kept from running: only a call that waits takes this long.
const LONG: Duration = Duration::from_secs(60);

/// A call, and whether the hook ran in it.
fn waits<T>(call: impl FnOnce() -> T) -> (T, bool) {
    wait::before_first_wait(|| {}, || {}, call)
}

/// Whether a request and its free run the hook.
fn pair_waits(resource: &Any, stream: &CudaStream, layout: Layout) -> (bool, bool) {
    let (block, allocating) = waits(|| resource.allocate(stream, layout).expect("memory"));
    let ((), freeing) = waits(|| give_back(resource, stream, block, layout));
    (allocating, freeing)
}

fn give_back(resource: &impl Resource, stream: &CudaStream, block: DevicePtr, layout: Layout) {
    // SAFETY: every test allocates the block with this layout, and orders its uses before this.
    unsafe { resource.deallocate(stream, block, layout) }
}

fn pool_of(bytes: u64) -> Pool {
    Pool::builder(CudaMemoryResource::new()).initial_size(bytes).build().expect("a pool")
}

fn cuda_pool() -> Pool {
    pool_of(16 << 20)
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

/// A kind of resource, and whether the hook runs in a request of what is cached, and in its free.
struct Kind {
    name: &'static str,
    make: fn() -> Any,
    waits: (bool, bool),
    layout: Layout,
}

fn kinds() -> Vec<Kind> {
    const NEVER: (bool, bool) = (false, false);
    const BOTH: (bool, bool) = (true, true);
    let kind = |name, waits, make| Kind { name, make, waits, layout: layout(1000) };
    let aligned = Layout::from_size_align(1000, 4096).expect("a layout");
    vec![
        kind("pool", NEVER, || Any::new(cuda_pool())),
        kind("pool that checks frees", NEVER, || {
            let builder = Pool::builder(CudaMemoryResource::new()).initial_size(16 << 20);
            Any::new(builder.check_frees(true).build().expect("a pool"))
        }),
        Kind {
            layout: layout(3 * MIB),
            ..kind("pool, large", NEVER, || Any::new(pool_of(1 << 28)))
        },
        kind("adaptor!", NEVER, || Any::new(Passing { upstream: cuda_pool() })),
        kind("fixed-size", NEVER, || {
            let builder = FixedSizeMemoryResource::builder(CudaMemoryResource::new());
            Any::new(builder.block_size(4096).build().expect("blocks"))
        }),
        kind("binning", NEVER, || {
            let builder = BinningMemoryResource::builder(cuda_pool());
            Any::new(builder.bin(4096).expect("a bin").build())
        }),
        kind("arena", NEVER, || {
            let builder = ArenaMemoryResource::builder(CudaMemoryResource::new());
            Any::new(builder.arena_size(16 << 20).build().expect("an arena"))
        }),
        Kind {
            layout: aligned,
            ..kind("aligned", NEVER, || {
                Any::new(AlignedResourceAdaptor::new(cuda_pool(), 256).expect("a power of two"))
            })
        },
        kind("callback", BOTH, || Any::new(callback(cuda_pool()))),
        kind("failure-callback", NEVER, || {
            Any::new(FailureCallbackResourceAdaptor::new(cuda_pool(), |_| panic!("no failure")))
        }),
        kind("fallback", NEVER, || Any::new(FallbackMemoryResource::new(cuda_pool(), cuda_pool()))),
        kind("fallback, from the second", NEVER, || {
            let first = LimitingResourceAdaptor::new(cuda_pool(), 0);
            Any::new(FallbackMemoryResource::new(first, cuda_pool()))
        }),
        kind("limiting", NEVER, || Any::new(LimitingResourceAdaptor::new(cuda_pool(), 1 << 20))),
        kind("logging", BOTH, || {
            let writer = std::io::sink();
            Any::new(LoggingResourceAdaptor::to_writer(cuda_pool(), writer).expect("a log"))
        }),
        kind("prefetch", NEVER, || Any::new(PrefetchResourceAdaptor::new(cuda_pool()))),
        kind("prefetch, managed", (true, false), || {
            let managed = PoolMemoryResource::builder(ManagedMemoryResource::new());
            Any::new(PrefetchResourceAdaptor::new(managed.build().expect("a pool")))
        }),
        kind("statistics", NEVER, || Any::new(StatisticsResourceAdaptor::new(cuda_pool()))),
        kind("tagged", NEVER, || Any::new(TaggedResourceAdaptor::new(cuda_pool()))),
        kind("thread-safe", NEVER, || Any::new(ThreadSafeResourceAdaptor::new(cuda_pool()))),
        kind("tracking", NEVER, || Any::new(TrackingResourceAdaptor::new(cuda_pool()))),
        kind("no pool", BOTH, || Any::new(CudaMemoryResource::new())),
    ]
}

#[derive(Debug)]
struct Passing<R> {
    upstream: R,
}

rmm_core::adaptor! {
    Passing<R> over upstream, name = "passing";
    fn allocate(&self, below, layout) { below.allocate(layout) }
    fn freed(&self, _layout) {}
}

/// Allocates and frees until every cache is warm, and keeps one block.
fn warm_up(resource: &Any, stream: &CudaStream, layout: Layout) -> DevicePtr {
    let stays = resource.allocate(stream, layout).expect("memory");
    for _ in 0..20 {
        let block = resource.allocate(stream, layout).expect("memory");
        give_back(resource, stream, block, layout);
    }
    stays
}

#[test]
fn what_is_cached_is_served_without_the_hook() {
    for Kind { name, make, waits: expected, layout } in kinds() {
        let machine = Machine::builder().memory(1 << 30).enter();
        let (resource, stream) = (make(), stream());
        let stays = warm_up(&resource, &stream, layout);
        for after in ["one thread", "a second one"] {
            let calls = machine.calls();
            assert_eq!(pair_waits(&resource, &stream, layout), expected, "{name}, after {after}");
            assert_eq!(machine.calls() > calls, name == "no pool" || name == "prefetch, managed");
            thread::scope(|scope| {
                scope.spawn(|| {
                    let _entered = machine.enter();
                    let block = resource.allocate(&stream, layout).expect("memory");
                    give_back(&resource, &stream, block, layout);
                });
            });
            // The other thread took the cache along.
            let _warm = pair_waits(&resource, &stream, layout);
        }
        give_back(&resource, &stream, stays, layout);
        machine.assert_no_violations();
    }
}

#[test]
fn growth_and_the_identification_of_a_stream_run_the_hook() {
    let (_machine, _entered, pool, [theirs]) = pool(|builder| builder);
    let any = Any::new(pool);
    let (block, has_waited) = waits(|| any.allocate(&theirs, layout(1000)).expect("memory"));
    assert!(has_waited, "it calls the upstream");
    give_back(&any, &theirs, block, layout(1000));
    // SAFETY: `theirs` outlives it.
    let unknown = unsafe { CudaStream::adopt(theirs.as_raw(), StreamLifetime::Unknown) };
    let unknown = unknown.expect("a stream");
    let stays = warm_up(&any, &unknown, layout(1000));
    assert_eq!(pair_waits(&any, &unknown, layout(1000)), (true, true), "the driver is asked");
    give_back(&any, &unknown, stays, layout(1000));
}

#[test]
fn a_free_that_reaches_the_driver_runs_the_hook() {
    let (_machine, _entered, pool, [stream]) = pool(|builder| builder);
    let block = pool.allocate(&stream, layout(8 * MIB)).expect("memory");
    free(&pool, &stream, block, 8 * MIB);
    let (returned, has_waited) = waits(|| pool.trim(0));
    assert!(returned > 0 && has_waited);
}

/// The size of requests that wait at the gate.
const GATED: usize = 5000;

/// Lets a thread say that it has arrived, and go on once it is told to.
#[derive(Debug)]
struct Gate {
    arrived: Sender<()>,
    go_on: Mutex<Receiver<()>>,
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
            self.gate.arrived.send(()).expect("the test waits for it");
            let go_on = self.gate.go_on.lock().unwrap_or_else(PoisonError::into_inner);
            go_on.recv_timeout(LONG).expect("the other thread runs its hook before it waits");
        }
        below.allocate(layout)
    }
}

thread_local! {
    static SIGNAL: Cell<Option<Sender<()>>> = const { Cell::new(None) };
}

fn signal() {
    SIGNAL.take().expect("it runs once").send(()).expect("the thread waits");
}

#[test]
fn a_lock_that_another_thread_has_runs_the_hook() {
    for is_shared in [false, true] {
        let machine = lazy_machine().enter();
        let (pool, stream) = (cuda_pool(), stream());
        let (arrived, arrivals) = channel();
        let (signals, go_on) = channel();
        let gate = Arc::new(Gate { arrived, go_on: Mutex::new(go_on) });
        let locked = ThreadSafeResourceAdaptor::new(Gated { upstream: pool, gate });
        if is_shared {
            let block = locked.allocate(&stream, layout(1)).expect("memory");
            give_back(&locked, &stream, block, layout(1));
        }
        thread::scope(|scope| {
            scope.spawn(|| {
                let _entered = machine.enter();
                let block = locked.allocate(&stream, layout(GATED)).expect("memory");
                give_back(&locked, &stream, block, layout(GATED));
            });
            arrivals.recv_timeout(LONG).expect("the thread arrives");
            SIGNAL.set(Some(signals));
            let allocate = || locked.allocate(&stream, layout(1000)).expect("memory");
            let (block, has_waited) = wait::before_first_wait(signal, || {}, allocate);
            assert!(has_waited);
            give_back(&locked, &stream, block, layout(1000));
        });
    }
}
