//! Tests of the arena on one thread: its size, driver calls, errors, the dump.

use std::alloc::Layout;
use std::fs;

use rmm_adaptors::ArenaMemoryResource;
use rmm_core::{
    AnyResource, CudaStream, DevicePtr, HasProperty, HostAccessible, HostDeviceAccessible,
    Resource, StreamLifetime, SyncResource,
};
use rmm_resources::{CudaMemoryResource, PinnedHostMemoryResource};
use rmm_sim::{Fault, Machine, Schedule};
use rmm_sys::CuResult;

use crate::fixtures::lazy_machine;
use crate::support::{Arena, MIB, base_seed, free, keep_busy, layout, mib, stream, write};

const KIB: usize = 1 << 10;

fn arena(bytes: u64) -> Arena {
    Arena::builder(CudaMemoryResource::new()).arena_size(bytes).build().expect("an arena")
}

#[test]
fn the_size_is_half_of_the_free_memory_by_default() {
    let machine = lazy_machine();
    let _entered = machine.enter();
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
fn blocks_cost_no_driver_call_and_no_wait() {
    let machine = lazy_machine();
    let _entered = machine.enter();
    let (arena, stream) = (arena(mib(8)), stream());
    let warm = arena.allocate(&stream, layout(KIB)).unwrap();
    let calls = machine.calls();
    for _ in 0..100 {
        let blocks = [256, 4 * KIB, 100 * KIB]
            .map(|bytes| (arena.allocate(&stream, layout(bytes)).unwrap(), bytes));
        for (block, bytes) in blocks {
            free(&arena, &stream, block, bytes);
        }
    }
    // Large blocks do not wait either: RMM synchronizes the stream here.
    let large = arena.allocate(&stream, layout(4 * MIB)).unwrap();
    keep_busy(&machine, &stream);
    free(&arena, &stream, large, 4 * MIB);
    assert_eq!(machine.calls(), calls);
    free(&arena, &stream, warm, KIB);
    let statistics = arena.statistics();
    assert_eq!((statistics.allocations, statistics.frees), (302, 302));
    assert_eq!((statistics.host_waits, statistics.stream_waits), (0, 0));
}

#[test]
fn every_alignment_and_size_is_served_or_fails() {
    let machine = lazy_machine();
    let _entered = machine.enter();
    let (arena, stream) = (arena(mib(48)), stream());
    let mut blocks = Vec::new();
    for power in 0..=22 {
        for bytes in [1, 300, 64 * KIB] {
            let layout = Layout::from_size_align(bytes, 1 << power).unwrap();
            let block = arena.allocate(&stream, layout).unwrap();
            assert!(block.0.is_multiple_of(1 << power.max(8)), "{layout:?}: {block:?}");
            blocks.push((block, layout));
        }
    }
    for pointer in blocks.windows(2) {
        assert_ne!(pointer[0].0, pointer[1].0);
    }
    for (block, layout) in blocks {
        // SAFETY: allocated with this layout, and not used.
        unsafe { arena.deallocate(&stream, block, layout) };
    }
    assert_eq!((arena.statistics().live_bytes, arena.statistics().unknown_frees), (0, 0));
    for bytes in [usize::MAX / 2 - 255, usize::MAX / 2, 48 * MIB + 1] {
        let layout = Layout::from_size_align(bytes, 1).unwrap();
        assert!(arena.allocate(&stream, layout).unwrap_err().is_out_of_memory());
    }
    let whole = arena.allocate(&stream, layout(48 * MIB)).unwrap();
    free(&arena, &stream, whole, 48 * MIB);
}

#[test]
fn unknown_frees_are_counted_and_change_nothing() {
    let machine = Machine::builder().checks(false).build();
    let _entered = machine.enter();
    let builder = Arena::builder(CudaMemoryResource::new()).arena_size(mib(4));
    let (arena, stream) = (builder.check_frees(true).build().unwrap(), stream());
    let block = arena.allocate(&stream, layout(4 * KIB)).unwrap();
    let other = arena.allocate(&stream, layout(4 * KIB)).unwrap();
    let elsewhere = crate::support::stream();
    let unknown = [block.0 + 256, block.0 + 1, other.0 + 4096, 4096, u64::MAX - 255];
    for address in unknown {
        for stream in [&stream, &elsewhere] {
            free(&arena, stream, DevicePtr(address), 4 * KIB);
        }
    }
    free(&arena, &elsewhere, other, 4 * KIB);
    free(&arena, &elsewhere, other, 4 * KIB);
    free(&arena, &stream, block, 4 * KIB);
    free(&arena, &stream, block, 4 * KIB);
    let statistics = arena.statistics();
    assert_eq!(statistics.unknown_frees, 2 * unknown.len() as u64 + 2);
    assert_eq!((statistics.frees, statistics.live_bytes), (2, 0));
}

#[test]
fn what_other_streams_freed_serves_any_request() {
    let machine = lazy_machine();
    let _entered = machine.enter();
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
    let machine = lazy_machine();
    let _entered = machine.enter();
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
fn what_a_stream_freed_is_had_by_another_without_a_wait_of_the_host() {
    let machine = lazy_machine();
    let _entered = machine.enter();
    let (arena, idle, wants) = (arena(mib(2)), stream(), stream());
    let block = arena.allocate(&idle, layout(KIB)).unwrap();
    free(&arena, &idle, block, KIB);
    let whole = arena.allocate(&wants, layout(2 * MIB)).unwrap();
    assert_eq!(arena.statistics().host_waits, 0);
    free(&arena, &wants, whole, 2 * MIB);
    machine.assert_no_violations();
}

#[test]
fn memory_of_a_destroyed_stream_is_reused_in_order() {
    for schedule in [Schedule::Lazy, Schedule::Eager, Schedule::Seeded(base_seed())] {
        let machine = Machine::builder().memory(64 << 20).schedule(schedule).build();
        let _entered = machine.enter();
        let arena = arena(mib(2));
        for round in 0..20 {
            // The driver reuses the handle for the next stream.
            let gone: CudaStream = stream();
            let size = 1000 * 1000 - round * 256;
            for tag in 0..2 {
                let block = arena.allocate(&gone, layout(size)).expect("it was freed");
                write(&machine, &gone, block, tag);
                free(&arena, &gone, block, size);
            }
        }
        assert_eq!(arena.statistics().host_waits, 0, "an event stands for each");
        let heir = stream();
        let whole = arena.allocate(&heir, layout(2 * MIB)).expect("drained is as fresh");
        write(&machine, &heir, whole, 2);
        free(&arena, &heir, whole, 2 * MIB);
        machine.assert_no_violations();
    }
}

#[test]
fn a_failed_allocation_appends_a_report_if_enabled() {
    let machine = lazy_machine();
    let _entered = machine.enter();
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
fn streams_with_an_event_per_free_are_served() {
    for schedule in [Schedule::Lazy, Schedule::Eager, Schedule::Seeded(1)] {
        let machine = Machine::builder().schedule(schedule).build();
        let _entered = machine.enter();
        let arena = arena(mib(2));
        let (theirs, blocking) = (stream(), CudaStream::new().unwrap());
        // SAFETY: `theirs` lives until the end of the loop's body.
        let foreign = unsafe { CudaStream::adopt(theirs.as_raw(), StreamLifetime::Unknown) };
        let special = [CudaStream::legacy(), foreign.unwrap()];
        for round in 0..20 {
            for stream in &special {
                let block = arena.allocate(stream, layout(300 * KIB)).unwrap();
                write(&machine, stream, block, round);
                free(&arena, stream, block, 300 * KIB);
            }
            // The legacy default stream is implicitly ordered after blocking streams.
            let block = arena.allocate(&blocking, layout(700 * KIB)).unwrap();
            write(&machine, &blocking, block, round);
            free(&arena, &special[0], block, 700 * KIB);
            let block = arena.allocate_sync(layout(MIB)).unwrap();
            write(&machine, &theirs, block, round);
            theirs.synchronize().unwrap();
            // SAFETY: allocated above with this layout, and all use has completed.
            unsafe { arena.deallocate_sync(block, layout(MIB)) };
        }
        assert_eq!((arena.statistics().live_bytes, arena.statistics().unknown_frees), (0, 0));
        drop(arena);
        machine.assert_no_violations();
    }
}

/// The legacy default stream is implicitly ordered with blocking streams, but only where work is
/// enqueued on it.
#[test]
fn memory_reused_on_the_legacy_stream_is_ordered_by_it() {
    let machine = lazy_machine();
    let _entered = machine.enter();
    let arena = arena(mib(1));
    let (legacy, first, second) =
        (CudaStream::legacy(), CudaStream::new().unwrap(), CudaStream::new().unwrap());
    // There is no room for a second one.
    let size = 1024 * KIB;
    let block = arena.allocate(&legacy, layout(size)).unwrap();
    write(&machine, &first, block, 1);
    free(&arena, &legacy, block, size);
    let again = arena.allocate(&legacy, layout(size)).unwrap();
    assert_eq!(again, block);
    write(&machine, &second, again, 2);
    free(&arena, &legacy, again, size);
    drop(arena);
    machine.assert_no_violations();
}

#[test]
fn a_failing_upstream_leaves_nothing_behind() {
    let machine = lazy_machine();
    let _entered = machine.enter();
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
    let machine = lazy_machine();
    let _entered = machine.enter();
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
