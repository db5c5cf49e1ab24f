//! How many driver calls a pair of an allocation and a free makes, for each kind of stream.

use std::sync::Arc;

use rmm_adaptors::{ArenaMemoryResource, FixedSizeMemoryResource, PoolMemoryResource};
use rmm_core::{CudaStream, Resource, StreamLifetime};
use rmm_resources::CudaMemoryResource;
use rmm_sim::{Machine, Schedule};

use crate::support::{MIB, free, layout, mib, stream};

const PAIRS: u64 = 1000;
/// Pairs on the legacy default stream that one event serves, at least.
const FENCED_TOGETHER: u64 = 20;
/// Calls beside the record of an event: whether the context exists and is current, whether the
/// stream is captured, the thread's capture mode, what is complete.
const BESIDE_AN_EVENT: u64 = 9;

/// A stream, and the most calls of its pairs in all.
struct Case {
    name: &'static str,
    stream: CudaStream,
    calls: u64,
}

fn cases(theirs: &[CudaStream; 3]) -> Vec<Case> {
    let adopt = |stream: &CudaStream, lifetime| {
        // SAFETY: the stream lives during the test.
        unsafe { CudaStream::adopt(stream.as_raw(), lifetime) }.expect("it exists")
    };
    let owner = Arc::new(theirs[1].clone());
    // SAFETY: the owner keeps the stream.
    let kept = unsafe { CudaStream::adopt_owned_by(theirs[1].as_raw(), owner) };
    let legacy = (PAIRS / FENCED_TOGETHER + 1) * BESIDE_AN_EVENT;
    let case = |name, stream, calls| Case { name, stream, calls };
    vec![
        case("owned", stream(), 0),
        case("adopted", adopt(&theirs[0], StreamLifetime::UntilDropped), 0),
        case("adopted with an owner", kept.expect("it exists"), 0),
        case("per-thread", CudaStream::per_thread(), 0),
        case("legacy", CudaStream::legacy(), legacy),
        case("unknown", adopt(&theirs[2], StreamLifetime::Unknown), 2 * PAIRS),
    ]
}

fn machine() -> Machine {
    Machine::builder().memory(1 << 30).schedule(Schedule::Eager).checks(false).build()
}

/// The calls of the pairs, once the resource is warm.
fn calls(machine: &Machine, resource: &impl Resource, stream: &CudaStream, size: usize) -> u64 {
    let pair = || {
        let block = resource.allocate(stream, layout(size)).expect("memory");
        free(resource, stream, block, size);
    };
    (0..300).for_each(|_| pair());
    let before = machine.calls();
    (0..PAIRS).for_each(|_| pair());
    machine.calls() - before
}

/// Checks a new resource with each stream.
fn check<R: Resource>(machine: &Machine, sizes: &[usize], make: impl Fn() -> R) {
    let theirs = [stream(), stream(), stream()];
    for Case { name, stream, calls: most } in cases(&theirs) {
        let resource = make();
        for &size in sizes {
            let calls = calls(machine, &resource, &stream, size);
            assert!(calls <= most, "{name}, {size} bytes: {calls} calls of {PAIRS} pairs");
            assert!(name != "unknown" || calls == most, "{name}: {calls} calls");
        }
    }
}

fn pool() -> PoolMemoryResource {
    let builder = PoolMemoryResource::builder(CudaMemoryResource::new()).check_frees(false);
    builder.initial_size(mib(512)).build().expect("a pool")
}

#[test]
fn a_pair_of_the_pool_calls_no_driver() {
    let machine = machine().enter();
    check(&machine, &[1000, 100 << 10, 2 * MIB], pool);
}

/// Several streams share the pool.
#[test]
fn a_pair_beside_other_streams_calls_no_driver() {
    let machine = machine().enter();
    let pool = pool();
    check(&machine, &[1000, 100 << 10], || pool.clone());
}

#[test]
fn a_pair_of_the_other_suballocators_calls_no_driver() {
    let machine = machine().enter();
    check(&machine, &[1000, 100 << 10], || {
        let builder = ArenaMemoryResource::builder(CudaMemoryResource::new());
        builder.arena_size(mib(256)).build().expect("an arena")
    });
    check(&machine, &[1000], || {
        let builder = FixedSizeMemoryResource::builder(CudaMemoryResource::new());
        builder.block_size(4096).build().expect("blocks")
    });
}

#[test]
fn streams_that_outlive_the_pool_are_not_identified() {
    let machine = machine().enter();
    let theirs = stream();
    let builder = PoolMemoryResource::builder(CudaMemoryResource::new()).check_frees(false);
    // SAFETY: the stream is declared before the pool.
    let builder = unsafe { builder.streams_outlive_pool() };
    let pool = builder.initial_size(mib(16)).build().expect("a pool");
    // SAFETY: as above.
    let ours = unsafe { CudaStream::adopt(theirs.as_raw(), StreamLifetime::Unknown) };
    assert_eq!(calls(&machine, &pool, &ours.expect("it exists"), 1000), 0);
}
