//! Programs in which each call of the driver, or of upstream, fails in turn.

use rmm_sim::{Checker, Machine, Schedule};
use rmm_sys::CuResult;

use super::OfSeed;
use super::good_as_new::{gets_as_good_as_new, is_as_good_as_new};
use crate::kinds::{GRANULE, LEAST, Make, Upstream};
use crate::program::{STREAMS, drawn, ops};
use crate::short::base_seed;
use crate::world::{Allocator, Common, World};

/// Programs in which calls of the driver fail: each is run a few hundred times.
const DRIVER_SEEDS: u64 = 2;
/// Programs in which calls of upstream fail.
const UPSTREAM_SEEDS: u64 = 8;
/// Steps of a program, at most.
const STEPS: usize = 80;
const LIMIT: usize = LEAST;

fn schedule(seed: u64) -> Schedule {
    if seed.is_multiple_of(2) { Schedule::Lazy } else { Schedule::Seeded(seed) }
}

/// Runs the program of a seed and checks all that must hold, but for the end of the resource.
fn run<R: Allocator>(world: &mut World<R>, seed: u64) {
    for op in drawn(ops(STEPS), seed, 0) {
        world.step(&op);
    }
    world.finish();
}

/// Each call of the driver fails once, from the making of the suballocator on.
pub(super) fn of_the_driver<R: Allocator>(make: Make<R>) {
    for seed in base_seed()..base_seed() + DRIVER_SEEDS {
        let _told = OfSeed(seed);
        let code = if seed.is_multiple_of(2) { CuResult::UNKNOWN } else { CuResult::OUT_OF_MEMORY };
        let machine = Machine::builder().memory(64 << 20).schedule(schedule(seed));
        let failed = Checker::new().machine(machine).fail_each_call(code, |machine| {
            let upstream = machine.without_faults(|| Upstream::new(seed.is_multiple_of(3)));
            let Ok(resource) = make(upstream, LIMIT) else { return };
            let common = Common::in_granules(machine, resource, GRANULE);
            let mut world = machine.without_faults(|| World::on_streams(common, 0, STREAMS));
            run(&mut world, seed);
            if !machine.failed_calls().is_empty() {
                machine.clear_faults();
                gets_as_good_as_new(world.pool(), make, LIMIT);
            }
        });
        assert!(failed > 20, "only {failed} calls could fail");
    }
}

/// Each allocation of upstream's is refused once.
pub(super) fn of_upstream<R: Allocator>(make: Make<R>) {
    for seed in base_seed()..base_seed() + UPSTREAM_SEEDS {
        let _told = OfSeed(seed);
        for number in 1.. {
            let machine = Machine::builder().memory(64 << 20).schedule(schedule(seed)).build();
            let entered = machine.enter();
            let upstream = Upstream::refusing(number, seed.is_multiple_of(3));
            if let Ok(resource) = make(upstream.clone(), LIMIT) {
                let common = Common::in_granules(&machine, resource, GRANULE);
                let mut world = World::on_streams(common, 0, STREAMS);
                run(&mut world, seed);
                is_as_good_as_new(world.pool(), make, LIMIT);
            }
            let is_over = !upstream.has_refused();
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
