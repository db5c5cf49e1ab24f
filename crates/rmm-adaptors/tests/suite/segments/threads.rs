//! Guards of callbacks that are dropped on one thread while others change the pool.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Barrier, Mutex};

use rmm_adaptors::SegmentEvent;
use rmm_core::SynchronousResource;
use rmm_sim::Machine;

use super::{Registry, free, over_cuda_malloc, over_virtual_memory};
use crate::support::{MIB, layout};

#[test]
fn guards_that_go_while_threads_grow_and_trim_leave_nothing_registered() {
    for make in [over_virtual_memory, over_cuda_malloc] {
        let machine = Machine::builder().memory(256 << 20).enter();
        let (pool, ends) = (make(), AtomicBool::new(false));
        let lasting = Registry::default();
        let guard = lasting.register(&pool).expect("it takes all");
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let _machine = machine.enter();
                    while !ends.load(Ordering::Relaxed) {
                        if let Ok(block) = pool.allocate_sync(layout(9 * MIB)) {
                            free(&pool, block, 9 * MIB);
                        }
                        pool.trim(0);
                    }
                });
            }
            for _ in 0..300 {
                let (first, second) = (Registry::default(), Registry::default());
                let guards = [&first, &second].map(|it| it.register(&pool).expect("it takes all"));
                let block = pool.allocate_sync(layout(MIB));
                drop(guards);
                if let Ok(block) = block {
                    free(&pool, block, MIB);
                }
                // A call that another thread had begun ends by itself.
                while first.bytes() + second.bytes() > 0 {
                    std::thread::yield_now();
                }
            }
            ends.store(true, Ordering::Relaxed);
        });
        assert_eq!(lasting.bytes(), pool.reserved_bytes());
        pool.trim(0);
        assert_eq!((lasting.bytes(), pool.reserved_bytes()), (0, 0));
        drop((guard, pool));
        assert_eq!(machine.leaks(), []);
    }
}

#[test]
fn a_guard_that_goes_as_the_pool_does_keeps_no_memory() {
    for make in [over_virtual_memory, over_cuda_malloc] {
        for _ in 0..50 {
            let machine = Machine::builder().memory(64 << 20).enter();
            let (pool, registry) = (make(), Registry::default());
            let guard = registry.register(&pool).expect("it takes all");
            let blocks = [(); 4].map(|()| pool.allocate_sync(layout(5 * MIB)).expect("memory"));
            for block in blocks {
                free(&pool, block, 5 * MIB);
            }
            let barrier = Barrier::new(2);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let _machine = machine.enter();
                    barrier.wait();
                    drop(guard);
                });
                barrier.wait();
                drop(pool);
            });
            assert_eq!((registry.bytes(), machine.leaks()), (0, Vec::new()));
        }
    }
}

#[test]
fn a_guard_that_goes_while_another_callback_refuses_lets_go() {
    let machine = Machine::builder().memory(64 << 20).enter();
    let (pool, registry) = (over_virtual_memory(), Registry::default());
    let (arrived, arrival) = channel();
    let (go_on, signal) = channel::<()>();
    let blocks = Mutex::new((arrived, signal));
    // It is asked before the other one, whose guard goes meanwhile.
    let first = pool.on_segment(move |event| match event {
        SegmentEvent::Removing(_) => {
            let (arrived, signal) = &*blocks.lock().expect("no panic with it");
            // Both channels are closed once the guard of this one is dropped.
            match arrived.send(()).map(|()| signal.recv()) {
                Ok(Ok(())) => Err("it stays"),
                _ => Ok(()),
            }
        }
        _ => Ok(()),
    });
    let guard = registry.register(&pool).expect("it takes all");
    let block = pool.allocate_sync(layout(MIB)).expect("memory");
    free(&pool, block, MIB);
    std::thread::scope(|scope| {
        let (pool, machine) = (&pool, &machine);
        let trims = scope.spawn(move || {
            let _machine = machine.enter();
            pool.trim(0)
        });
        arrival.recv().expect("the first callback is called");
        drop(guard);
        assert!(registry.bytes() > 0, "the thread that trims calls it");
        go_on.send(()).expect("the callback waits");
        assert_eq!(trims.join().expect("no panic"), 0, "it stays");
    });
    assert_eq!(registry.bytes(), 0);
    drop((go_on, arrival));
    drop(first);
    assert!(pool.trim(0) > 0);
}
