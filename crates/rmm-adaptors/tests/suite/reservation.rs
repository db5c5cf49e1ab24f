//! Tests of reservations: an allocation that fits never fails, and its blocks are the pool's.

use std::alloc::Layout;

use proptest::prelude::*;
use rmm_adaptors::{PoolMemoryResource, PoolPreset};
use rmm_core::{AnyResource, CaptureScope, DevicePtr, Introspect, Resource, SynchronousResource};
use rmm_resources::{CudaMemoryResource, VirtualMemoryResource};
use rmm_sim::Machine;

use crate::fixtures::{lazy_machine, pool};
use crate::own_process;
use crate::support::{MIB, free, layout, mib, read, stream, write};

/// Takes all that is left of the pool's memory, in ever smaller blocks.
fn exhaust(pool: &impl SynchronousResource) -> Vec<(DevicePtr, usize)> {
    let mut blocks = Vec::new();
    let mut bytes = 64 * MIB;
    while bytes >= 256 {
        match pool.allocate_sync(layout(bytes)) {
            Ok(block) => blocks.push((block, bytes)),
            Err(_) => bytes /= 2,
        }
    }
    blocks
}

fn free_all(pool: &impl SynchronousResource, blocks: Vec<(DevicePtr, usize)>) {
    for (block, bytes) in blocks {
        // SAFETY: allocated above with this layout, and not used.
        unsafe { pool.deallocate_sync(block, layout(bytes)) };
    }
}

#[test]
fn what_is_reserved_is_had_when_nothing_else_is() {
    let (machine, _entered, pool, [on]) = pool(|builder| builder.maximum_size(mib(8)));
    let reservation = pool.reserve(mib(2) + 1000).unwrap();
    assert_eq!(reservation.remaining(), mib(2) + 1024);
    let others = exhaust(&pool);
    assert!(pool.allocate(&on, layout(256)).is_err());
    let calls = machine.calls();
    let sizes = [MIB, 1000, 8, MIB - 768];
    let blocks = sizes
        .map(|bytes| (reservation.allocate(&on, layout(bytes)).expect("it is reserved"), bytes));
    assert_eq!(machine.calls(), calls, "without a driver call");
    let error = reservation.allocate(&on, layout(1000)).unwrap_err();
    assert!(error.is_out_of_memory() && error.stream() == Some(on.id()), "{error}");
    for (tag, (block, _)) in blocks.iter().enumerate() {
        write(&machine, &on, *block, tag as u64);
    }
    on.synchronize().unwrap();
    let tags = blocks.map(|(block, _)| read(&machine, block));
    assert_eq!(tags, [0, 1, 2, 3], "the blocks are disjoint");
    for (block, bytes) in blocks {
        free(&pool, &on, block, bytes);
    }
    free_all(&pool, others);
    drop(reservation);
    let statistics = pool.statistics();
    assert_eq!((statistics.live_bytes, statistics.unknown_frees), (0, 0));
    assert_eq!(statistics.allocations, statistics.frees);
    machine.assert_no_violations();
}

#[test]
fn what_remains_goes_back_with_the_last_clone() {
    let (_machine, _entered, pool, [on]) = pool(|builder| builder.maximum_size(mib(4)));
    let reservation = pool.reserve(mib(4)).unwrap();
    let clone = reservation.clone();
    let block = clone.allocate(&on, layout(MIB)).unwrap();
    drop(reservation);
    assert_eq!((clone.remaining(), pool.statistics().live_bytes), (mib(3), mib(4)));
    drop(clone);
    assert_eq!(pool.statistics().live_bytes, mib(1));
    let rest = pool.allocate_sync(layout(3 * MIB)).expect("it is idle at once");
    free_all(&pool, vec![(rest, 3 * MIB)]);
    free(&pool, &on, block, MIB);
    assert_eq!(pool.statistics().allocations, pool.statistics().frees);
}

