//! Memory that was freed on default streams, and on streams of others, is within reach of every
//! other stream: without growth, with few driver calls, and without leaving metadata behind.

use std::sync::mpsc::channel;
use std::thread;

use rmm_adaptors::PoolMemoryResource;
use rmm_core::{CudaStream, Device, DevicePtr, Resource, StreamLifetime, StreamRef};
use rmm_resources::{CudaMemoryResource, VirtualMemoryResource};
use rmm_sim::{Machine, Schedule};

use crate::support::{MIB, free, layout, mib, stream, write};

/// The number of blocks, of [`BYTES`] each, that fill a pool.
const BLOCKS: usize = 16;
const BYTES: usize = MIB / 4;
const LIMIT: u64 = (BLOCKS * BYTES) as u64;
/// Driver calls for all blocks together, that another stream freed and this one frees again, at
/// most: a few events serve them all. One more call for each block would be above it on every
/// stream, since none makes fewer than 6.
const CALLS_OF_ALL: u64 = 20;

/// Runs with a pool that cannot grow past its blocks, over the driver's memory and over virtual
/// memory.
fn with_full_pools(program: impl Fn(&Machine, &dyn FullPool)) {
    for schedule in [Schedule::Lazy, Schedule::Eager, Schedule::Seeded(7)] {
        let machine = Machine::builder().memory(64 << 20).schedule(schedule).enter();
        let over_memory = PoolMemoryResource::builder(CudaMemoryResource::new());
        program(&machine, &over_memory.maximum_size(LIMIT).build().expect("a pool"));
        let upstream = VirtualMemoryResource::new().expect("virtual memory");
        let over_addresses = PoolMemoryResource::builder(upstream).maximum_size(LIMIT);
        program(&machine, &over_addresses.build().expect("a pool"));
        machine.run_all();
        machine.assert_no_violations();
    }
}

/// A pool.
trait FullPool: Sync {
    fn take(&self, stream: StreamRef<'_>) -> DevicePtr;
    fn give(&self, stream: StreamRef<'_>, block: DevicePtr);
    fn reserved(&self) -> u64;
}

impl FullPool for PoolMemoryResource {
    fn take(&self, stream: StreamRef<'_>) -> DevicePtr {
        self.allocate(stream, layout(BYTES)).expect("everything was freed")
    }

    fn give(&self, stream: StreamRef<'_>, block: DevicePtr) {
        free(self, stream, block, BYTES);
    }

    fn reserved(&self) -> u64 {
        self.reserved_bytes()
    }
}

/// Allocates all memory on a stream, uses it there, and frees it.
fn use_all(machine: &Machine, pool: &dyn FullPool, stream: &CudaStream) {
    let blocks = [(); BLOCKS].map(|()| pool.take(stream.as_stream_ref()));
    for (block, tag) in blocks.into_iter().zip(1..) {
        write(machine, stream, block, tag);
        pool.give(stream.as_stream_ref(), block);
    }
}

/// Uses all memory on a stream, and fails if that took more memory or many driver calls.
fn reuse_all(machine: &Machine, pool: &dyn FullPool, stream: &CudaStream) {
    let (reserved, calls) = (pool.reserved(), machine.calls());
    use_all(machine, pool, stream);
    // The writes of this test are not calls.
    let calls = machine.calls() - calls;
    assert_eq!(pool.reserved(), reserved, "the pool has grown");
    assert!(calls <= CALLS_OF_ALL, "{calls} driver calls for {BLOCKS} blocks");
}

/// The streams that reuse what others freed.
fn heirs() -> [CudaStream; 4] {
    let blocking = CudaStream::new().expect("a stream");
    [stream(), blocking, CudaStream::per_thread(), CudaStream::legacy()]
}

/// Runs on another thread, with the device current.
fn on_a_thread(machine: &Machine, run: impl FnOnce() + Send) {
    thread::scope(|scope| {
        let run = || {
            let _entered = machine.enter();
            let _current = Device::new(0).and_then(Device::make_current).expect("a device");
            run();
        };
        scope.spawn(run).join().expect("it ends well");
    });
}

#[test]
fn frees_of_an_ended_thread_are_in_reach_of_others() {
    with_full_pools(|machine, pool| {
        for heir in heirs() {
            on_a_thread(machine, || use_all(machine, pool, &CudaStream::per_thread()));
            reuse_all(machine, pool, &heir);
        }
    });
}

#[test]
fn frees_of_a_sleeping_thread_are_in_reach_of_others() {
    with_full_pools(|machine, pool| {
        for heir in heirs() {
            let (freed, is_freed) = channel();
            let (wake, is_woken) = channel::<()>();
            thread::scope(|scope| {
                scope.spawn(move || {
                    let _entered = machine.enter();
                    let _current = Device::new(0).and_then(Device::make_current).expect("a device");
                    use_all(machine, pool, &CudaStream::per_thread());
                    freed.send(()).expect("the other thread waits");
                    // Asleep until the other thread has used all memory.
                    is_woken.recv().expect_err("the sender is dropped");
                });
                is_freed.recv().expect("the thread has freed all");
                reuse_all(machine, pool, &heir);
                drop(wake);
            });
        }
    });
}

#[test]
fn frees_on_the_legacy_stream_are_in_reach_of_others() {
    with_full_pools(|machine, pool| {
        for heir in heirs() {
            use_all(machine, pool, &CudaStream::legacy());
            reuse_all(machine, pool, &heir);
        }
    });
}

#[test]
fn frees_on_a_destroyed_foreign_stream_are_in_reach_of_others() {
    with_full_pools(|machine, pool| {
        for heir in heirs() {
            let owner = stream();
            // SAFETY: the owner lives during all calls with it.
            let adopted = unsafe { CudaStream::adopt(owner.as_raw(), StreamLifetime::Unknown) };
            use_all(machine, pool, &adopted.expect("it exists"));
            drop(owner);
            reuse_all(machine, pool, &heir);
        }
    });
}

/// Streams of others come and go, each with one allocation and free.
fn come_and_go(lifetime: StreamLifetime) {
    let streams = if cfg!(debug_assertions) { 20_000 } else { 1_000_000 };
    let machine = Machine::builder().memory(1 << 30).schedule(Schedule::Eager).checks(false);
    let _machine = machine.enter();
    let builder = PoolMemoryResource::builder(CudaMemoryResource::new());
    // As in a release build: otherwise each free searches all caches.
    let pool = builder.initial_size(mib(64)).check_frees(false).build().expect("a pool");
    let mut most = 0;
    for number in 0..streams {
        let owner = stream();
        // SAFETY: the owner outlives it.
        let adopted = unsafe { CudaStream::adopt(owner.as_raw(), lifetime) };
        let adopted = adopted.expect("it exists");
        let block = pool.allocate(&adopted, layout(4096)).expect("a block");
        free(&pool, &adopted, block, 4096);
        if number == streams / 10 {
            most = pool.statistics().bookkeeping_bytes;
        }
    }
    let bytes = pool.statistics().bookkeeping_bytes;
    assert!(bytes <= most * 3 / 2, "{most} bytes after a tenth, {bytes} at the end");
    // Not more caches, of 49 KiB, than one thread has slots for streams that come one by one.
    assert!(bytes <= 6 << 20, "{bytes} bytes");
    assert_eq!(pool.reserved_bytes(), mib(64), "the pool has grown");
}

#[test]
fn foreign_streams_that_end_leave_no_metadata() {
    come_and_go(StreamLifetime::UntilDropped);
}

#[test]
fn foreign_streams_of_unknown_end_leave_no_metadata() {
    come_and_go(StreamLifetime::Unknown);
}
