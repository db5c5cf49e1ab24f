//! Steady states of many streams: what a call costs does not grow with the number of streams.
//!
//! Each program runs with 8, 64 and 512 streams in a pool that is full but for half of its blocks,
//! and counts driver calls, which take from 60 to 180 ns each.

use std::collections::VecDeque;
use std::time::Duration;

use rmm_core::sys::{CuCaptureMode, CuGraph};
use rmm_core::{CudaStream, DevicePtr, Resource, StreamLifetime, current_driver};
use rmm_resources::CudaMemoryResource;
use rmm_sim::{Kernel, Machine, MachineBuilder, Schedule};

use crate::support::{MIB, Pool, free, layout, stream};

const STREAMS: [usize; 3] = [8, 64, 512];
const OPERATIONS: usize = 2048;
/// So large that few are cached.
const BYTES: usize = 2 * MIB;

fn machine(schedule: Schedule) -> MachineBuilder {
    Machine::builder().memory(8 << 30).schedule(schedule).checks(false)
}

/// A pool of `blocks` blocks, which cannot grow.
fn pool(blocks: usize) -> Pool {
    let bytes = (blocks * BYTES) as u64;
    let builder = Pool::builder(CudaMemoryResource::new()).check_frees(false);
    builder.initial_size(bytes).maximum_size(bytes).build().expect("a pool")
}

/// The stream, as a library knows it that was given its handle alone.
fn unknown(owner: &CudaStream) -> CudaStream {
    // SAFETY: every test keeps the owner while it passes the result to a pool.
    unsafe { CudaStream::adopt(owner.as_raw(), StreamLifetime::Unknown) }.expect("it exists")
}

/// A linear congruential generator (Knuth's).
struct Random(u64);

impl Random {
    fn one_of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        let random = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = random.wrapping_add(1_442_695_040_888_963_407);
        &all[(self.0 >> 33) as usize % all.len()]
    }
}

/// How often the driver was called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Calls {
    all: u64,
    captures: u64,
}

impl Calls {
    fn of(machine: &Machine) -> Self {
        let counts = machine.call_counts();
        let captures = counts.iter().find(|(name, _)| *name == "cuStreamIsCapturing");
        Self { all: machine.calls(), captures: captures.map_or(0, |&(_, count)| count) }
    }

    /// Checks how many there were for each operation, and how many questions about captures.
    #[track_caller]
    fn are_at_most(self, all: u64, captures: u64, streams: usize) {
        let operations = OPERATIONS as u64;
        let is_bounded = self.all <= all * operations && self.captures <= captures * operations;
        assert!(is_bounded, "{streams} streams, {operations} operations: {self:?}");
    }
}

/// The calls of [`OPERATIONS`] operations in a steady state.
fn calls(machine: &Machine, mut operation: impl FnMut()) -> Calls {
    (0..OPERATIONS).for_each(|_| operation());
    let before = Calls::of(machine);
    (0..OPERATIONS).for_each(|_| operation());
    let after = Calls::of(machine);
    Calls { all: after.all - before.all, captures: after.captures - before.captures }
}

/// The calls of operations that each allocate a block on one of `users` and free another on one of
/// `donors`, in a pool of `blocks` blocks, half of which are live.
fn handoffs(
    machine: &Machine,
    blocks: usize,
    users: &[CudaStream],
    donors: &[CudaStream],
) -> Calls {
    let pool = pool(blocks);
    let mut random = Random(7);
    let mut live: VecDeque<DevicePtr> = VecDeque::new();
    let calls = calls(machine, || {
        let user = random.one_of(users);
        live.push_back(pool.allocate(user, layout(BYTES)).expect("half of the memory is free"));
        if live.len() > blocks / 2 {
            let block = live.pop_front().expect("one was allocated");
            free(&pool, random.one_of(donors), block, BYTES);
        }
    });
    assert_eq!(pool.statistics().host_waits, 0);
    calls
}

/// Streams that are all known to exist, with memory for two blocks on each.
fn own_streams(count: usize) -> (Vec<CudaStream>, usize) {
    ((0..count).map(|_| stream()).collect(), 2 * count.max(32))
}

/// The host runs ahead of the device by far: no question finds anything complete.
#[test]
fn requests_beside_streams_that_lag_behind_ask_about_a_few() {
    for count in STREAMS {
        let machine = machine(Schedule::Timed).enter();
        let (streams, blocks) = own_streams(count);
        for stream in &streams {
            keep_busy_for_long(&machine, stream);
        }
        let calls = handoffs(&machine, blocks, &streams, &streams);
        calls.are_at_most(24, 3, count);
    }
}

/// Enqueues work that does not complete during the test.
fn keep_busy_for_long(machine: &Machine, stream: &CudaStream) {
    let work = Kernel::new("long", |_| {}).lasts(Duration::from_secs(1_000_000));
    machine.launch(stream.as_raw(), work).expect("a launch");
}

