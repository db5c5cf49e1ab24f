//! Tests of a pool whose limit depends on the memory that there is.

use rmm_adaptors::PoolMemoryResource;
use rmm_core::SynchronousResource;
use rmm_resources::{Budget, CudaMemoryResource};
use rmm_sim::Machine;

use crate::support::{MIB, layout, mib};

fn limit(limit: impl Into<Budget>) -> Option<u64> {
    let builder = PoolMemoryResource::builder(CudaMemoryResource::new()).maximum_size(limit);
    builder.build().expect("a pool").maximum_size()
}

#[test]
fn the_smaller_of_two_limits_counts() {
    let _machine = Machine::builder().memory(64 * MIB).enter();
    let half = Budget::free_fraction(0.5);
    assert_eq!(limit(half), Some(mib(32)));
    assert_eq!(limit(half.at_most(mib(8))), Some(mib(8)));
    assert_eq!(limit(half.at_most(mib(40))), Some(mib(32)));
}

#[test]
fn a_budget_is_what_is_free_when_the_pool_is_built() {
    let _machine = Machine::builder().memory(64 * MIB).enter();
    let others = CudaMemoryResource::new();
    let taken = others.allocate_sync(layout(32 * MIB)).expect("there is memory");
    assert_eq!(limit(Budget::free_except(mib(2))), Some(mib(30)));
    // SAFETY: allocated above with this layout, and not used.
    unsafe { others.deallocate_sync(taken, layout(32 * MIB)) };
    let builder = PoolMemoryResource::builder(others).maximum_size(Budget::free_fraction(2.0));
    assert!(builder.build().unwrap_err().is_invalid_argument());
}
