//! What an arena has beside the pool that it is: its size, its report, errors, the dump.

use std::fs;

use rmm_adaptors::ArenaMemoryResource;
use rmm_core::{
    AnyResource, CudaStream, DevicePtr, HasProperty, HostAccessible, HostDeviceAccessible,
    Resource, SynchronousResource,
};
use rmm_resources::{CudaMemoryResource, PinnedHostMemoryResource};
use rmm_sim::{Fault, Machine};
use rmm_sys::CuResult;

use crate::fixtures::lazy_machine;
use crate::support::{Arena, MIB, free, layout, mib, stream, write};

const KIB: usize = 1 << 10;

fn arena(bytes: u64) -> Arena {
    Arena::builder(CudaMemoryResource::new()).arena_size(bytes).build().expect("an arena")
}

#[test]
fn the_size_is_half_of_the_free_memory_by_default() {
    let machine = lazy_machine().enter();
    let builder = || Arena::builder(CudaMemoryResource::new());
    assert_eq!(builder().build().unwrap().arena_size(), 32 << 20);
    assert_eq!(arena(mib(1) + 300).arena_size(), mib(1) + 256, "rounded down");
    for bytes in [0, 255, mib(1) - 1] {
        let error = builder().arena_size(bytes).build().unwrap_err();
        assert!(error.is_invalid_argument(), "{error}");
    }
    for bytes in [mib(128), u64::MAX] {
        assert!(builder().arena_size(bytes).build().is_err(), "more than the device has");
    }
    assert!(machine.leaks().is_empty());
}

#[test]
fn frees_are_checked_on_request() {
    let _machine = Machine::builder().checks(false).enter();
    let stream = stream();
    let builder = Arena::builder(CudaMemoryResource::new()).arena_size(mib(4));
    let arena = builder.check_frees(true).build().unwrap();
    let block = arena.allocate(&stream, layout(4 * KIB)).unwrap();
    free(&arena, &stream, DevicePtr(block.0 + 256), 4 * KIB);
    free(&arena, &stream, block, 4 * KIB);
    let statistics = arena.statistics();
    assert_eq!((statistics.unknown_frees, statistics.frees, statistics.live_bytes), (1, 1, 0));
}

#[test]
fn what_other_streams_freed_serves_any_request() {
    let machine = lazy_machine().enter();
    let arena = arena(mib(4));
    // Each stream keeps one block of a sixteenth of its part, and has freed the rest.
    let streams: Vec<CudaStream> = (0..4).map(|_| stream()).collect();
    let kept: Vec<DevicePtr> = streams
        .iter()
        .map(|stream| {
            let blocks: Vec<_> =
                (0..16).map(|_| arena.allocate(stream, layout(64 * KIB)).unwrap()).collect();
            for &block in &blocks[1..] {
                write(&machine, stream, block, 1);
                free(&arena, stream, block, 64 * KIB);
            }
            blocks[0]
        })
        .collect();
    let report = arena.report();
    assert_eq!((report.total_free, report.largest_free), (60 << 16, 15 << 16));
    assert!((report.fragmentation() - 75.0).abs() < 1e-9, "{report}");
    // A small block for a stream that has freed nothing, and a large one.
    let late = stream();
    let small = arena.allocate(&late, layout(KIB)).expect("there is room for it");
    write(&machine, &late, small, 2);
    let large = arena.allocate(&late, layout(15 << 16)).expect("there is room for it");
    write(&machine, &late, large, 2);
    let error = arena.allocate(&late, layout(15 << 16)).map(|pointer| {
        // What another stream freed.
        write(&machine, &late, pointer, 3);
        free(&arena, &late, pointer, 15 << 16);
        arena.allocate(&late, layout(MIB)).expect_err("no free range is that long")
    });
    let error = error.expect("there is room for it");
    assert!(error.is_out_of_memory(), "{error}");
    let held = error.usage().expect("it says what there is");
    assert_eq!((held.reserved, held.limit), (4 << 20, Some(4 << 20)));
    assert_eq!(held.live, (4 << 16) + 1024 + (15 << 16));
    assert_eq!(held.largest_free, 15 << 16);
    assert_eq!(error.requested(), Some(MIB));
    for (stream, block) in streams.iter().zip(kept) {
        free(&arena, stream, block, 64 * KIB);
    }
    free(&arena, &late, small, KIB);
    free(&arena, &late, large, 15 << 16);
    let whole = arena.allocate(&late, layout(4 * MIB)).expect("drained is as fresh");
    write(&machine, &late, whole, 4);
    free(&arena, &late, whole, 4 * MIB);
    machine.assert_no_violations();
}

