//! Tests of threads that use a pool while another one puts it to sleep and wakes it.

use std::alloc::Layout;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use rmm_adaptors::{Contents, PoolMemoryResource};
use rmm_core::siblings::MayBeWaitedFor;
use rmm_core::{
    Device, DevicePtr, Error, ExtendableResource, Query, Resource, Structure, SynchronousResource,
};
use rmm_resources::VirtualMemoryResource;
use rmm_sim::Schedule;

use crate::pool_sleep::{description, pool, sleep};
use crate::support::{MIB, base_seed, free, layout, stream};

/// Threads that allocate and free meanwhile get memory, or the error: never an address twice, and
/// none of a pool that sleeps.
#[test]
fn threads_go_on_while_the_pool_sleeps_and_wakes() {
    for seed in 0..6 {
        let machine = description(Schedule::Seeded(seed ^ base_seed())).build();
        let entered = machine.enter();
        // One stream without work: what threads free is complete.
        let (pool, stream) = (pool(), stream());
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            for number in 0..3_usize {
                let (machine, pool, stream) = (&machine, pool.clone(), stream.clone());
                let is_over = &is_over;
                scope.spawn(move || {
                    let _entered = machine.enter();
                    let _current = Device::new(0).and_then(Device::make_current).expect("a device");
                    let mut live = Vec::new();
                    let mut turn = 0_usize;
                    while !is_over.load(Ordering::Relaxed) || !live.is_empty() {
                        turn += 1;
                        let size = [1000, 40 << 10, 3 * MIB][(turn * 7 + number) % 3];
                        let allocated = (live.len() < 8 && !is_over.load(Ordering::Relaxed))
                            .then(|| pool.allocate(&stream, layout(size)));
                        match allocated {
                            Some(Ok(block)) => live.push((block, size)),
                            Some(Err(error)) => {
                                let is_known = error.is_not_ready() || error.is_out_of_memory();
                                assert!(is_known, "{error}");
                            }
                            None => {}
                        }
                        if live.len() > 5 || has_turn(&live, turn) {
                            let (block, size) = live.pop().expect("there is one");
                            free(&pool, &stream, block, size);
                        }
                    }
                });
            }
            for cycle in 0..40 {
                let contents = if cycle % 2 == 0 { Contents::ToHost } else { Contents::Discard };
                sleep(&pool, contents).expect("it falls asleep");
                assert!(pool.is_asleep());
                pool.wake().expect("it wakes up");
            }
            is_over.store(true, Ordering::Relaxed);
        });
        assert_eq!(pool.statistics().live_bytes, 0);
        drop((pool, stream, entered));
        machine.assert_no_violations();
        assert!(machine.leaks().is_empty(), "{:?}", machine.leaks());
    }
}

/// Whether a thread should free a block although it holds few.
fn has_turn(live: &[(DevicePtr, usize)], turn: usize) -> bool {
    live.len() > turn % 6
}

/// Virtual memory whose allocations wait until the test lets them go on.
#[derive(Debug)]
struct Gate {
    upstream: VirtualMemoryResource,
    /// Notifies of an allocation, and receives the end of the wait.
    next: Mutex<Option<(Sender<()>, Receiver<()>)>>,
}

crate::below_a_pool::below_a_pool!([] Gate);

// SAFETY: the contract is kept by the virtual memory; calls are only delayed.
unsafe impl SynchronousResource for Gate {
    fn name(&self) -> &'static str {
        "gate"
    }

    fn do_allocate_sync(&self, layout: Layout) -> Result<DevicePtr, Error> {
        let next = self.next.lock().expect("no panic").take();
        if let Some((arrived, go_on)) = next {
            arrived.send(()).expect("the test waits for it");
            go_on.recv().expect("the test goes on");
        }
        self.upstream.allocate_sync(layout)
    }

    unsafe fn do_deallocate_sync(&self, pointer: DevicePtr, layout: Layout) {
        // SAFETY: the caller's contract is the same.
        unsafe { self.upstream.deallocate_sync(pointer, layout) };
    }

    fn structure(&self) -> Structure<'_>
    where
        Self: 'static,
    {
        Structure::default().with_extendable(self)
    }

    fn provide<'a>(&'a self, query: &mut Query<'a>) {
        query.value(|| MayBeWaitedFor);
    }
}

// SAFETY: the contract is kept by the virtual memory; calls are only delayed.
unsafe impl ExtendableResource for Gate {
    fn page_size(&self) -> u64 {
        self.upstream.page_size()
    }

    fn allocate_at(&self, start: DevicePtr, layout: Layout) -> Result<(), Error> {
        self.upstream.allocate_at(start, layout)
    }

    unsafe fn suspend(&self, blocks: &[(DevicePtr, Layout)]) -> Result<(), Error> {
        // SAFETY: the caller's contract is the same.
        unsafe { self.upstream.suspend(blocks) }
    }

    fn resume(&self, blocks: &[(DevicePtr, Layout)]) -> Result<(), Error> {
        self.upstream.resume(blocks)
    }
}

/// Memory that a thread is just getting sleeps with the rest.
#[test]
fn a_request_that_is_in_progress_is_waited_for() {
    for _ in 0..10 {
        let machine = description(Schedule::Eager).enter();
        let ((arrived, arrival), (signal, go_on)) = (channel(), channel());
        let next = Mutex::new(Some((arrived, go_on)));
        let upstream = VirtualMemoryResource::new().expect("virtual memory");
        let pool = PoolMemoryResource::builder(Gate { upstream, next }).build().expect("a pool");
        let on_machine = |work: &mut dyn FnMut()| {
            let _entered = machine.enter();
            let _current = Device::new(0).and_then(Device::make_current).expect("a device");
            work();
        };
        thread::scope(|scope| {
            let grower = scope.spawn(|| {
                on_machine(&mut || {
                    let block = pool.allocate_sync(layout(MIB)).expect("it came before");
                    // SAFETY: allocated above with this layout, and not used.
                    unsafe { pool.deallocate_sync(block, layout(MIB)) };
                });
            });
            arrival.recv().expect("the thread asks for memory");
            // Dropped also if this thread panics, so that the other goes on.
            let signal = signal;
            let sleeper = scope.spawn(|| {
                on_machine(&mut || {
                    // SAFETY: no work uses the pool's memory.
                    let slept = unsafe { pool.sleep(Contents::Discard) };
                    assert_eq!(slept.expect("it falls asleep"), pool.reserved_bytes());
                });
            });
            while !pool.is_asleep() {
                thread::yield_now();
            }
            assert!(pool.allocate_sync(layout(MIB)).expect_err("it falls asleep").is_not_ready());
            assert!(pool.wake().expect_err("a thread is at it").is_not_ready());
            signal.send(()).expect("the thread waits");
            grower.join().expect("it does not panic");
            sleeper.join().expect("it does not panic");
        });
        assert_eq!(pool.wake().expect("it wakes up"), pool.reserved_bytes());
        assert!(pool.reserved_bytes() > 0);
        drop(pool);
        machine.assert_no_violations();
        assert!(machine.leaks().is_empty(), "{:?}", machine.leaks());
    }
}
