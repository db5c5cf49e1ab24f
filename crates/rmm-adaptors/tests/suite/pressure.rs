//! Tests of what a program learns, and may do, when a request is about to fail: remedies as data,
//! and callbacks.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use rmm_adaptors::{LimitingResourceAdaptor, PoolMemoryResource, PoolPreset, Pressure};
use rmm_core::{CaptureScope, DevicePtr, RemedyAction, Resource, SynchronousResource};
use rmm_resources::CudaMemoryResource;

use crate::fixtures::{lazy_machine, pool};
use crate::own_process;
use crate::support::{MIB, Pool, free, keep_busy, layout, mib, stream};

fn free_sync(pool: &impl SynchronousResource, block: DevicePtr, bytes: usize) {
    // SAFETY: every test allocates the block with this layout, and nothing uses it.
    unsafe { pool.deallocate_sync(block, layout(bytes)) }
}

#[test]
fn the_cheapest_remedy_that_is_enough_comes_first() {
    if own_process::has_run() {
        return;
    }
    let (machine, _entered, pool, [large, small]) = pool(|builder| builder.maximum_size(mib(16)));
    let blocks = [(&large, 6 * MIB), (&small, 2 * MIB), (&small, 8 * MIB)]
        .map(|(on, bytes)| pool.allocate(on, layout(bytes)).unwrap());
    keep_busy(&machine, &large);
    keep_busy(&machine, &small);
    free(&pool, &large, blocks[0], 6 * MIB);
    free(&pool, &small, blocks[1], 2 * MIB);
    let scope = CaptureScope::announce();
    let error = pool.allocate_sync(layout(5 * MIB)).unwrap_err();
    let remedies: Vec<_> =
        error.remedies().iter().map(|it| (it.action, it.bytes, it.is_enough)).collect();
    let wait = |on: &rmm_core::CudaStream| RemedyAction::WaitForStream { stream: Some(on.id()) };
    assert_eq!(
        remedies,
        [
            (wait(&large), mib(6), true),
            (RemedyAction::RaiseLimit { resource: "pool", limit: pool.limit_id() }, mib(5), true),
            (wait(&small), mib(2), false),
        ]
    );
    drop(scope);
    large.synchronize().unwrap();
    let block = pool.allocate_sync(layout(5 * MIB)).expect("the remedy works");
    free_sync(&pool, block, 5 * MIB);
    free(&pool, &small, blocks[2], 8 * MIB);
}

#[test]
fn a_sibling_that_could_not_wait_is_a_remedy() {
    if own_process::has_run() {
        return;
    }
    let machine = lazy_machine().enter();
    // Without asking the driver what is complete, so that the memory stays pending.
    let presets = [PoolPreset::Throughput, PoolPreset::Deterministic];
    let [asker, sibling] = presets
        .map(|preset| Pool::builder(CudaMemoryResource::new()).preset(preset).build().unwrap());
    let on = stream();
    let block = sibling.allocate(&on, layout(48 * MIB)).unwrap();
    keep_busy(&machine, &on);
    free(&sibling, &on, block, 48 * MIB);
    let scope = CaptureScope::announce();
    let error = asker.allocate_sync(layout(32 * MIB)).unwrap_err();
    let remedy = error.remedies()[0];
    assert_eq!(remedy.action, RemedyAction::TrimSibling { resource: "pool" });
    assert_eq!((remedy.bytes, remedy.is_enough), (mib(48), true));
    assert_eq!(remedy.to_string(), "trim pool (48.0 MiB)");
    drop(scope);
    assert_eq!(sibling.trim_blocking(0), mib(48));
    let block = asker.allocate_sync(layout(32 * MIB)).expect("the remedy works");
    free_sync(&asker, block, 32 * MIB);
}

#[test]
fn the_limit_of_a_resource_below_is_a_remedy() {
    let _machine = lazy_machine().enter();
    let limited = LimitingResourceAdaptor::new(CudaMemoryResource::new(), mib(8));
    let limit = limited.limit_id();
    let pool = PoolMemoryResource::builder(limited).build().unwrap();
    let block = pool.allocate_sync(layout(6 * MIB)).unwrap();
    let error = pool.allocate_sync(layout(4 * MIB)).unwrap_err();
    let remedy = error.remedies()[0];
    assert_eq!(remedy.action, RemedyAction::RaiseLimit { resource: "limiting", limit });
    assert_eq!(remedy.bytes, mib(2));
    free_sync(&pool, block, 6 * MIB);
}

