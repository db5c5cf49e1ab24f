//! Requests of limited effort: which steps they leave out, and what their errors say.

use std::time::{Duration, Instant};

use rmm_adaptors::Contents;
use rmm_core::{Effort, OomReason, RemedyAction, Resource, SynchronousResource, effort};
use rmm_sim::{Kernel, Machine, Schedule};

use crate::fixtures::{pool, pool_on};
use crate::support::{MIB, Pool, free, layout, mib};

/// Allocates a block, enqueues work on it that runs when it is waited for, and frees it.
fn free_in_use(machine: &Machine, pool: &Pool, stream: &rmm_core::CudaStream, bytes: usize) {
    let block = pool.allocate(stream, layout(bytes)).expect("a block");
    let work = Kernel::new("write", |_| {}).writes(block, 8).lasts(Duration::from_secs(1000));
    machine.launch(stream.as_raw(), work).expect("a launch");
    free(pool, stream, block, bytes);
}

#[test]
fn without_a_host_wait_a_request_is_refused_before_it() {
    let machine = Machine::builder().schedule(Schedule::Timed).build();
    let (machine, _entered, pool, [stream]) = pool_on(machine, |it| it.maximum_size(mib(4)));
    free_in_use(&machine, &pool, &stream, 4 * MIB);
    {
        let _scope = effort(Effort::NoHostWait);
        let error = pool.allocate_sync(layout(4 * MIB)).unwrap_err();
        assert!(error.is_out_of_memory());
        assert_eq!(pool.statistics().host_waits, 0);
        let [first, remedy, ..] = *error.remedies() else { panic!("{error:?}") };
        assert_eq!(first.to_string(), format!("wait for stream {} (4.0 MiB)", stream.id()));
        let expected = RemedyAction::SpendMoreEffort { effort: Effort::NoHostWait };
        assert_eq!((remedy.action, remedy.bytes, remedy.is_enough), (expected, mib(4), true));
        assert_eq!(remedy.to_string(), "let the host wait (4.0 MiB)");
        assert!(error.to_string().contains("limited effort: let the host wait"), "{error}");
        // The stream itself need not wait for anything.
        let own = pool.allocate_with(&stream, layout(4 * MIB), Effort::NoGrowth);
        free(&pool, &stream, own.expect("its own block"), 4 * MIB);
    }
    let block = pool.allocate_sync(layout(4 * MIB)).expect("after a wait");
    assert_eq!(pool.statistics().host_waits, 1);
    // SAFETY: allocated above with this layout, and not used.
    unsafe { pool.deallocate_sync(block, layout(4 * MIB)) };
    machine.assert_no_violations();
}

#[test]
fn without_a_host_wait_a_pool_grows_and_streams_wait() {
    let (machine, _entered, pool, [first, second]) = pool(|it| it.maximum_size(mib(8)));
    let _scope = effort(Effort::NoHostWait);
    free_in_use(&machine, &pool, &first, 6 * MIB);
    let block = pool.allocate(&second, layout(6 * MIB)).expect("the second stream waits");
    let statistics = pool.statistics();
    assert_eq!((statistics.stream_waits, statistics.host_waits), (1, 0));
    free(&pool, &second, block, 6 * MIB);
    machine.run_all();
    machine.assert_no_violations();
}

#[test]
fn without_growth_a_pool_serves_what_it_holds() {
    let (machine, _entered, pool, [first, second]) =
        pool(|it| it.initial_size(mib(8)).maximum_size(mib(32)));
    let _scope = effort(Effort::NoGrowth);
    free_in_use(&machine, &pool, &first, 8 * MIB);
    let block = pool.allocate(&second, layout(8 * MIB)).expect("it is held");
    let error = pool.allocate(&first, layout(MIB)).unwrap_err();
    assert_eq!(pool.statistics().upstream_allocations, 1, "the first 8 MiB");
    let last = *error.remedies().last().expect("growth");
    let expected = RemedyAction::SpendMoreEffort { effort: Effort::NoGrowth };
    assert_eq!(last.action, expected, "{error}");
    free(&pool, &second, block, 8 * MIB);
    // A synchronous request waits for the device.
    let block = pool.allocate_sync(layout(8 * MIB)).expect("after a wait");
    // SAFETY: allocated above with this layout, and not used.
    unsafe { pool.deallocate_sync(block, layout(8 * MIB)) };
    machine.assert_no_violations();
}

#[test]
fn after_its_deadline_a_request_takes_what_is_free() {
    let (machine, _entered, pool, [stream]) =
        pool(|it| it.initial_size(mib(4)).maximum_size(mib(16)));
    let _scope = effort(Effort::Until(Instant::now()));
    let block = pool.allocate(&stream, layout(4 * MIB)).expect("it is free");
    let error = pool.allocate(&stream, layout(4 * MIB)).unwrap_err();
    assert_eq!(error.usage().and_then(|usage| usage.reason), Some(OomReason::LimitedEffort));
    assert_eq!(pool.statistics().upstream_allocations, 1);
    free(&pool, &stream, block, 4 * MIB);
    machine.assert_no_violations();
}

