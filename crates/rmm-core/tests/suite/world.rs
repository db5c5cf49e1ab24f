//! Queries of the software device.

use rmm_sim::Machine;

/// The number of calls of a driver function.
pub(crate) fn calls_of(machine: &Machine, function: &str) -> u64 {
    let counts = machine.call_counts();
    counts.iter().find(|(name, _)| *name == function).map_or(0, |(_, count)| *count)
}