/// After the device is idle, large blocks of one size fill the arena, whatever was freed before and
/// where.
#[test]
fn idle_memory_can_be_filled_with_equal_blocks() {
    let machine = lazy_machine().enter();
    let (arena, streams) = (arena(mib(16)), [stream(), stream(), stream()]);
    for bytes in [3 * MIB + 256, 2 * MIB, 5 * MIB, 16 * MIB, 4 * MIB, 3 * MIB, 2 * MIB] {
        let mut live: Vec<(&CudaStream, DevicePtr)> = Vec::new();
        for on in streams.iter().cycle() {
            let Ok(block) = arena.allocate(on, layout(bytes)) else { break };
            write(&machine, on, block, 1);
            live.push((on, block));
        }
        assert_eq!(live.len(), 16 * MIB / bytes, "blocks of {bytes} bytes");
        for (number, (on, block)) in live.into_iter().enumerate() {
            let elsewhere = &streams[(number / 3) % 3];
            elsewhere.wait_for(on).expect("an order");
            free(&arena, elsewhere, block, bytes);
        }
        for stream in &streams {
            stream.synchronize().expect("a wait");
        }
    }
    machine.assert_no_violations();
}

#[test]
fn a_failed_allocation_appends_a_report_if_enabled() {
    let _machine = lazy_machine().enter();
    let path = std::env::temp_dir().join(format!("rmm-arena-{}.log", std::process::id()));
    let dumping =
        || Arena::builder(CudaMemoryResource::new()).arena_size(mib(1)).dump_log_path(&path);
    let stream = stream();
    for (dumps, reports) in [(false, 0), (true, 2)] {
        let arena = dumping().dump_log_on_failure(dumps).build().unwrap();
        let block = arena.allocate(&stream, layout(KIB)).unwrap();
        for _ in 0..2 {
            arena.allocate(&stream, layout(MIB)).unwrap_err();
        }
        let text = fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(text.matches("arena size: 1.0 MiB").count(), reports, "{text}");
        assert_eq!(text.matches("could not allocate 1.0 MiB").count(), reports, "{text}");
        assert_eq!(text.matches("fragmentation: 0.0 %").count(), reports, "{text}");
        free(&arena, &stream, block, KIB);
    }
    fs::remove_file(&path).unwrap();
    let nowhere = std::env::temp_dir().join("no such directory").join("report");
    let arena = dumping().dump_log_on_failure(true).dump_log_path(nowhere).build().unwrap();
    assert!(arena.allocate(&stream, layout(2 * MIB)).unwrap_err().is_out_of_memory());
}

#[test]
fn a_failing_upstream_leaves_nothing_behind() {
    let machine = lazy_machine().enter();
    for code in [CuResult::OUT_OF_MEMORY, CuResult::UNKNOWN] {
        machine.fail(Fault::from_nth("cuMemAlloc_v2", 1, code));
        let error = Arena::builder(CudaMemoryResource::new()).build().unwrap_err();
        assert_eq!(error.is_out_of_memory(), code == CuResult::OUT_OF_MEMORY, "{error}");
        machine.clear_faults();
    }
    assert!(machine.leaks().is_empty());
    drop(arena(mib(1)));
}

fn claims_host_access<R: HasProperty<HostAccessible>>(_: &R) {}

#[test]
fn clones_are_equal_and_have_the_upstream_s_properties() {
    let _machine = lazy_machine().enter();
    let pinned = PinnedHostMemoryResource::new();
    let hosted = ArenaMemoryResource::<HostDeviceAccessible>::builder_with_properties(pinned);
    let hosted = hosted.arena_size(mib(1)).build().unwrap();
    claims_host_access(&hosted);
    assert_eq!(hosted.name(), "arena");
    let (one, other) = (arena(mib(1)), arena(mib(1)));
    assert_eq!(one, one.clone());
    assert_ne!(one, other);
    let erased: AnyResource = AnyResource::new(one.clone());
    assert_eq!(erased.downcast_ref::<Arena>().unwrap().arena_size(), 1 << 20);
}
