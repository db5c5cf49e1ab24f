//! Tests of the pool while streams are captured into graphs: it invalidates no capture, and graphs
//! keep their memory.

use std::sync::MutexGuard;

use rmm_adaptors::{PoolMemoryResource, PoolPreset};
use rmm_core::{
    CaptureScope, CudaEvent, CudaStream, Resource, StreamFlags, StreamRef, SynchronousResource,
};
use rmm_resources::{CudaMemoryResource, DefaultDeviceMemory};
use rmm_sim::{Fault, LeakKind, Machine, MachineGuard, Schedule};
use rmm_sys::CuResult;

use crate::graph_support::{alone, begin, end, fill};
use crate::support::{MIB, Pool, free, keep_busy, layout, mib, read, stream, write};

/// A machine that runs work only when it is waited for: unordered work is never complete by chance.
fn adversary() -> (Machine, (MachineGuard, MutexGuard<'static, ()>)) {
    let alone = alone();
    let machine = Machine::builder().memory(64 * MIB).schedule(Schedule::Lazy).build();
    let entered = machine.enter();
    (machine, (entered, alone))
}

fn pool_of(bytes: u64) -> Pool {
    let builder = PoolMemoryResource::builder(CudaMemoryResource::new());
    builder.initial_size(bytes).build().expect("a pool")
}

fn calls_of(machine: &Machine, names: &[&str]) -> u64 {
    let counts = machine.call_counts();
    counts.iter().filter(|(name, _)| names.contains(name)).map(|(_, count)| count).sum()
}

/// Driver calls that are not allowed on a captured stream.
const FORBIDDEN: &[&str] = &[
    "cuEventRecord",
    "cuEventQuery",
    "cuStreamQuery",
    "cuStreamWaitEvent",
    "cuMemAlloc_v2",
    "cuMemFree_v2",
    "cuCtxSynchronize",
];

#[test]
fn trimming_a_deterministic_pool_invalidates_no_capture() {
    let (machine, _entered) = adversary();
    let builder = PoolMemoryResource::builder(CudaMemoryResource::new());
    let pool = builder.preset(PoolPreset::Deterministic).build().expect("a pool");
    let stream = stream();
    let block = pool.allocate(&stream, layout(MIB)).unwrap();
    free(&pool, &stream, block, MIB);
    for is_announced in [true, false] {
        let scope = is_announced.then(CaptureScope::announce);
        begin(&stream);
        assert_eq!(pool.trim(0), 0, "nothing is known to be done");
        end(&stream);
        drop(scope);
    }
    assert!(pool.trim(0) >= MIB as u64, "it waits");
    machine.assert_no_violations();
}

#[test]
fn a_graph_shares_its_memory_with_no_one() {
    let (machine, _entered) = adversary();
    let pool = pool_of(mib(4));
    let (captured, other) = (stream(), stream());
    let scope = CaptureScope::announce();
    begin(&captured);
    let calls = calls_of(&machine, FORBIDDEN);
    let kept: Vec<_> = (0..3)
        .map(|_| {
            let block = pool.allocate(&captured, layout(MIB)).unwrap();
            fill(&captured, block, MIB);
            free(&pool, &captured, block, MIB);
            block
        })
        .collect();
    assert_eq!(calls_of(&machine, FORBIDDEN), calls);
    let graph = end(&captured);
    drop(scope);
    let statistics = pool.statistics();
    assert_eq!((statistics.graph_bytes, statistics.live_bytes), (3 << 20, 3 << 20));
    for round in 0..3 {
        graph.launch(if round == 1 { &other } else { &captured });
        for user in [&captured, &other] {
            let blocks = [MIB, MIB / 2].map(|bytes| {
                let block = pool.allocate(user, layout(bytes)).unwrap();
                assert!(!kept.contains(&block));
                fill(user, block, bytes);
                (block, bytes)
            });
            for (block, bytes) in blocks {
                free(&pool, user, block, bytes);
            }
        }
        pool.trim(0);
    }
    machine.assert_no_violations();

    // Once the graphs are destroyed, the memory is available to all streams again.
    drop(graph);
    captured.synchronize().unwrap();
    other.synchronize().unwrap();
    // SAFETY: the only graph is destroyed, and all its launches have completed.
    unsafe { pool.release_graph_memory() };
    assert_eq!((pool.statistics().graph_bytes, pool.statistics().live_bytes), (0, 0));
    pool.trim(0);
    assert_eq!(pool.reserved_bytes(), 0);
    machine.assert_no_violations();
}

#[test]
fn a_graph_gets_only_memory_that_no_work_uses() {
    let (machine, _entered) = adversary();
    let pool = pool_of(mib(2));
    let (captured, other) = (stream(), stream());
    let block = pool.allocate(&captured, layout(MIB)).unwrap();
    write(&machine, &captured, block, 1);
    free(&pool, &captured, block, MIB);
    let _scope = CaptureScope::announce();
    begin(&captured);
    // The stream's own free block would do for the stream, but not for a graph that may be launched
    // elsewhere.
    let for_graph = pool.allocate(&captured, layout(MIB)).unwrap();
    assert_ne!(for_graph, block);
    fill(&captured, for_graph, MIB);
    free(&pool, &captured, for_graph, MIB);
    let graph = end(&captured);
    graph.launch(&other);
    other.synchronize().unwrap();
    assert_eq!(read(&machine, for_graph), 0x0707_0707_0707_0707);
    assert_eq!(read(&machine, block), 0, "the other stream's work need not have run");
    machine.assert_no_violations();
}

/// Whether a capture gets `wanted` MiB of a pool of 12 MiB. All of that was allocated in blocks of
/// these MiB, each used by work that is not complete, or not used at all, and freed.
fn capture_is_served(
    backing: DefaultDeviceMemory,
    blocks: &[(usize, bool)],
    wanted: usize,
) -> bool {
    let (machine, _entered) = adversary();
    let builder = match backing {
        DefaultDeviceMemory::CudaMalloc => PoolMemoryResource::builder(CudaMemoryResource::new()),
        _ => PoolMemoryResource::default_builder().expect("virtual memory"),
    };
    let pool = builder.initial_size(mib(12)).build().expect("a pool");
    assert_eq!(pool.default_memory(), Some(backing));
    let stream = stream();
    let (used, unused): (Vec<_>, Vec<_>) = blocks
        .iter()
        .map(|&(size, is_used)| {
            (pool.allocate_sync(layout(size * MIB)).expect("it works"), size, is_used)
        })
        .partition(|&(.., is_used)| is_used);
    for (block, size, _) in unused {
        // SAFETY: allocated above with this layout, and not used.
        unsafe { pool.deallocate_sync(block, layout(size * MIB)) };
    }
    for (block, size, _) in used {
        write(&machine, &stream, block, 1);
        free(&pool, &stream, block, size * MIB);
    }
    let scope = CaptureScope::announce();
    begin(&stream);
    let block = pool.allocate(&stream, layout(wanted * MIB)).ok();
    if let Some(block) = block {
        fill(&stream, block, wanted * MIB);
        free(&pool, &stream, block, wanted * MIB);
    }
    let graph = end(&stream);
    // The graph runs beside the work on the stream, which has not begun.
    let other = self::stream();
    graph.launch(&other);
    other.synchronize().expect("it works");
    drop(scope);
    stream.synchronize().expect("it works");
    machine.assert_no_violations();
    block.is_some()
}

#[test]
fn a_capture_gets_over_virtual_memory_what_it_gets_elsewhere() {
    let layouts: [&[(usize, bool)]; 8] = [
        &[(1, true), (11, false)],
        &[(11, false), (1, true)],
        &[(1, true), (10, false), (1, true)],
        &[(3, false), (1, true), (3, false), (1, true), (4, false)],
        &[(1, true), (1, false), (1, true), (1, false), (1, true), (7, false)],
        &[(6, true), (6, false)],
        &[(2, false), (8, true), (2, false)],
        &[(12, true)],
    ];
    for blocks in layouts {
        let unused = blocks.iter().filter(|(_, is_used)| !is_used).map(|&(size, _)| size);
        let longest = unused.max().unwrap_or(0);
        for wanted in [1, 2, 3, 4, 6, 7, 8, 10, 11, 12] {
            for backing in [DefaultDeviceMemory::CudaMalloc, DefaultDeviceMemory::VirtualMemory] {
                let is_served = capture_is_served(backing, blocks, wanted);
                assert_eq!(is_served, wanted <= longest, "{wanted} of {blocks:?} over {backing:?}");
            }
        }
    }
}

#[test]
fn a_graph_gets_memory_whose_uses_have_completed() {
    let alone = alone();
    let machine = Machine::builder().memory(64 * MIB).schedule(Schedule::Eager).build();
    let _entered = (machine.enter(), alone);
    let builder = PoolMemoryResource::builder(CudaMemoryResource::new());
    let pool = builder.initial_size(mib(12)).maximum_size(mib(12)).build().expect("a pool");
    let user = StreamRef::per_thread();
    let blocks: Vec<_> =
        (0..6).map(|_| pool.allocate(user, layout(2 * MIB)).expect("a block")).collect();
    for place in [0, 2, 4] {
        free(&pool, user, blocks[place], 2 * MIB);
    }
    // Asks the driver what is complete.
    pool.trim(u64::MAX);
    let captured = stream();
    let _scope = CaptureScope::announce();
    begin(&captured);
    let for_graph = pool.allocate(&captured, layout(2 * MIB)).expect("a block");
    let frees = pool.statistics().frees;
    free(&pool, &captured, for_graph, 2 * MIB);
    assert_eq!(pool.statistics().frees, frees + 1);
    drop(end(&captured));
    machine.assert_no_violations();
}

/// A batch that the captured stream itself freed is no better: the graph may be launched on any
/// stream.
#[test]
fn a_graph_gets_no_block_of_a_batch() {
    const BYTES: usize = 8192;
    /// More than a cache holds, a thirty-second of the pool.
    const FREED: usize = 129;
    let (machine, _entered) = adversary();
    let builder = PoolMemoryResource::builder(CudaMemoryResource::new());
    // With a limit, what caches hold does not follow demand.
    let builder = builder.initial_size(mib(32)).maximum_size(mib(32));
    let pool = builder.check_frees(false).build().expect("a pool");
    let (captured, maker, other) = (stream(), stream(), stream());
    let allocate = |stream: &CudaStream| pool.allocate(stream, layout(BYTES)).unwrap();
    // Batches are kept of what other streams miss.
    (0..12).for_each(|_| _ = allocate(&other));
    let blocks: Vec<_> = (0..FREED).map(|_| allocate(&maker)).collect();
    let made = CudaEvent::new().unwrap();
    made.record(&maker).unwrap();
    captured.wait(&made).unwrap();
    let before = pool.statistics().cached_bytes;
    for &block in &blocks {
        write(&machine, &captured, block, 1);
        free(&pool, &captured, block, BYTES);
    }
    // Until the stream's own cache is empty.
    let cached = || pool.statistics().cached_bytes - before;
    (0..FREED).take_while(|_| cached() > 64 * BYTES as u64).for_each(|_| _ = allocate(&captured));
    assert_eq!(cached(), 64 * BYTES as u64, "one batch");
    let scope = CaptureScope::announce();
    begin(&captured);
    let block = allocate(&captured);
    fill(&captured, block, BYTES);
    let graph = end(&captured);
    graph.launch(&other);
    drop(scope);
    assert!(!blocks.contains(&block));
    machine.assert_no_violations();
}

#[test]
fn a_graph_s_failed_request_invalidates_no_capture() {
    let (machine, _entered) = adversary();
    let pool = pool_of(mib(1));
    let (captured, other) = (stream(), stream());
    let whole = pool.allocate(&other, layout(MIB)).unwrap();
    write(&machine, &other, whole, 1);
    free(&pool, &other, whole, MIB);
    for announced in [true, false] {
        let _scope = announced.then(CaptureScope::announce);
        begin(&captured);
        let calls = calls_of(&machine, FORBIDDEN);
        let error = pool.allocate(&captured, layout(MIB)).unwrap_err();
        assert!(
            error.is_unsupported() && error.to_string().contains("during a capture"),
            "{error}"
        );
        assert_eq!(error.stream(), Some(captured.id()));
        assert_eq!(calls_of(&machine, FORBIDDEN), calls);
        drop(end(&captured));
    }
    machine.assert_no_violations();
    // Outside of the capture, the same request is served.
    let block = pool.allocate(&captured, layout(MIB)).unwrap();
    free(&pool, &captured, block, MIB);
}

/// Runs everything that the pool does for uncaptured streams.
fn use_pool(machine: &Machine, pool: &Pool) {
    let (first, second) = (stream(), stream());
    // More frees than the pool leaves without an event, on streams of each kind.
    let (blocking, per_thread) = (CudaStream::new().expect("a stream"), CudaStream::per_thread());
    for user in [&first, &blocking, &per_thread] {
        for _ in 0..100 {
            let block = pool.allocate(user, layout(4096)).expect("there is memory");
            write(machine, user, block, 1);
            free(pool, user, block, 4096);
        }
    }
    // More streams than the pool keeps in its table.
    let many: Vec<_> = (0..40).map(|_| stream()).collect();
    for user in &many {
        let block = pool.allocate(user, layout(4096)).expect("there is memory");
        write(machine, user, block, 1);
        free(pool, user, block, 4096);
    }
    // Growth and trimming.
    let large = pool.allocate(&first, layout(8 * MIB)).expect("there is memory");
    write(machine, &first, large, 2);
    free(pool, &first, large, 8 * MIB);
    let again = pool.allocate(&second, layout(8 * MIB)).expect("there is memory");
    write(machine, &second, again, 3);
    free(pool, &second, again, 8 * MIB);
    let clean = pool.allocate_sync(layout(MIB)).expect("there is memory");
    // SAFETY: allocated above, and not used.
    unsafe { pool.deallocate_sync(clean, layout(MIB)) };
    machine.run_all();
    pool.trim(0);
}

#[test]
fn other_users_of_the_pool_invalidate_no_capture() {
    let (machine, _entered) = adversary();
    let pool = PoolMemoryResource::builder(CudaMemoryResource::new())
        .maximum_size(mib(24))
        .build()
        .unwrap();
    for flags in [StreamFlags::NON_BLOCKING, StreamFlags::empty()] {
        for announced in [true, false] {
            let captured = CudaStream::with_flags(flags, 0).unwrap();
            let block = pool.allocate(&captured, layout(4096)).unwrap();
            write(&machine, &captured, block, 1);
            free(&pool, &captured, block, 4096);
            let _scope = announced.then(CaptureScope::announce);
            begin(&captured);
            use_pool(&machine, &pool);
            std::thread::scope(|scope| {
                let user = scope.spawn(|| machine.scope(|| use_pool(&machine, &pool)));
                user.join().unwrap();
            });
            let built = pool_of(mib(1));
            drop(end(&captured));
            drop(built);
        }
    }
    assert!(pool.statistics().event_queries > 0 && pool.statistics().upstream_frees > 0);
    machine.assert_no_violations();
}

/// How the pool can know of a capture: it was announced, its stream is in the pool's table, or its
/// stream is a blocking one.
#[derive(Clone, Copy, PartialEq)]
enum Knows {
    Announcement,
    Stream,
    Legacy,
}

#[test]
fn the_device_is_not_synchronized_during_a_capture() {
    for knows in [Knows::Announcement, Knows::Stream, Knows::Legacy] {
        let (machine, _entered) = adversary();
        let pool = PoolMemoryResource::builder(CudaMemoryResource::new())
            .maximum_size(mib(2))
            .build()
            .unwrap();
        let captured = if knows == Knows::Legacy { CudaStream::new().unwrap() } else { stream() };
        if knows == Knows::Stream {
            let block = pool.allocate(&captured, layout(256)).unwrap();
            free(&pool, &captured, block, 256);
            captured.synchronize().unwrap();
            pool.trim(0);
        }
        let owner = stream();
        let blocks = [0, 1].map(|_| pool.allocate(&owner, layout(MIB)).unwrap());
        (0..100).for_each(|_| keep_busy(&machine, &owner)); // more than is done while the pool asks
        for block in blocks {
            free(&pool, &owner, block, MIB);
        }
        let scope = (knows == Knows::Announcement).then(CaptureScope::announce);
        begin(&captured);
        let refused = pool.allocate_sync(layout(2 * MIB)).unwrap_err();
        assert!(refused.is_out_of_memory(), "{refused}");
        drop(end(&captured));
        drop(scope);
        let served = pool.allocate_sync(layout(2 * MIB)).unwrap();
        assert_eq!(pool.statistics().host_waits, 1);
        // SAFETY: allocated above, and not used.
        unsafe { pool.deallocate_sync(served, layout(2 * MIB)) };
        machine.assert_no_violations();
    }
}

#[test]
fn legacy_stream_memory_invalidates_no_blocking_capture() {
    for announced in [true, false] {
        let (machine, _entered) = adversary();
        let pool = PoolMemoryResource::builder(CudaMemoryResource::new())
            .maximum_size(mib(2))
            .build()
            .unwrap();
        let (captured, legacy, other) =
            (CudaStream::new().unwrap(), CudaStream::legacy(), stream());
        let half = || layout(MIB);
        let block = pool.allocate(&legacy, half()).unwrap();
        write(&machine, &legacy, block, 1);
        let elsewhere = pool.allocate(&other, half()).unwrap();
        (0..100).for_each(|_| keep_busy(&machine, &other));
        free(&pool, &other, elsewhere, MIB);
        let scope = announced.then(CaptureScope::announce);
        begin(&captured);
        // It cannot be made to wait for the other one now, and no event can be recorded on it.
        assert!(pool.allocate(&legacy, half()).unwrap_err().is_out_of_memory());
        free(&pool, &legacy, block, MIB);
        let whole = layout(2 * MIB);
        assert!(pool.allocate(&stream(), whole).unwrap_err().is_out_of_memory());
        drop(end(&captured));
        drop(scope);
        let last = stream();
        let again = pool.allocate(&last, whole).unwrap();
        assert_eq!(pool.statistics().host_waits, 0, "now an event can be recorded");
        free(&pool, &last, again, 2 * MIB);
        machine.assert_no_violations();
    }
}

#[test]
fn dropping_a_pool_invalidates_no_announced_capture() {
    for announced in [true, false] {
        let (machine, _entered) = adversary();
        let (captured, other) = (stream(), stream());
        let scope = announced.then(CaptureScope::announce);
        let pool = PoolMemoryResource::builder(CudaMemoryResource::new()).build().unwrap();
        // Four upstream blocks: one with a live block of the captured stream, one reserved for the
        // graph, one live elsewhere, one unused.
        let size = 8 * MIB;
        let take = |stream: &CudaStream| pool.allocate(stream, layout(size)).unwrap();
        let blocks = [take(&captured), take(&captured), take(&other), take(&other)];
        captured.synchronize().unwrap();
        write(&machine, &captured, blocks[0], 1);
        free(&pool, &captured, blocks[0], size);
        write(&machine, &other, blocks[2], 1);
        free(&pool, &other, blocks[2], size);
        free(&pool, &other, blocks[3], size);
        begin(&captured);
        fill(&captured, blocks[1], size);
        free(&pool, if announced { &captured } else { &other }, blocks[1], size);
        assert_eq!(pool.statistics().upstream_allocations, 4);
        let before = calls_of(&machine, &["cuMemFree_v2"]);
        drop(pool);
        let graph = end(&captured);
        drop(scope);
        let freed = calls_of(&machine, &["cuMemFree_v2"]) - before;
        assert_eq!(freed, if announced { 2 } else { 3 });
        machine.assert_no_violations();
        if announced {
            graph.launch(&captured);
            machine.run_all();
            machine.assert_no_violations();
        }
        let is_memory = |leak: &&rmm_sim::Leak| leak.kind == LeakKind::Allocation;
        assert_eq!(machine.leaks().iter().filter(is_memory).count() as u64, 4 - freed);
    }
}

#[test]
fn a_stream_destroyed_in_a_capture_records_no_event() {
    let (machine, _entered) = adversary();
    let pool = pool_of(mib(1));
    let captured = stream();
    let block = pool.allocate(&captured, layout(MIB)).unwrap();
    write(&machine, &captured, block, 1);
    free(&pool, &captured, block, MIB);
    begin(&captured);
    let records = calls_of(&machine, FORBIDDEN);
    drop(captured);
    assert_eq!(calls_of(&machine, FORBIDDEN), records);
    // Its memory is available after a wait for the device.
    machine.run_all();
    let again = pool.allocate_sync(layout(MIB)).unwrap();
    // SAFETY: allocated above, and not used.
    unsafe { pool.deallocate_sync(again, layout(MIB)) };
    machine.assert_no_violations();
}

#[test]
fn a_driver_without_relaxed_mode_changes_nothing_else() {
    let (machine, _entered) = adversary();
    machine.fail(Fault::from_nth("cuThreadExchangeStreamCaptureMode", 1, CuResult::UNKNOWN));
    let pool = pool_of(mib(1));
    let user = stream();
    let block = pool.allocate(&user, layout(4 * MIB)).unwrap();
    free(&pool, &user, block, 4 * MIB);
    drop(pool);
    machine.assert_no_violations();
}

#[test]
fn a_failed_capture_query_makes_no_block_reusable() {
    let (machine, _entered) = adversary();
    let pool = pool_of(mib(1));
    let user = stream();
    let block = pool.allocate(&user, layout(MIB / 2)).unwrap();
    let _scope = CaptureScope::announce();
    let silent = CuResult::UNKNOWN;
    machine.fail(Fault::nth("cuStreamIsCapturing", 1, silent));
    let error = pool.allocate(&user, layout(256)).unwrap_err();
    assert_eq!((error.origin(), error.code()), ("cuStreamIsCapturing", Some(silent)));
    machine.fail(Fault::nth("cuStreamIsCapturing", 1, silent));
    free(&pool, &user, block, MIB / 2);
    assert_eq!(pool.statistics().graph_bytes, (MIB / 2) as u64);
    assert_ne!(pool.allocate(&user, layout(MIB / 2)).unwrap(), block);
}

#[test]
fn an_undersized_block_of_a_graph_does_not_disable_caches() {
    let (_machine, _entered) = adversary();
    let size = 33 * 256; // its class is of 34 * 256 bytes
    let builder = PoolMemoryResource::builder(CudaMemoryResource::new()).initial_size(mib(2));
    let pool = builder.maximum_size(mib(2)).build().unwrap();
    let user = stream();
    let rest = pool.allocate(&user, layout(2 * MIB - size)).unwrap();
    let odd = pool.allocate(&user, layout(size)).unwrap();
    free(&pool, &user, rest, 2 * MIB - size);
    let is_cached = || {
        let block = pool.allocate(&user, layout(4096)).unwrap();
        free(&pool, &user, block, 4096);
        pool.statistics().cached_bytes == 4096
    };
    assert!(!is_cached(), "the size of what is freed is not known without the heap");
    let scope = CaptureScope::announce();
    begin(&user);
    free(&pool, &user, odd, size);
    drop(end(&user));
    drop(scope);
    assert!(is_cached());
    // SAFETY: the graph is destroyed, and was never launched.
    unsafe { pool.release_graph_memory() };
    assert!(is_cached());
}