#[test]
fn a_request_for_neighbours_waits_for_their_owners_alone() {
    for count in STREAMS {
        let machine = machine(Schedule::Timed).enter();
        let (streams, _) = own_streams(count);
        let (pool, heir) = (pool(count), stream());
        let allocate = |stream| pool.allocate(stream, layout(BYTES)).expect("one for each");
        let blocks: Vec<_> = streams.iter().map(allocate).collect();
        for (stream, block) in streams.iter().zip(blocks) {
            keep_busy_for_long(&machine, stream);
            free(&pool, stream, block, BYTES);
        }
        pool.allocate(&heir, layout(2 * BYTES)).expect("two neighbours");
        let statistics = pool.statistics();
        assert_eq!((statistics.stream_waits, statistics.host_waits), (2, 0), "{count} streams");
    }
}

#[test]
fn a_pool_asks_about_all_streams_before_it_grows() {
    for count in STREAMS {
        let machine = machine(Schedule::Timed).enter();
        let (streams, _) = own_streams(count);
        let builder = Pool::builder(CudaMemoryResource::new()).check_frees(false);
        let pool = builder.initial_size((BYTES * (count + 1)) as u64).build().expect("a pool");
        let (idle, heir) = (stream(), stream());
        let allocate = |stream: &CudaStream, bytes| {
            pool.allocate(stream, layout(bytes)).expect("there is room")
        };
        let blocks: Vec<_> = streams.iter().map(|stream| allocate(stream, BYTES)).collect();
        // The blocks between them stay live.
        for (stream, block) in streams.iter().zip(blocks).step_by(2) {
            keep_busy_for_long(&machine, stream);
            free(&pool, stream, block, BYTES);
        }
        let last = allocate(&idle, BYTES);
        free(&pool, &idle, last, BYTES);
        let reserved = pool.reserved_bytes();
        allocate(&heir, BYTES);
        assert_eq!(pool.reserved_bytes(), reserved, "{count} streams: the pool has grown");
        assert_eq!(pool.statistics().stream_waits, 0);
    }
}

#[test]
fn requests_beside_streams_that_are_idle_ask_about_a_few() {
    for count in STREAMS {
        let machine = machine(Schedule::Eager).enter();
        let (streams, blocks) = own_streams(count);
        handoffs(&machine, blocks, &streams, &streams).are_at_most(2, 1, count);
    }
}

/// Before an event of the context all streams that the pool knows to exist are asked.
#[test]
fn events_of_the_context_ask_one_stream_for_each_free() {
    for count in STREAMS {
        let machine = machine(Schedule::Eager).enter();
        let (streams, blocks) = own_streams(count);
        let owners: Vec<_> = (0..count).map(|_| stream()).collect();
        let theirs: Vec<_> = owners.iter().map(unknown).collect();
        for donors in [&theirs[..], &theirs[..4], &[CudaStream::per_thread()]] {
            handoffs(&machine, blocks, &streams, donors).are_at_most(4, 2, count);
        }
        // Other memory serves until the questions are paid for.
        let all: Vec<_> = streams.iter().chain(&theirs[..count / 4]).cloned().collect();
        handoffs(&machine, 128, &streams, &all).are_at_most(12, 3, count);
    }
}

/// Passes a block through the pool on streams of unknown lifetime that come and go, beside others.
/// Before that it does what is asked for, once the pool knows the others.
fn beside_others(machine: &Machine, streams: &[CudaStream], once_known: impl FnOnce()) -> Calls {
    // Room for all blocks that streams leave behind while no event can be recorded.
    let pool = pool(streams.len() + 64);
    for stream in streams {
        let block = pool.allocate(stream, layout(BYTES)).expect("one for each");
        free(&pool, stream, block, BYTES);
    }
    once_known();
    calls(machine, || {
        let owner = stream();
        let theirs = unknown(&owner);
        let block = pool.allocate(&theirs, layout(4096)).expect("memory");
        free(&pool, &theirs, block, 4096);
    })
}

#[test]
fn streams_that_come_and_go_ask_a_few_of_the_others() {
    // Before CUDA 12.5 there is no event of the context.
    for (count, version) in STREAMS.into_iter().flat_map(|count| [(count, 13000), (count, 12040)]) {
        let machine = machine(Schedule::Eager).driver_version(version).enter();
        let (streams, _) = own_streams(count);
        beside_others(&machine, &streams, || {}).are_at_most(24, 4, count);
    }
}

/// It was not announced, so the pool asks about captures before each event of the context.
#[test]
fn a_capture_that_goes_on_is_found_by_a_question_or_two() {
    for count in STREAMS {
        let machine = machine(Schedule::Eager).enter();
        let (streams, _) = own_streams(count);
        let (driver, last) = (current_driver().expect("a driver"), streams[count - 1].as_raw());
        let calls = beside_others(&machine, &streams, || {
            // SAFETY: the stream lives.
            let code = unsafe { driver.cuStreamBeginCapture_v2(last, CuCaptureMode::RELAXED) };
            assert!(code.is_success(), "{code:?}");
        });
        calls.are_at_most(24, 4, count);
        let mut graph = CuGraph::NULL;
        // SAFETY: the stream lives, and `graph` may be written to.
        let code = unsafe { driver.cuStreamEndCapture(last, &raw mut graph) };
        assert!(code.is_success(), "{code:?}: the capture is spoilt");
        // SAFETY: the graph was made above.
        let _ignored = unsafe { driver.cuGraphDestroy(graph) };
    }
}
