//! Tests of pools for graphs: they serve captured streams in stream order, grow meanwhile, give the
//! memory to no one else, and restore what was live at a checkpoint.

use std::collections::BTreeMap;
use std::sync::MutexGuard;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use rmm_adaptors::{Contents, PoolMemoryResource, SleepOptions};
use rmm_core::{
    AnyResource, CaptureScope, CudaStream, DevicePtr, ErrorKind, Resource, StreamRef,
    SynchronousResource,
};
use rmm_resources::{CudaMemoryResource, VirtualMemoryResource};
use rmm_sim::{LeakKind, Machine, MachineGuard, Schedule};

use crate::graph_support::{Executable, alone, begin, end, fill};
use crate::support::{MIB, Pool, free, keep_busy, layout, read, stream, write};

/// A machine that runs work only when it is waited for: unordered work is never complete by chance.
fn adversary() -> (Machine, (MachineGuard, MutexGuard<'static, ()>)) {
    let alone = alone();
    let machine = Machine::builder().memory(512 * MIB).schedule(Schedule::Lazy).build();
    let entered = machine.enter();
    (machine, (entered, alone))
}

/// A pool for graphs over `cudaMalloc`, and one over virtual memory.
fn pools() -> [Pool; 2] {
    let virtual_memory = VirtualMemoryResource::new().expect("virtual memory");
    [
        PoolMemoryResource::builder(CudaMemoryResource::new()),
        PoolMemoryResource::builder(virtual_memory),
    ]
    .map(|builder| builder.for_graphs(true).build().expect("a pool"))
}

/// A graph that fills `bytes` bytes, which its capture allocates and frees, and their address.
fn graph_with_scratch(pool: &Pool, captured: &CudaStream, bytes: usize) -> (Executable, DevicePtr) {
    let _scope = CaptureScope::announce();
    begin(captured);
    let block = pool.allocate(captured, layout(bytes)).expect("it grows");
    fill(captured, block, bytes);
    free(pool, captured, block, bytes);
    (end(captured), block)
}

/// Says that no graph uses the pool, and returns all of its memory.
fn end_graphs(machine: &Machine, pool: &Pool) {
    machine.run_all();
    // SAFETY: all graphs of the test are destroyed, and all work has run.
    unsafe { pool.release_graph_memory() };
    pool.trim_blocking(0);
    assert_eq!((pool.reserved_bytes(), pool.statistics().live_bytes), (0, 0));
}

#[test]
fn a_captured_stream_reuses_what_it_has_freed_and_the_pool_grows_for_it() {
    let (machine, _entered) = adversary();
    for pool in pools() {
        let (captured, other) = (stream(), stream());
        for is_announced in [true, false] {
            let scope = is_announced.then(CaptureScope::announce);
            begin(&captured);
            let mut used = Vec::new();
            for size in [1, 4, 2, 9] {
                let first = pool.allocate(&captured, layout(size * MIB)).expect("it grows");
                fill(&captured, first, size * MIB);
                free(&pool, &captured, first, size * MIB);
                let again = pool.allocate(&captured, layout(size * MIB)).expect("it was freed");
                assert_eq!(again, first);
                fill(&captured, again, size * MIB);
                free(&pool, &captured, again, size * MIB);
                used.push((first.0, first.0 + (size * MIB) as u64));
            }
            let graph = end(&captured);
            drop(scope);
            // Launches use the memory for as long as the graph exists.
            for round in 0..3 {
                graph.launch(if round == 1 { &other } else { &captured });
                let users = [StreamRef::from(&other), StreamRef::per_thread(), StreamRef::legacy()];
                for user in users {
                    let block = pool.allocate(user, layout(MIB)).expect("other memory");
                    assert!(used.iter().all(|&(from, to)| !(from..to).contains(&block.0)));
                    free(&pool, user, block, MIB);
                }
                let clean = pool.allocate_sync(layout(MIB)).expect("unused memory");
                assert!(used.iter().all(|&(from, to)| !(from..to).contains(&clean.0)));
                // SAFETY: allocated above with this layout, and not used.
                unsafe { pool.deallocate_sync(clean, layout(MIB)) };
                captured.synchronize().expect("it works");
                other.synchronize().expect("it works");
            }
        }
        machine.assert_no_violations();
        end_graphs(&machine, &pool);
    }
}

#[test]
fn no_event_is_recorded_for_other_streams() {
    let (machine, _entered) = adversary();
    for pool in pools() {
        let kept = stream();
        for _ in 0..100 {
            let ended = stream();
            for user in [StreamRef::from(&kept), StreamRef::per_thread(), (&ended).into()] {
                let block = pool.allocate(user, layout(MIB)).expect("there is memory");
                free(&pool, user, block, MIB);
            }
        }
        let statistics = pool.statistics();
        let asked = [statistics.events_recorded, statistics.event_queries, statistics.stream_waits];
        assert_eq!(asked, [0; 3]);
        end_graphs(&machine, &pool);
    }
}

#[test]
fn a_full_pool_refuses_rather_than_give_memory_to_another_stream() {
    let (machine, _entered) = adversary();
    for pool in pools() {
        let [first, second] = [stream(), stream()];
        let blocks = [StreamRef::from(&first), StreamRef::legacy()].map(|user| {
            let block = pool.allocate(user, layout(4 * MIB)).expect("it grows");
            free(&pool, user, block, 4 * MIB);
            block
        });
        pool.set_maximum_size(pool.reserved_bytes()).expect("it holds no more");
        // An event on the legacy default stream follows the first free.
        let again = pool.allocate(StreamRef::legacy(), layout(4 * MIB)).expect("its own");
        assert_eq!(again, blocks[1]);
        free(&pool, StreamRef::legacy(), again, 4 * MIB);
        machine.run_all();
        let refused = pool.allocate(&second, layout(4 * MIB)).expect_err("it is the others'");
        assert!(refused.is_out_of_memory(), "{refused}");
        let own = pool.allocate(&first, layout(4 * MIB)).expect("its own");
        assert_eq!(own, blocks[0]);
        free(&pool, &first, own, 4 * MIB);
        machine.assert_no_violations();
        end_graphs(&machine, &pool);
    }
}

#[test]
fn graphs_run_after_a_sleep_and_keep_their_memory() {
    let (machine, _entered) = adversary();
    let [_, pool] = pools();
    let [captured, other] = [stream(), stream()];
    let input = pool.allocate(&captured, layout(MIB)).expect("it grows");
    write(&machine, &captured, input, 7);
    let (graph, scratch) = graph_with_scratch(&pool, &captured, MIB);
    for contents in [Contents::ToHost, Contents::Discard] {
        let options = SleepOptions::new(contents).wait_for_work(true);
        // SAFETY: no work uses the pool before it is awake, and what is discarded is not read.
        let bytes = unsafe { pool.sleep_with(options) }.expect("no capture is in progress");
        assert_eq!(bytes, pool.reserved_bytes());
        assert!(pool.is_asleep());
        pool.wake().expect("there is memory");
        if contents == Contents::ToHost {
            assert_eq!(read(&machine, input), 7);
        }
        graph.launch(&captured);
        let block = pool.allocate(&other, layout(MIB)).expect("other memory");
        assert!(![input, scratch].contains(&block));
        free(&pool, &other, block, MIB);
        machine.run_all();
    }
    free(&pool, &captured, input, MIB);
    machine.assert_no_violations();
    drop(graph);
    end_graphs(&machine, &pool);
}

#[test]
fn no_trim_and_no_sibling_gets_what_a_graph_uses() {
    let (machine, _entered) = adversary();
    for pool in pools() {
        let captured = stream();
        let (graph, _) = graph_with_scratch(&pool, &captured, 300 * MIB);
        captured.synchronize().expect("it works");
        assert_eq!((pool.trim(0), pool.trim_blocking(0), pool.release_unused()), (0, 0, 0));
        assert_eq!(pool.statistics().host_waits, 0, "no wait would make the memory idle");
        // Another pool needs more than is left.
        let sibling = PoolMemoryResource::builder(CudaMemoryResource::new());
        let sibling = sibling.build().expect("a pool");
        let refused = sibling.allocate(&stream(), layout(400 * MIB)).expect_err("it is too much");
        assert!(refused.is_out_of_memory(), "{refused}");
        graph.launch(&captured);
        captured.synchronize().expect("it works");
        machine.assert_no_violations();
        drop(graph);
        end_graphs(&machine, &pool);
        let granted = sibling.allocate(&captured, layout(400 * MIB)).expect("all is free");
        free(&sibling, &captured, granted, 400 * MIB);
    }
}

#[test]
fn memory_of_a_destroyed_stream_stays_the_graph_s() {
    let (machine, _entered) = adversary();
    for pool in pools() {
        let captured = stream();
        let (graph, block) = graph_with_scratch(&pool, &captured, MIB);
        drop(captured);
        machine.run_all();
        assert_eq!(pool.trim_blocking(0), 0);
        let user = stream();
        graph.launch(&user);
        let next = pool.allocate(&user, layout(MIB)).expect("it grows");
        assert_ne!(next, block);
        free(&pool, &user, next, MIB);
        machine.assert_no_violations();
        drop(graph);
        end_graphs(&machine, &pool);
    }
}

#[test]
fn a_pool_that_ends_before_its_graphs_keeps_their_memory() {
    let (machine, _entered) = adversary();
    let [pool, _] = pools();
    let captured = stream();
    let (graph, _) = graph_with_scratch(&pool, &captured, MIB);
    drop(pool);
    graph.launch(&captured);
    captured.synchronize().expect("it works");
    drop(graph);
    machine.assert_no_violations();
    let leaks = machine.leaks();
    assert!(leaks.iter().any(|leak| leak.kind == LeakKind::Allocation), "{leaks:?}");
}

#[test]
fn the_memory_serves_all_streams_again_once_its_graphs_are_gone() {
    let (machine, _entered) = adversary();
    for pool in pools() {
        let [first, second] = [stream(), stream()];
        let block = pool.allocate(&first, layout(MIB)).expect("it grows");
        write(&machine, &first, block, 1);
        free(&pool, &first, block, MIB);
        // SAFETY: there were no graphs.
        unsafe { pool.release_graph_memory() };
        let reserved = pool.reserved_bytes();
        pool.set_maximum_size(reserved).expect("it holds no more");
        let all = usize::try_from(reserved).expect("it fits");
        let again = pool.allocate(&second, layout(all)).expect("it waits for the first stream");
        write(&machine, &second, again, 2);
        free(&pool, &second, again, all);
        machine.assert_no_violations();
    }
}

#[test]
fn only_pools_for_graphs_have_checkpoints() {
    let (_machine, _entered) = adversary();
    let plain = PoolMemoryResource::builder(CudaMemoryResource::new()).build().expect("a pool");
    let error = plain.checkpoint().expect_err("it is not for graphs");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let [first, second] = pools();
    let user = stream();
    let block = first.allocate(&user, layout(MIB)).expect("it grows");
    let checkpoint = first.checkpoint().expect("it is for graphs");
    // SAFETY: no work uses the pools.
    let error = unsafe { second.restore(&checkpoint, &user) }.expect_err("it is another's");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    let reservation = first.reserve(MIB as u64).expect("it grows");
    // SAFETY: no work uses the pools.
    let error = unsafe { first.restore(&checkpoint, &user) }.expect_err("it is reserved");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let error = first.checkpoint().expect_err("it is reserved");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    drop(reservation);
    free(&first, &user, block, MIB);
    // SAFETY: there are no graphs.
    unsafe { first.release_graph_memory() };
}

#[test]
fn a_free_whose_uses_are_complete_leaves_the_memory_to_the_graph() {
    let (machine, _entered) = adversary();
    for pool in pools() {
        let [captured, other] = [stream(), stream()];
        let scope = CaptureScope::announce();
        begin(&captured);
        let block = pool.allocate(&captured, layout(MIB)).expect("it grows");
        fill(&captured, block, MIB);
        let graph = end(&captured);
        drop(scope);
        captured.synchronize().expect("it works");
        // SAFETY: allocated above with this layout. The graph's launches go on, as the pool allows.
        unsafe { pool.deallocate_sync(block, layout(MIB)) };
        let next = pool.allocate(&other, layout(MIB)).expect("other memory");
        assert_ne!(next, block);
        fill(&other, next, MIB);
        graph.launch(&captured);
        assert_eq!(pool.trim_blocking(0), 0);
        free(&pool, &other, next, MIB);
        machine.run_all();
        machine.assert_no_violations();
        drop(graph);
        end_graphs(&machine, &pool);
    }
}

#[test]
fn a_request_that_siblings_could_serve_spoils_no_capture() {
    let (machine, _entered) = adversary();
    let [pool, _] = pools();
    let sibling = PoolMemoryResource::builder(CudaMemoryResource::new());
    let sibling = sibling.build().expect("a pool");
    let busy = stream();
    let held = sibling.allocate(&busy, layout(400 * MIB)).expect("there is memory");
    // Each query lets some of it run.
    (0..500).for_each(|_| keep_busy(&machine, &busy));
    free(&sibling, &busy, held, 400 * MIB);
    // Not announced.
    let captured = stream();
    begin(&captured);
    let refused = pool.allocate(&captured, layout(200 * MIB)).expect_err("the sibling has it");
    assert!(refused.is_out_of_memory(), "{refused}");
    drop(end(&captured));
    machine.run_all();
    machine.assert_no_violations();
}

#[test]
fn memory_of_the_legacy_default_stream_is_reclaimed_once_the_graphs_are_gone() {
    let (machine, _entered) = adversary();
    for pool in pools() {
        let legacy = StreamRef::legacy();
        let allocate = |_| pool.allocate(legacy, layout(MIB)).expect("there is memory");
        let blocks: Vec<_> = (0..100).map(allocate).collect();
        for block in blocks {
            free(&pool, legacy, block, MIB);
        }
        // After an event, which the trim finds complete.
        let last = allocate(0);
        machine.run_all();
        assert_eq!(pool.trim(0), 0);
        // SAFETY: there are no graphs.
        unsafe { pool.release_graph_memory() };
        for _ in 0..2 {
            pool.trim(0);
            machine.run_all();
        }
        assert!(pool.reserved_bytes() <= 16 * MIB as u64, "{}", pool.reserved_bytes());
        free(&pool, legacy, last, MIB);
    }
}

/// The live blocks of a pool, by address.
fn live(pool: &Pool) -> BTreeMap<u64, u64> {
    let blocks = pool.blocks().into_iter().filter(|block| block.is_live);
    blocks.map(|block| (block.segment_base.0 + block.offset, block.size)).collect()
}

#[derive(Clone, Debug)]
enum Step {
    Allocate(usize),
    Free(Index),
    Checkpoint,
    Restore(Index),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (1..3 * MIB).prop_map(Step::Allocate),
        6 => any::<Index>().prop_map(Step::Free),
        1 => Just(Step::Checkpoint),
        1 => any::<Index>().prop_map(Step::Restore),
    ]
}

