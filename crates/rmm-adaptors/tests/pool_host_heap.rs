//! Host memory: after warm-up, the fast paths of the pool and the adaptors allocate none.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Barrier;
use std::thread;

use rmm_adaptors::{
    AlignedResourceAdaptor, FailureCallbackResourceAdaptor, FallbackMemoryResource,
    LimitingResourceAdaptor, LoggingResourceAdaptor, PoolMemoryResource, StatisticsResourceAdaptor,
    TaggedResourceAdaptor, ThreadSafeResourceAdaptor, TrackingResourceAdaptor,
};
use rmm_core::{CudaStream, DevicePtr, Resource, StreamFlags};
use rmm_resources::CudaMemoryResource;
use rmm_sim::{Machine, Schedule};

/// The system allocator, which counts the requests of each thread and the bytes in use.
struct Counting;

thread_local! {
    static REQUESTS: Cell<u64> = const { Cell::new(0) };
    static BYTES: Cell<i64> = const { Cell::new(0) };
}

fn count(bytes: usize) {
    // Thread-locals of an ending thread are gone: it is not counted.
    let _ignored = REQUESTS.try_with(|requests| requests.set(requests.get() + 1));
    note(bytes, 0);
}

fn note(more: usize, less: usize) {
    let bytes = |bytes: usize| i64::try_from(bytes).unwrap_or(i64::MAX);
    let _ignored = BYTES.try_with(|all| all.set(all.get() + bytes(more) - bytes(less)));
}

// SAFETY: every call goes to the system allocator, which keeps the contract.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's contract is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        note(0, layout.size());
        // SAFETY: the caller's contract is the same.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size);
        note(0, layout.size());
        // SAFETY: the caller's contract is the same.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn requests() -> u64 {
    REQUESTS.with(Cell::get)
}

type Pool = PoolMemoryResource;

/// Blocks of a mix that are live at the same time.
const LIVE: usize = 64;

fn pool() -> Pool {
    Pool::builder(CudaMemoryResource::new()).initial_size(256 << 20).build().expect("a pool")
}

fn streams(number: usize) -> Vec<CudaStream> {
    (0..number)
        .map(|_| CudaStream::with_flags(StreamFlags::NON_BLOCKING, 0).expect("a stream"))
        .collect()
}

/// What was counted during a mix.
#[derive(Debug, Default)]
struct Seen {
    steps: u32,
    /// Steps that call the driver: the software device itself allocates host memory.
    with_driver: u32,
    /// Requests for host memory in all other steps.
    requests: u64,
}

/// Frees and allocates blocks of many sizes, on each stream in turn, again and again.
fn mix(machine: &Machine, pool: &Pool, streams: &[CudaStream], rounds: u32) -> Seen {
    let mut seen = Seen::default();
    let mut live = [(DevicePtr::NULL, Layout::new::<()>()); LIVE];
    let mut step = |round: u32, index: usize, is_last: bool| {
        let stream = streams[index % streams.len()].as_stream_ref();
        let (block, old) = live[index];
        // Sizes from 256 bytes to 1 MiB, different ones in each of eight rounds.
        let bytes = (256usize << ((index * 7 + round as usize % 8) % 12)) + index * 8;
        let new = Layout::from_size_align(bytes, 256).expect("a small size");
        let (calls, before) = (machine.calls(), requests());
        if old.size() > 0 {
            // SAFETY: the blocks in `live` were allocated with these layouts; nothing uses them.
            unsafe { pool.deallocate(stream, block, old) };
        }
        let allocated = if is_last { Ok(DevicePtr::NULL) } else { pool.allocate(stream, new) };
        let asked = requests() - before;
        seen.steps += 1;
        if machine.calls() == calls {
            seen.requests += asked;
        } else {
            seen.with_driver += 1;
        }
        live[index] =
            (allocated.expect("there is room"), if is_last { Layout::new::<()>() } else { new });
    };
    for round in 0..rounds {
        (0..LIVE).for_each(|index| step(round, index, round + 1 == rounds));
    }
    seen
}

fn assert_free_of_requests(seen: &Seen) {
    assert_eq!(seen.requests, 0, "{seen:?}");
    assert!(seen.with_driver * 10 < seen.steps, "the fast path is the usual one: {seen:?}");
}

#[test]
fn the_pool_allocates_none_on_one_stream() {
    let machine = Machine::builder().schedule(Schedule::Eager).checks(false).enter();
    let (pool, streams) = (pool(), streams(1));
    assert!(mix(&machine, &pool, &streams, 40).requests > 0, "the metadata grow at first");
    let seen = mix(&machine, &pool, &streams, 40);
    assert_free_of_requests(&seen);
    assert_eq!(seen.with_driver, 0, "one stream alone needs no events");
}

#[test]
fn the_pool_allocates_none_on_several_streams() {
    let machine = Machine::builder().schedule(Schedule::Eager).checks(false).enter();
    let (pool, streams) = (pool(), streams(8));
    mix(&machine, &pool, &streams, 80);
    assert_free_of_requests(&mix(&machine, &pool, &streams, 80));
}

