//! Random programs in which each call of the driver, or of upstream, fails in turn.

use rmm_sim::{Checker, Machine, Schedule};
use rmm_sys::CuResult;

use super::OfSeed;
use super::drained::{assert_drained_equals_fresh, assert_drains_to_fresh};
use crate::harness::{Allocator, Fixture, Runner};
use crate::programs::{STREAMS, drawn, ops};
use crate::suballocators::{GRANULE, LEAST, Make, Upstream};
use crate::support::base_seed;

/// Programs for failures of driver calls: each is run a few hundred times.
const DRIVER_SEEDS: u64 = 8;
/// Programs for failures of upstream allocations.
const UPSTREAM_SEEDS: u64 = 8;
/// The most steps of a program.
const STEPS: usize = 80;
const LIMIT: u64 = LEAST;

fn schedule(seed: u64) -> Schedule {
    if seed.is_multiple_of(2) { Schedule::Lazy } else { Schedule::Seeded(seed) }
}

/// Runs the program of a seed and checks all invariants, except those at the drop of the resource.
fn run<R: Allocator>(runner: &mut Runner<R>, seed: u64) {
    for op in drawn(ops(STEPS), seed, 0) {
        runner.step(&op);
    }
    runner.finish();
}

/// Fails each call of the driver once, including those that construct the suballocator.
pub(super) fn of_the_driver<R: Allocator>(make: Make<R>) {
    for seed in base_seed()..base_seed() + DRIVER_SEEDS {
        let _seed = OfSeed(seed);
        let code = if seed.is_multiple_of(2) { CuResult::UNKNOWN } else { CuResult::OUT_OF_MEMORY };
        let machine = Machine::builder().memory(64 << 20).schedule(schedule(seed));
        let failed = Checker::new().machine(machine).fail_each_call(code, |machine| {
            let upstream = machine.without_faults(|| Upstream::new(seed.is_multiple_of(3)));
            let Ok(resource) = make(upstream, LIMIT) else { return };
            let fixture = Fixture::in_granules(machine, resource, GRANULE);
            let mut runner = machine.without_faults(|| Runner::on_streams(fixture, 0, STREAMS));
            run(&mut runner, seed);
            if !machine.failed_calls().is_empty() {
                machine.clear_faults();
                assert_drains_to_fresh(runner.pool(), make, LIMIT);
            }
        });
        assert!(failed > 20, "only {failed} calls could fail");
    }
}

/// Fails each upstream allocation once.
pub(super) fn of_upstream<R: Allocator>(make: Make<R>) {
    for seed in base_seed()..base_seed() + UPSTREAM_SEEDS {
        let _seed = OfSeed(seed);
        for number in 1.. {
            let machine = Machine::builder().memory(64 << 20).schedule(schedule(seed)).build();
            let entered = machine.enter();
            let upstream = Upstream::failing(number, seed.is_multiple_of(3));
            if let Ok(resource) = make(upstream.clone(), LIMIT) {
                let fixture = Fixture::in_granules(&machine, resource, GRANULE);
                let mut runner = Runner::on_streams(fixture, 0, STREAMS);
                run(&mut runner, seed);
                assert_drained_equals_fresh(runner.pool(), make, LIMIT);
            }
            let is_over = !upstream.has_failed();
            drop(upstream);
            machine.assert_no_violations();
            assert!(machine.leaks().is_empty(), "{:?}", machine.leaks());
            drop(entered);
            if is_over {
                break;
            }
        }
    }
}