/// The addresses of blocks, in their order.
fn sorted(blocks: &[(DevicePtr, usize)]) -> Vec<u64> {
    let mut addresses: Vec<u64> = blocks.iter().map(|&(block, _)| block.0).collect();
    addresses.sort_unstable();
    addresses
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..Default::default() })]

    #[test]
    fn a_checkpoint_is_restored_whatever_happened_since(steps in vec(step(), 1..200)) {
        let (machine, _entered) = adversary();
        for pool in pools() {
            let user = stream();
            let mut held: Vec<(DevicePtr, usize)> = Vec::new();
            let mut checkpoints = Vec::new();
            for step in &steps {
                match step {
                    Step::Allocate(bytes) => {
                        if let Ok(block) = pool.allocate(&user, layout(*bytes)) {
                            write(&machine, &user, block, 1);
                            held.push((block, *bytes));
                        }
                    }
                    Step::Free(index) if !held.is_empty() => {
                        let (block, bytes) = held.swap_remove(index.index(held.len()));
                        free(&pool, &user, block, bytes);
                    }
                    Step::Checkpoint => {
                        let checkpoint = pool.checkpoint().expect("it is for graphs");
                        checkpoints.push((checkpoint, live(&pool), held.clone()));
                    }
                    Step::Restore(index) if !checkpoints.is_empty() => {
                        let (checkpoint, was_live, was_held) =
                            &checkpoints[index.index(checkpoints.len())];
                        // SAFETY: all work is of this stream.
                        let restored = unsafe { pool.restore(checkpoint, &user) };
                        let restored = restored.expect("the memory is there");
                        let freed: Vec<u64> = restored.freed.iter().map(|block| block.0).collect();
                        prop_assert_eq!(freed, sorted(&held));
                        prop_assert_eq!(&live(&pool), was_live);
                        held.clone_from(was_held);
                        let again = restored.live.iter().map(|(block, _)| block.0);
                        prop_assert_eq!(again.collect::<Vec<_>>(), sorted(&held));
                    }
                    Step::Free(_) | Step::Restore(_) => {}
                }
                let blocks = pool.blocks();
                let tiled: u64 = blocks.iter().map(|block| block.size).sum();
                prop_assert_eq!(tiled, pool.reserved_bytes());
            }
            for (block, bytes) in held {
                free(&pool, &user, block, bytes);
            }
            machine.assert_no_violations();
            end_graphs(&machine, &pool);
        }
    }
}

