//! Tests of a pool whose driver calls fail again and again: no block is handed out while in use, no
//! memory is lost, and the pool recovers. `all_suballocators` tests that one call may fail.

use proptest::prelude::*;
use rmm_core::Resource;
use rmm_resources::CudaMemoryResource;
use rmm_sim::{Checker, Fault, Machine, MachineBuilder, Schedule};
use rmm_sys::CuResult;

use crate::faults::{again_and_again, run_with_faults};
use crate::programs::{Op, ops};
use crate::support::{Pool, free, layout, stream};

/// The driver calls by which a pool learns about order, grows and waits.
const CALLS: [&str; 7] = [
    "cuEventRecord",
    "cuEventQuery",
    "cuStreamWaitEvent",
    "cuStreamQuery",
    "cuMemAlloc_v2",
    "cuCtxSynchronize",
    "cuEventCreate",
];

fn description(schedule: Schedule) -> MachineBuilder {
    Machine::builder().memory(64 << 20).schedule(schedule)
}

/// Like [`run_with_faults`], over a pool.
fn run(
    machine: &Machine,
    ops: &[Op],
    limit: usize,
    faults: &[Fault],
    are_over: impl FnOnce() -> bool,
) {
    let pool = || Pool::builder(CudaMemoryResource::new()).maximum_size(limit as u64).build();
    let pool = || pool().expect("a pool");
    let drained = |pool: &Pool| everything_can_be_had(pool, limit);
    run_with_faults(machine, ops, pool, faults, are_over, drained);
}

/// Allocates the whole pool as one block, on a new stream.
fn everything_can_be_had(pool: &Pool, limit: usize) {
    let (layout, stream) = (layout(limit), stream());
    let block = pool.allocate(&stream, layout).expect("all of it is free");
    free(pool, &stream, block, limit);
}

fn every_call_fails_in_turn(ops: &[Op], schedule: Schedule, limit: usize, code: CuResult) {
    let without_faults = description(schedule).build();
    run(&without_faults, ops, limit, &[], || true);
    assert!(without_faults.leaks().is_empty(), "{:?}", without_faults.leaks());
    Checker::new().machine(description(schedule)).fail_each_call(code, |machine| {
        run(machine, ops, limit, &[], || !machine.failed_calls().is_empty());
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn calls_may_fail_repeatedly(
        ops in ops(150),
        lazy in any::<bool>(),
        granules in 100usize..3000,
        often in proptest::collection::vec((0..CALLS.len(), 1u32..=20, any::<u64>()), 1..4),
    ) {
        let (faults, seed) = again_and_again(&CALLS, &often);
        let schedule = if lazy { Schedule::Lazy } else { Schedule::Seeded(seed) };
        let machine = description(schedule).build();
        run(&machine, &ops, granules * 256, &faults, || true);
        assert!(machine.leaks().is_empty(), "{:?}", machine.leaks());
    }
}

/// If the pool cannot find out whether a stream is captured, it keeps the memory; but a single
/// failure must not make it do so.
#[test]
fn a_failed_capture_query_at_drop_leaks_nothing() {
    let ops = [
        Op::Allocate { stream: 6, granules: 101 },
        Op::AllocateSync { stream: 0, granules: 241 },
        Op::Free { which: 10_127_679_125_056_486_417 },
        Op::AllocateSync { stream: 5, granules: 64 },
        Op::Allocate { stream: 4, granules: 290 },
        Op::Free { which: 16_304_627_889_336_406_966 },
        Op::Allocate { stream: 2, granules: 136 },
        Op::FreeAfterWaiting { which: 6_991_420_687_965_309_508, stream: 6 },
        Op::Free { which: 14_582_506_451_391_263_270 },
        Op::Allocate { stream: 6, granules: 344 },
        Op::FreeElsewhere { which: 17_518_045_489_454_952_129, stream: 5 },
        Op::HandOver { which: 4_913_063_720_649_132_122 },
        Op::Allocate { stream: 4, granules: 8 },
    ];
    every_call_fails_in_turn(&ops, Schedule::Lazy, 1202 * 256, CuResult::OUT_OF_MEMORY);
}