#[test]
fn a_wait_for_the_device_ends_with_the_deadline() {
    let machine = Machine::builder().schedule(Schedule::Timed).build();
    let (machine, _entered, pool, [stream]) = pool_on(machine, |it| it.maximum_size(mib(4)));
    free_in_use(&machine, &pool, &stream, 4 * MIB);
    // Long enough for the thread to come to the wait on a busy machine.
    let begin = Instant::now();
    let scope = effort(Effort::Until(begin + Duration::from_millis(500)));
    let error = pool.allocate_sync(layout(4 * MIB)).unwrap_err();
    assert!(error.is_out_of_memory(), "{error}");
    let waited = begin.elapsed();
    assert!((499..60_000).contains(&waited.as_millis()), "{waited:?}");
    assert_eq!(pool.statistics().host_waits, 1);
    drop(scope);
    machine.run_all();
    let scope = effort(Effort::Until(Instant::now() + Duration::from_secs(600)));
    let block = pool.allocate_sync(layout(4 * MIB)).expect("the work is done");
    drop(scope);
    // SAFETY: allocated above with this layout, and not used.
    unsafe { pool.deallocate_sync(block, layout(4 * MIB)) };
    machine.assert_no_violations();
}

#[test]
fn a_pool_falls_asleep_while_a_request_waits_for_its_deadline() {
    let machine = Machine::builder().memory(64 << 20).schedule(Schedule::Timed).build();
    let _entered = machine.enter();
    let builder = Pool::builder(rmm_resources::VirtualMemoryResource::new().expect("pages"));
    let pool = builder.maximum_size(mib(4)).build().expect("a pool");
    let stream = crate::support::stream();
    free_in_use(&machine, &pool, &stream, 4 * MIB);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let _entered = machine.enter();
            let _scope = effort(Effort::Until(Instant::now() + Duration::from_secs(600)));
            pool.allocate_sync(layout(4 * MIB))
        });
        while pool.statistics().host_waits == 0 {
            std::thread::yield_now();
        }
        crate::pool_sleep::sleep(&pool, Contents::Discard).expect("no work uses the pool");
        let error = waiting.join().expect("no panic").expect_err("it sleeps");
        assert!(error.is_not_ready() && error.to_string().contains("asleep"), "{error}");
    });
    assert_eq!(pool.statistics().failed_allocations, 1);
    pool.wake().expect("it wakes up");
    let block = pool.allocate(&stream, layout(4 * MIB)).expect("its memory is back");
    free(&pool, &stream, block, 4 * MIB);
    machine.assert_no_violations();
}

#[test]
fn a_request_that_may_not_wait_asks_no_sibling_and_no_callback() {
    let machine = Machine::builder().memory(16 * MIB).build();
    let _entered = machine.enter();
    let builder = || Pool::builder(rmm_resources::CudaMemoryResource::new());
    let other = builder().initial_size(mib(12)).build().expect("the other pool");
    let called = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counter = std::sync::Arc::clone(&called);
    let pool = builder().build().expect("a pool");
    let _callback = pool.on_pressure(move |_| {
        counter.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        false
    });
    let stream = crate::support::stream();
    for limited in [Effort::NoHostWait, Effort::Until(Instant::now())] {
        let _scope = effort(limited);
        assert!(pool.allocate(&stream, layout(8 * MIB)).unwrap_err().is_out_of_memory());
        assert_eq!(other.statistics().reserved_bytes, mib(12), "{limited:?}");
        assert_eq!(called.load(std::sync::atomic::Ordering::Relaxed), 0, "{limited:?}");
    }
    let block = pool.allocate(&stream, layout(8 * MIB)).expect("the sibling has returned memory");
    free(&pool, &stream, block, 8 * MIB);
    machine.assert_no_violations();
}

#[test]
fn a_pool_that_grows_without_a_host_wait_gives_nothing_back() {
    let (machine, _entered, pool, [stream]) = pool(|it| it);
    let blocks: Vec<_> = (0..7).map(|_| pool.allocate(&stream, layout(2 * MIB)).unwrap()).collect();
    for block in blocks {
        free(&pool, &stream, block, 2 * MIB);
    }
    stream.synchronize().expect("it does nothing");
    let frees = pool.statistics().upstream_frees;
    let held = pool.reserved_bytes();
    {
        let _scope = effort(Effort::NoHostWait);
        let large = pool.allocate(&stream, layout(12 * MIB)).expect("there is memory");
        assert_eq!(pool.statistics().upstream_frees, frees, "the driver may wait in it");
        assert!(pool.reserved_bytes() >= held + mib(12));
        free(&pool, &stream, large, 12 * MIB);
    }
    let larger = pool.allocate(&stream, layout(40 * MIB)).expect("there is memory");
    assert!(pool.statistics().upstream_frees > frees, "what was not needed goes now");
    free(&pool, &stream, larger, 40 * MIB);
    machine.assert_no_violations();
}

#[test]
fn no_effort_serves_more_than_the_limit() {
    let (_machine, _entered, pool, [stream]) = pool(|it| it.maximum_size(mib(4)));
    let error = pool.allocate_with(&stream, layout(5 * MIB), Effort::NoGrowth).unwrap_err();
    let actions: Vec<_> = error.remedies().iter().map(|remedy| remedy.action).collect();
    assert!(matches!(*actions, [RemedyAction::RaiseLimit { .. }]), "{error}");
}