#[test]
fn a_reservation_is_a_resource_of_the_pool_s_memory() {
    let (_machine, _entered, pool, [on]) = pool(|builder| builder);
    let reservation = pool.reserve(mib(1)).unwrap();
    let erased: AnyResource = AnyResource::of(&reservation);
    assert_eq!(
        erased.describe().to_string().lines().next(),
        Some("reservation: remaining 1.0 MiB")
    );
    let aligned = Layout::from_size_align(1000, 4096).unwrap();
    let block = erased.allocate(&on, aligned).unwrap();
    assert!(block.0.is_multiple_of(4096));
    // SAFETY: allocated above with this layout; its only stream is the one it is freed on.
    unsafe { erased.deallocate(&on, block, aligned) };
    assert_eq!(pool.reserve(0).unwrap().remaining(), 0);
    assert!(pool.reserve(u64::MAX).unwrap_err().is_invalid_argument());
    assert_eq!(erased.trim(0), 0, "what is reserved stays");
    assert_eq!(reservation.remaining(), mib(1) - 1024 - 4096 + 256);
}

#[test]
fn a_capture_does_not_keep_a_reservation_from_serving() {
    if own_process::has_run() {
        return;
    }
    let (machine, _entered, pool, [on]) = pool(|builder| builder.maximum_size(mib(4)));
    let reservation = pool.reserve(mib(4)).unwrap();
    let scope = CaptureScope::announce();
    let block = reservation.allocate(&on, layout(MIB)).expect("it is reserved");
    drop(scope);
    free(&pool, &on, block, MIB);
    machine.assert_no_violations();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    /// Requests whose sizes add up to no more than the reservation are served, whatever happens in
    /// between; freed blocks are reused by the pool only in stream order.
    #[test]
    fn requests_that_fit_never_fail(
        sizes in proptest::collection::vec(1_usize..400_000, 1..40),
        frees in proptest::collection::vec(any::<bool>(), 40),
        is_deterministic in any::<bool>(),
        is_paged in any::<bool>(),
    ) {
        let machine = lazy_machine().enter();
        let upstream: AnyResource = if is_paged {
            AnyResource::new(VirtualMemoryResource::new().unwrap())
        } else {
            AnyResource::new(rmm_resources::CudaMemoryResource::new())
        };
        let preset = if is_deterministic { PoolPreset::Deterministic } else { PoolPreset::Throughput };
        let pool = PoolMemoryResource::builder(upstream).maximum_size(mib(24)).preset(preset).build().unwrap();
        let all: usize = sizes.iter().map(|size| size.next_multiple_of(256)).sum();
        let reservation = pool.reserve(all as u64).unwrap();
        run(&machine, &pool, &reservation, &sizes, &frees);
        assert_eq!(reservation.remaining(), 0);
        drop(reservation);
        let statistics = pool.statistics();
        assert_eq!((statistics.live_bytes, statistics.unknown_frees), (0, 0));
        assert_eq!(statistics.allocations, statistics.frees);
        machine.assert_no_violations();
    }
}

fn run(
    machine: &Machine,
    pool: &PoolMemoryResource,
    reservation: &rmm_adaptors::Reservation,
    sizes: &[usize],
    frees: &[bool],
) {
    let streams = [stream(), stream()];
    let mut live = Vec::new();
    let mut others = exhaust(pool);
    for (index, &bytes) in sizes.iter().enumerate() {
        let on = &streams[index % 2];
        let block = reservation.allocate(on, layout(bytes)).expect("it is reserved");
        if bytes >= 8 {
            write(machine, on, block, index as u64);
        }
        live.push((block, bytes, on));
        if frees[index] {
            let (block, bytes, on) = live.swap_remove(index % live.len());
            free(pool, on, block, bytes);
            others.extend(exhaust(pool));
        }
    }
    for (block, bytes, on) in live {
        free(pool, on, block, bytes);
    }
    for on in &streams {
        on.synchronize().expect("it runs");
    }
    free_all(pool, others);
}

#[test]
fn a_reservation_of_less_than_a_size_class_counts_what_it_has() {
    let _machine = rmm_sim::enter();
    let pool = PoolMemoryResource::builder(CudaMemoryResource::new()).build().expect("a pool");
    let other = pool.allocate_sync(layout(4 << 20)).expect("there is memory");
    let reservation = pool.reserve(33 * 256).expect("there is memory");
    for bytes in [256, 32 * 256] {
        let block = reservation.allocate_sync(layout(bytes)).expect("it was set aside");
        // SAFETY: allocated above with this layout, and not used.
        unsafe { pool.deallocate_sync(block, layout(bytes)) };
    }
    let statistics = pool.statistics();
    assert_eq!((statistics.live_bytes, statistics.cached_bytes), (4 << 20, 0));
    // SAFETY: allocated above with this layout, and not used.
    unsafe { pool.deallocate_sync(other, layout(4 << 20)) };
}