/// An output of a graph that its program has freed is there from one launch to the next all the
/// same.
#[test]
fn what_graphs_have_written_to_freed_blocks_is_kept_in_a_sleep() {
    let (machine, _entered) = adversary();
    let [_, pool] = pools();
    let captured = stream();
    let (graph, block) = graph_with_scratch(&pool, &captured, MIB);
    graph.launch(&captured);
    write(&machine, &captured, block, 77);
    // SAFETY: no work uses the pool's memory while it sleeps.
    unsafe { pool.sleep_with(SleepOptions::new(Contents::ToHost).wait_for_work(true)) }
        .expect("it falls asleep");
    pool.wake().expect("it wakes up");
    assert_eq!(read(&machine, block), 77);
    graph.launch(&captured);
    machine.run_all();
    drop(graph);
    end_graphs(&machine, &pool);
    machine.assert_no_violations();
}

/// A pool for graphs annotates nothing, so that the checker must not miss its blocks beside those
/// of another pool over the same addresses.
#[test]
fn a_pool_for_graphs_shares_virtual_memory_with_another() {
    let (machine, _entered) = adversary();
    let upstream = VirtualMemoryResource::new().expect("virtual memory");
    let upstream: AnyResource = AnyResource::new(upstream);
    let other = PoolMemoryResource::builder(upstream.clone()).build().expect("a pool");
    let pool = PoolMemoryResource::builder(upstream).for_graphs(true).build().expect("a pool");
    let captured = stream();
    let block = other.allocate(&captured, layout(MIB)).expect("memory");
    let (graph, _) = graph_with_scratch(&pool, &captured, MIB);
    graph.launch(&captured);
    machine.run_all();
    machine.assert_no_violations();
    // Of the other pool uses outside of blocks are found still.
    fill(&captured, DevicePtr(block.0 + MIB as u64), 256);
    machine.run_all();
    assert_eq!(machine.violations().len(), 1);
    free(&other, &captured, block, MIB);
    drop(graph);
    end_graphs(&machine, &pool);
}
