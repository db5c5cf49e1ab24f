//! A pool whose driver calls fail: no block is shared, nothing is lost, and it works again afterwards.

use std::alloc::Layout;

use crate::program::{Op, ops};
use crate::world::{World, base_seed, new_stream};
use proptest::prelude::*;
use rmm_core::Resource;
use rmm_sim::{Fault, LeakKind, Machine, Schedule, TraceEntry};
use rmm_sys::CuResult;

/// The calls by which a pool learns about order, grows and waits.
const CALLS: [&str; 7] = [
    "cuEventRecord",
    "cuEventQuery",
    "cuStreamWaitEvent",
    "cuStreamQuery",
    "cuMemAlloc_v2",
    "cuCtxSynchronize",
    "cuEventCreate",
];

fn machine(schedule: Schedule) -> Machine {
    Machine::builder().memory(64 << 20).schedule(schedule).build()
}

/// Runs a program, with `faults` once the pool and its streams are there, and checks all that must hold. The pool's end is
/// among the calls that may fail, unless the faults are over: they are after `last` calls.
fn run(machine: &Machine, ops: &[Op], limit: usize, faults: &[Fault], last: u64) {
    let entered = machine.enter();
    let mut world = World::new(machine, limit);
    machine.set_tracing(true);
    let before = machine.calls();
    for fault in faults {
        machine.fail(fault.clone());
    }
    for op in ops {
        world.step(op);
    }
    world.finish();
    if machine.calls() - before >= last {
        machine.clear_faults();
        everything_can_be_had(&world, limit);
    }
    drop(world);
    machine.assert_no_violations();
    drop(entered);
}

/// The whole pool in one piece, on a stream that is new to it.
fn everything_can_be_had(world: &World, limit: usize) {
    let (layout, stream) = (
        Layout::from_size_align(limit, 256).expect("a small size"),
        new_stream().expect("a stream"),
    );
    let block = world.pool().allocate(stream.as_ref(), layout).expect("all of it is free");
    // SAFETY: allocated just now with this layout, and not used.
    unsafe { world.pool().deallocate(stream.as_ref(), block, layout) };
}

/// The symbol of the call that was the `n`-th since tracing was turned on.
fn nth_call(machine: &Machine, n: u64) -> Option<&'static str> {
    let call = |entry| match entry {
        TraceEntry::Call { name, .. } => Some(name),
        _ => None,
    };
    machine
        .trace()
        .into_iter()
        .filter_map(call)
        .nth(usize::try_from(n - 1).expect("a small number"))
}

/// What may stay behind when this call fails: what it was asked to release.
fn released_by(call: &str) -> Option<LeakKind> {
    match call {
        "cuMemFree_v2" => Some(LeakKind::Allocation),
        "cuEventDestroy_v2" => Some(LeakKind::Event),
        "cuStreamDestroy_v2" => Some(LeakKind::Stream),
        _ => None,
    }
}

fn every_call_fails_in_turn(ops: &[Op], schedule: Schedule, limit: usize, code: CuResult) {
    let clean = machine(schedule);
    run(&clean, ops, limit, &[], 0);
    assert!(clean.leaks().is_empty(), "{:?}", clean.leaks());
    for n in 1..=clean.calls() {
        let machine = machine(schedule);
        run(&machine, ops, limit, &[Fault::any_call(n, code)], n);
        let struck = nth_call(&machine, n).unwrap_or("none");
        let leaks = machine.leaks();
        match released_by(struck) {
            Some(kind) => {
                assert!(leaks.len() <= 1, "{struck}, call {n}, {code:?}: {leaks:?}");
                assert!(leaks.iter().all(|leak| leak.kind == kind), "{struck}: {leaks:?}");
            }
            None => assert!(leaks.is_empty(), "{struck}, call {n}, {code:?}: {leaks:?}"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_call_may_fail(ops in ops(50), seed in any::<u64>(), granules in 100usize..1500, memory in any::<bool>()) {
        let code = if memory { CuResult::OUT_OF_MEMORY } else { CuResult::UNKNOWN };
        every_call_fails_in_turn(&ops, Schedule::Seeded(seed ^ base_seed()), granules * 256, code);
    }

    #[test]
    fn any_call_may_fail_when_everything_is_late(ops in ops(50), granules in 100usize..1500, memory in any::<bool>()) {
        let code = if memory { CuResult::OUT_OF_MEMORY } else { CuResult::UNKNOWN };
        every_call_fails_in_turn(&ops, Schedule::Adversarial, granules * 256, code);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn calls_may_fail_again_and_again(
        ops in ops(150),
        adversarial in any::<bool>(),
        granules in 100usize..3000,
        often in proptest::collection::vec((0..CALLS.len(), 1u32..=20, any::<u64>()), 1..4),
    ) {
        let seed = often.iter().fold(base_seed(), |seed, &(_, _, next)| seed ^ next);
        let schedule = if adversarial { Schedule::Adversarial } else { Schedule::Seeded(seed) };
        let fault = |&(call, twentieths, seed): &(usize, u32, u64)| {
            Fault::probability(CALLS[call], f64::from(twentieths) / 20.0, seed, CuResult::UNKNOWN)
        };
        let faults: Vec<Fault> = often.iter().map(fault).collect();
        let machine = machine(schedule);
        run(&machine, &ops, granules * 256, &faults, 0);
        assert!(machine.leaks().is_empty(), "{:?}", machine.leaks());
    }
}