#[test]
fn a_callback_learns_what_is_missing_and_may_free_it() {
    let (_machine, _entered, pool, [on]) = pool(|builder| builder.maximum_size(mib(8)));
    let cached = Arc::new(Mutex::new(vec![pool.allocate(&on, layout(6 * MIB)).unwrap()]));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let guard = pool.on_pressure({
        let (pool, cached, seen, on) = (pool.clone(), cached.clone(), seen.clone(), on.clone());
        move |pressure: &Pressure<'_>| {
            seen.lock().unwrap().push((pressure.requested, pressure.missing, pressure.stream));
            assert!(pressure.error.is_out_of_memory());
            // No lock is held: the pool answers.
            assert_eq!(pool.statistics().live_bytes, mib(6) * cached.lock().unwrap().len() as u64);
            let Some(block) = cached.lock().unwrap().pop() else { return false };
            free(&pool, &on, block, 6 * MIB);
            true
        }
    });
    let block = pool.allocate(&on, layout(4 * MIB)).expect("the callback frees enough");
    assert_eq!(*seen.lock().unwrap(), [(mib(4), mib(2), Some(on.id()))]);
    drop(guard);
    assert!(pool.allocate(&on, layout(6 * MIB)).unwrap_err().is_out_of_memory());
    assert_eq!(seen.lock().unwrap().len(), 1, "it is registered no more");
    free(&pool, &on, block, 4 * MIB);
}

#[test]
fn callbacks_run_in_order_until_one_is_enough() {
    let (_machine, _entered, pool, [on]) = pool(|builder| builder.maximum_size(mib(8)));
    let block = pool.allocate(&on, layout(8 * MIB)).unwrap();
    let calls = Arc::new(Mutex::new(Vec::new()));
    let note = |name: &'static str, frees: bool| {
        let (calls, pool, on) = (Arc::clone(&calls), pool.clone(), on.clone());
        move |_: &Pressure<'_>| {
            calls.lock().unwrap().push(name);
            if frees {
                free(&pool, &on, block, 8 * MIB);
            }
            frees
        }
    };
    let guards = [
        pool.on_pressure(note("frees nothing", false)),
        pool.on_pressure(note("frees", true)),
        pool.on_pressure(note("is not needed", true)),
    ];
    let again = pool.allocate(&on, layout(8 * MIB)).expect("the second frees enough");
    assert_eq!(*calls.lock().unwrap(), ["frees nothing", "frees"]);
    free(&pool, &on, again, 8 * MIB);
    drop(guards);
}

#[test]
fn a_request_within_a_callback_calls_none() {
    let (_machine, _entered, pool, []) = pool(|builder| builder.maximum_size(mib(8)));
    let calls = Arc::new(AtomicU64::new(0));
    let guard = pool.on_pressure({
        let (pool, calls) = (pool.clone(), Arc::clone(&calls));
        move |_: &Pressure<'_>| {
            calls.fetch_add(1, Ordering::Relaxed);
            let within = pool.allocate_sync(layout(7 * MIB));
            assert!(within.unwrap_err().is_out_of_memory());
            // It says that it has freed memory, but has not.
            true
        }
    });
    assert!(pool.allocate_sync(layout(12 * MIB)).unwrap_err().is_out_of_memory());
    assert_eq!(calls.load(Ordering::Relaxed), 0, "nothing would help against the limit");
    let block = pool.allocate_sync(layout(6 * MIB)).unwrap();
    for calls_so_far in 1..=2 {
        assert!(pool.allocate_sync(layout(7 * MIB)).unwrap_err().is_out_of_memory());
        assert_eq!(calls.load(Ordering::Relaxed), calls_so_far);
    }
    free_sync(&pool, block, 6 * MIB);
    drop(guard);
}

#[test]
fn a_callback_that_panics_leaves_the_pool_usable() {
    let (machine, _entered, pool, [on]) = pool(|builder| builder.maximum_size(mib(8)));
    let block = pool.allocate(&on, layout(8 * MIB)).unwrap();
    let guard = pool.on_pressure(|_: &Pressure<'_>| panic!("the program's"));
    for _ in 0..2 {
        let outcome = catch_unwind(AssertUnwindSafe(|| pool.allocate(&on, layout(8 * MIB))));
        assert!(outcome.is_err(), "the panic reaches the caller, each time");
    }
    drop(guard);
    free(&pool, &on, block, 8 * MIB);
    let block = pool.allocate(&on, layout(8 * MIB)).expect("it is usable");
    free(&pool, &on, block, 8 * MIB);
    drop(pool);
    assert_eq!(machine.leaks().len(), 1, "only the stream is left: {:?}", machine.leaks());
}

#[test]
fn a_callback_of_a_pool_below_is_not_called() {
    let (_machine, _entered, lower, []) = pool(|builder| builder.maximum_size(mib(8)));
    let calls = Arc::new(AtomicU64::new(0));
    let note = |calls: &Arc<AtomicU64>| {
        let calls = Arc::clone(calls);
        move |_: &Pressure<'_>| {
            calls.fetch_add(1, Ordering::Relaxed);
            false
        }
    };
    let _below = lower.on_pressure(note(&calls));
    let upper = PoolMemoryResource::builder(lower.clone()).build().unwrap();
    assert!(upper.allocate_sync(layout(12 * MIB)).is_err());
    assert_eq!(calls.load(Ordering::Relaxed), 0);
    let _above = upper.on_pressure(note(&calls));
    assert!(upper.allocate_sync(layout(12 * MIB)).is_err());
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}
