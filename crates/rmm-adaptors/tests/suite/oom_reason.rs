//! Tests of the reason that an out-of-memory error gives: the advice in it works.

use rmm_core::{CaptureScope, OomReason, PendingBytes, Resource, SynchronousResource};
use rmm_resources::CudaMemoryResource;
use rmm_sim::{Machine, Schedule};

use crate::fixtures::pool_on;
use crate::own_process;
use crate::support::{MIB, Pool, free, keep_busy, layout, mib, stream};

fn adversary() -> Machine {
    Machine::builder().memory(16 * MIB).schedule(Schedule::Lazy).build()
}

#[test]
fn too_little_is_exhausted_and_scattered_is_fragmented() {
    let _machine = adversary().enter();
    let pool = Pool::builder(CudaMemoryResource::new());
    let pool = pool.initial_size(mib(4)).maximum_size(mib(4)).build().unwrap();
    let on = stream();
    let blocks = [0; 4].map(|_| pool.allocate(&on, layout(MIB)).unwrap());
    let failure = |bytes| {
        let error = pool.allocate(&on, layout(bytes)).unwrap_err();
        let exhaustion = error.usage().unwrap();
        (exhaustion.reason.unwrap(), exhaustion.longest_range, error.to_string())
    };
    let (shortage, _, text) = failure(MIB);
    assert_eq!(shortage, OomReason::Exhausted);
    assert!(text.ends_with("; not enough memory is free, and the limit leaves no room: free memory or raise the limit"), "{text}");
    for block in [blocks[0], blocks[2]] {
        free(&pool, &on, block, MIB);
    }
    let (shortage, range, text) = failure(2 * MIB);
    assert_eq!((shortage, range), (OomReason::Fragmented, 1 << 20));
    let statistics = pool.statistics();
    assert_eq!(statistics.largest_free_bytes, 1 << 20);
    assert!((statistics.fragmentation() - 0.5).abs() < f64::EPSILON);
    assert!(text.contains("enough memory is free, but not in one contiguous range"), "{text}");
    assert_eq!(failure(3 * MIB).0, OomReason::Exhausted);
    assert_eq!(failure(5 * MIB).0, OomReason::Exhausted);
    for block in [blocks[1], blocks[3]] {
        free(&pool, &on, block, MIB);
    }
}

#[test]
fn a_full_upstream_is_the_reason() {
    let (_machine, _entered, pool, []) = pool_on(adversary(), |builder| builder);
    let theirs = CudaMemoryResource::new();
    let block = theirs.allocate_sync(layout(14 * MIB)).unwrap();
    let on = stream();
    let error = pool.allocate(&on, layout(4 * MIB)).unwrap_err();
    assert_eq!(error.usage().unwrap().reason, Some(OomReason::Upstream), "{error}");
    // SAFETY: allocated above with this layout, and not used.
    unsafe { theirs.deallocate_sync(block, layout(14 * MIB)) };
    let block = pool.allocate(&on, layout(4 * MIB)).expect("they gave it back");
    free(&pool, &on, block, 4 * MIB);
}

#[test]
fn memory_that_a_capture_keeps_busy_is_pending() {
    if own_process::has_run() {
        return;
    }
    let machine = adversary().enter();
    let pool = Pool::builder(CudaMemoryResource::new());
    let pool = pool.initial_size(mib(4)).maximum_size(mib(4)).build().unwrap();
    let on = stream();
    let halves = [0; 2].map(|_| pool.allocate(&on, layout(2 * MIB)).unwrap());
    keep_busy(&machine, &on);
    for block in halves {
        free(&pool, &on, block, 2 * MIB);
    }
    let announced = CaptureScope::announce();
    // Synchronous memory: only a wait for the device would make it available.
    let error = pool.allocate_sync(layout(3 * MIB)).unwrap_err();
    assert_eq!(error.usage().unwrap().reason, Some(OomReason::Pending), "{error}");
    assert_eq!(error.usage().unwrap().longest_range, 4 << 20);
    let held = PendingBytes::new(on.id(), 4 << 20);
    assert_eq!(error.pending_bytes(), [held]);
    let text = error.to_string();
    let expected =
        format!(", 4.0 MiB freed and perhaps still in use (stream {}: 4.0 MiB)", on.id());
    assert!(text.contains(&expected), "{text}");
    assert!(text.ends_with("may still be in use by the device: synchronize and retry"), "{text}");
    drop(announced);
    on.synchronize().unwrap();
    let block = pool.allocate_sync(layout(3 * MIB)).expect("waiting has helped");
    // SAFETY: allocated above with this layout, and not used.
    unsafe { pool.deallocate_sync(block, layout(3 * MIB)) };
}
