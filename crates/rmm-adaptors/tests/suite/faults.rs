//! Random programs whose driver calls fail.

use rmm_sim::{Fault, Machine};
use rmm_sys::CuResult;

use crate::harness::{Allocator, Fixture, Runner};
use crate::programs::Op;
use crate::support::base_seed;

/// Runs a program over the resource of `make`, with `faults` from when it and the streams exist,
/// and checks all invariants. Dropping it is also subject to the faults, unless they are over by
/// then (`are_over`): it is `drained` first, without any.
pub(crate) fn run_with_faults<R: Allocator>(
    machine: &Machine,
    ops: &[Op],
    make: impl FnOnce() -> R,
    faults: &[Fault],
    are_over: impl FnOnce() -> bool,
    drained: impl FnOnce(&R),
) {
    let entered = machine.enter();
    let mut runner = machine.without_faults(|| Runner::sharing(Fixture::over(machine, make()), 0));
    for fault in faults {
        machine.fail(fault.clone());
    }
    for op in ops {
        runner.step(op);
    }
    runner.finish();
    if are_over() {
        machine.clear_faults();
        drained(runner.pool());
    }
    drop(runner);
    machine.assert_no_violations();
    drop(entered);
}

/// Faults of some of the `calls`, each drawn as an index into them, a failure rate in twentieths,
/// and a seed; and a seed for the schedule.
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
