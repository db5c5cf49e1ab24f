//! Random programs whose driver calls fail.

use rmm_sim::{Fault, Machine};
use rmm_sys::CuResult;

use crate::program::Op;
use crate::short::base_seed;
use crate::world::{Allocator, Common, World};

/// Runs a program over what `make` makes, with `faults` once that and the streams are there, and
/// checks all that must hold. Its end is among the calls that may fail, unless the faults
/// `are_over` by then: it is `drained` first, without any.
pub(crate) fn run_with_faults<R: Allocator>(
    machine: &Machine,
    ops: &[Op],
    make: impl FnOnce() -> R,
    faults: &[Fault],
    are_over: impl FnOnce() -> bool,
    drained: impl FnOnce(&R),
) {
    let entered = machine.enter();
    let mut world = machine.without_faults(|| World::sharing(Common::over(machine, make()), 0));
    for fault in faults {
        machine.fail(fault.clone());
    }
    for op in ops {
        world.step(op);
    }
    world.finish();
    if are_over() {
        machine.clear_faults();
        drained(world.pool());
    }
    drop(world);
    machine.assert_no_violations();
    drop(entered);
}

/// Faults of some of the `calls`, each drawn as a place among them, how many in twenty fail, and a
/// seed; and a seed for the schedule.
pub(crate) fn again_and_again(
    calls: &[&'static str],
    drawn: &[(usize, u32, u64)],
) -> (Vec<Fault>, u64) {
    let fault = |&(call, twentieths, seed): &(usize, u32, u64)| {
        Fault::probability(calls[call], f64::from(twentieths) / 20.0, seed, CuResult::UNKNOWN)
    };
    let seed = drawn.iter().fold(base_seed(), |seed, &(_, _, next)| seed ^ next);
    (drawn.iter().map(fault).collect(), seed)
}