#[test]
fn the_pool_allocates_almost_none_on_several_threads() {
    const THREADS: usize = 4;
    const RUNS: usize = 20;
    let machine = Machine::builder().schedule(Schedule::Eager).checks(false).enter();
    let (pool, start) = (pool(), Barrier::new(THREADS));
    let seen: Vec<Seen> = thread::scope(|scope| {
        let work = || {
            let _entered = machine.enter();
            let streams = streams(1);
            mix(&machine, &pool, &streams, 80);
            start.wait();
            (0..RUNS).map(|_| mix(&machine, &pool, &streams, 40)).collect::<Vec<Seen>>()
        };
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    // How the blocks of the threads interleave differs from run to run, so the metadata may still
    // grow, by doubling: rarely, and not with the number of calls.
    let requests: u64 = seen.iter().map(|seen| seen.requests).sum();
    assert!(
        requests < 16,
        "{requests} in {} steps",
        seen.iter().map(|seen| seen.steps).sum::<u32>()
    );
    let quiet = seen.iter().filter(|seen| seen.requests == 0).count();
    assert!(quiet > THREADS * RUNS / 2, "{quiet} of {} runs without a request", seen.len());
    assert!(seen.iter().all(|seen| seen.with_driver < seen.steps), "{seen:?}");
}

/// The pool's own count of its metadata agrees with the host heap, and is small.
#[test]
fn metadata_is_small_and_reported() {
    const BLOCKS: usize = 100_000;
    let machine = Machine::builder().schedule(Schedule::Eager).checks(false).enter();
    let builder = Pool::builder(CudaMemoryResource::new()).initial_size(64 << 20);
    let (pool, streams) = (builder.check_frees(false).build().expect("a pool"), streams(1));
    let on = streams[0].as_stream_ref();
    let layout = Layout::from_size_align(256, 256).expect("a small size");
    let mut live = Vec::with_capacity(BLOCKS);
    let reported = || i64::try_from(pool.statistics().bookkeeping_bytes).expect("a small number");
    let (calls, bytes, before) = (machine.calls(), BYTES.get(), reported());
    for _ in 0..BLOCKS {
        live.push(pool.allocate(on, layout).expect("there is room"));
    }
    assert_eq!(machine.calls(), calls);
    let (more, more_reported) = (BYTES.get() - bytes, reported() - before);
    assert!(
        (more - more_reported).abs() * 50 < more,
        "{more_reported} bytes are reported, {more} are held"
    );
    let metadata = reported();
    assert!(metadata <= 64 * 100_000 + (1 << 20), "{metadata} bytes for {BLOCKS} blocks");
    for block in live {
        // SAFETY: allocated above with this layout; nothing uses it.
        unsafe { pool.deallocate(on, block, layout) };
    }
    pool.trim(0);
    assert!(reported() <= 1 << 20, "{} bytes for nothing", reported());
    assert!(reported() <= before + (64 << 10), "{} bytes, {before} at first", reported());
}

/// A free that allocates host memory could fail, in a place where nothing may.
#[test]
fn adaptors_allocate_no_host_memory_after_warm_up() {
    let _machine = Machine::builder().schedule(Schedule::Eager).checks(false).enter();
    let (pool, stream) = (pool(), streams(1).remove(0));
    let over = || pool.clone();
    let writer = std::io::BufWriter::new(std::io::sink());
    let adaptors: [Box<dyn Resource>; 9] = [
        Box::new(AlignedResourceAdaptor::new(over(), 4096).expect("a power of two")),
        Box::new(FailureCallbackResourceAdaptor::new(over(), |_| false)),
        Box::new(FallbackMemoryResource::new(over(), CudaMemoryResource::new())),
        Box::new(LimitingResourceAdaptor::new(over(), 1 << 30)),
        Box::new(LoggingResourceAdaptor::to_writer(over(), writer).expect("a header")),
        Box::new(StatisticsResourceAdaptor::new(over())),
        Box::new(TaggedResourceAdaptor::new(over())),
        Box::new(ThreadSafeResourceAdaptor::new(over())),
        Box::new(TrackingResourceAdaptor::new(over())),
    ];
    let layout = Layout::from_size_align(1000, 256).expect("a small size");
    for adaptor in adaptors {
        let mut blocks = [DevicePtr::NULL; LIVE];
        let (mut in_allocations, mut in_frees) = (0, 0);
        for round in 0..8 {
            let before = requests();
            for block in &mut blocks {
                *block = adaptor.allocate(&stream, layout).expect("there is room");
            }
            let between = requests();
            for block in blocks {
                // SAFETY: allocated above with this layout, and not used.
                unsafe { adaptor.deallocate(&stream, block, layout) };
            }
            // Tables grow with the first blocks; frees do not grow them.
            in_allocations += if round < 2 { 0 } else { between - before };
            in_frees += if round == 0 { 0 } else { requests() - between };
        }
        assert_eq!((in_allocations, in_frees), (0, 0), "{}", adaptor.name());
    }
}
