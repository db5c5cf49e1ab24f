//! Stream order of arenas: no block is handed to a stream while another may still use it. In random
//! programs on several streams and threads, each block is written when it is allocated and read
//! back, in stream order, just before it is freed. Driver calls may fail.

use std::thread;

use proptest::prelude::*;
use rmm_core::{CudaStream, Device, Resource};
use rmm_resources::CudaMemoryResource;
use rmm_sim::{Checker, Machine, Schedule};
use rmm_sys::CuResult;

use crate::faults::{again_and_again, run_with_faults};
use crate::harness::{Fixture, Runner};
use crate::programs::{Op, ops};
use crate::support::{Arena, base_seed, free, layout, stream};

fn machine(schedule: Schedule) -> Machine {
    Machine::builder().memory(64 << 20).schedule(schedule).build()
}

fn arena(bytes: u64) -> Arena {
    Arena::builder(CudaMemoryResource::new()).arena_size(bytes).build().expect("an arena")
}

/// Allocates all of an arena as one block, on a new stream: a drained arena serves the same
/// requests as a fresh one.
fn everything_can_be_had(arena: &Arena) {
    let (all, stream) = (usize::try_from(arena.arena_size()).expect("a small size"), stream());
    let block = arena.allocate(&stream, layout(all)).expect("all of it is free");
    free(arena, &stream, block, all);
}

fn run(ops: &[Op], schedule: Schedule, bytes: u64) {
    let machine = machine(schedule);
    let entered = machine.enter();
    let mut runner = Runner::sharing(Fixture::over(&machine, arena(bytes)), 0);
    for op in ops {
        runner.step(op);
    }
    runner.finish();
    assert_eq!(runner.failed_calls, 0, "no driver call fails here");
    everything_can_be_had(runner.pool());
    drop(runner);
    machine.assert_no_violations();
    assert!(machine.leaks().is_empty(), "{:?}", machine.leaks());
    drop(entered);
}

fn run_on_threads(programs: &[Vec<Op>], schedule: Schedule, bytes: u64) {
    let machine = machine(schedule);
    let entered = machine.enter();
    let fixture = Fixture::over(&machine, arena(bytes));
    thread::scope(|scope| {
        for (number, ops) in (0..).zip(programs) {
            let (machine, fixture) = (&machine, fixture.clone());
            scope.spawn(move || {
                let _entered = machine.enter();
                let _current = Device::new(0).and_then(Device::make_current).expect("a device");
                let mut runner = Runner::sharing(fixture, number);
                for op in ops {
                    runner.step(op);
                }
                runner.free_all();
            });
        }
    });
    fixture.finish();
    everything_can_be_had(fixture.pool());
    drop(fixture);
    machine.assert_no_violations();
    assert!(machine.leaks().is_empty(), "{:?}", machine.leaks());
    drop(entered);
}

/// The driver calls by which an arena learns about order and waits.
const CALLS: [&str; 5] =
    ["cuEventRecord", "cuEventQuery", "cuStreamWaitEvent", "cuStreamQuery", "cuEventCreate"];

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn blocks_are_never_shared(ops in ops(200), seed in any::<u64>(), kib in 1024u64..6000) {
        run(&ops, Schedule::Seeded(seed ^ base_seed()), kib << 10);
    }

    #[test]
    fn blocks_are_never_shared_under_the_lazy_schedule(ops in ops(200), kib in 1024u64..6000) {
        run(&ops, Schedule::Lazy, kib << 10);
    }

    #[test]
    fn calls_may_fail_repeatedly(
        ops in ops(200),
        lazy in any::<bool>(),
        kib in 1024u64..6000,
        often in proptest::collection::vec((0..CALLS.len(), 1u32..=20, any::<u64>()), 1..4),
    ) {
        let (faults, seed) = again_and_again(&CALLS, &often);
        let machine = machine(if lazy { Schedule::Lazy } else { Schedule::Seeded(seed) });
        run_with_faults(&machine, &ops, || arena(kib << 10), &faults, || true, everything_can_be_had);
        prop_assert!(machine.leaks().is_empty(), "{:?}", machine.leaks());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_call_may_fail(ops in ops(60), lazy in any::<bool>(), seed in any::<u64>(), kib in 1024u64..3000) {
        let schedule = if lazy { Schedule::Lazy } else { Schedule::Seeded(seed ^ base_seed()) };
        let description = || Machine::builder().memory(64 << 20).schedule(schedule);
        Checker::new().machine(description()).fail_each_call(CuResult::UNKNOWN, |machine| {
            let are_over = || !machine.failed_calls().is_empty();
            run_with_faults(machine, &ops, || arena(kib << 10), &[], are_over, everything_can_be_had);
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn threads_share_an_arena_and_no_block(
        programs in proptest::collection::vec(ops(120), 2..4),
        lazy in any::<bool>(),
        seed in any::<u64>(),
        kib in 1024u64..6000,
    ) {
        let schedule = if lazy { Schedule::Lazy } else { Schedule::Seeded(seed ^ base_seed()) };
        run_on_threads(&programs, schedule, kib << 10);
    }
}

#[test]
fn memory_of_a_destroyed_stream_is_reused_in_order() {
    for schedule in [Schedule::Lazy, Schedule::Eager, Schedule::Seeded(base_seed())] {
        let machine = machine(schedule);
        let _entered = machine.enter();
        let arena = arena(2 << 20);
        for round in 0..20 {
            // The driver reuses the handle for the next stream.
            let gone: CudaStream = stream();
            let size = 1000 * 1000 - round * 256;
            for tag in 0..2 {
                let block = arena.allocate(&gone, layout(size)).expect("it was freed");
                crate::support::write(&machine, &gone, block, tag);
                free(&arena, &gone, block, size);
            }
        }
        assert_eq!(arena.statistics().arenas, 0, "no stream is left");
        assert_eq!(arena.statistics().host_waits, 0, "an event stands for each");
        everything_can_be_had(&arena);
        machine.assert_no_violations();
    }
}
