//! Tests of the arena while streams are captured into graphs.

use rmm_core::{CaptureScope, CudaStream, Resource, StreamFlags};
use rmm_resources::CudaMemoryResource;
use rmm_sim::{Machine, Schedule};

use crate::graph_support::{alone, begin, end, fill};
use crate::support::{Arena, MIB, free, layout, mib, stream, write};

const KIB: usize = 1 << 10;

fn arena() -> Arena {
    Arena::builder(CudaMemoryResource::new()).arena_size(mib(8)).build().expect("an arena")
}

#[test]
fn a_graph_keeps_memory_freed_in_its_capture() {
    let _alone = alone();
    let machine = Machine::builder().memory(64 * MIB).schedule(Schedule::Lazy).enter();
    let (arena, captured, other) = (arena(), stream(), stream());
    let before = arena.allocate(&captured, layout(4 * KIB)).unwrap();
    let beside = arena.allocate(&captured, layout(4 * KIB)).unwrap();
    let scope = CaptureScope::announce();
    begin(&captured);
    fill(&captured, before, 4 * KIB);
    free(&arena, &captured, before, 4 * KIB);
    let within = arena.allocate(&captured, layout(4 * KIB)).unwrap();
    assert!(within != before && within != beside);
    fill(&captured, within, 4 * KIB);
    free(&arena, &captured, within, 4 * KIB);
    let graph = end(&captured);
    drop(scope);
    assert_eq!(arena.statistics().graph_bytes, 8 << 10);
    assert_eq!(arena.statistics().live_bytes, 12 << 10);
    for round in 0..3 {
        graph.launch(if round == 1 { &other } else { &captured });
        for user in [&captured, &other] {
            let blocks: Vec<_> =
                (0..300).map(|_| arena.allocate(user, layout(4 * KIB)).unwrap()).collect();
            for block in blocks {
                assert!(![before, within].contains(&block));
                fill(user, block, 4 * KIB);
                free(&arena, user, block, 4 * KIB);
            }
        }
    }
    drop(graph);
    free(&arena, &captured, beside, 4 * KIB);
    captured.synchronize().unwrap();
    other.synchronize().unwrap();
    // SAFETY: the only graph is destroyed, and all its launches have completed.
    unsafe { arena.release_graph_memory() };
    let whole = arena.allocate(&other, layout(8 * MIB)).expect("everything is free");
    free(&arena, &other, whole, 8 * MIB);
    machine.assert_no_violations();
}

/// Uses the arena on all kinds of uncaptured streams, on the calling thread.
fn use_arena(machine: &Machine, arena: &Arena) {
    let streams = [stream(), CudaStream::new().expect("a stream"), CudaStream::per_thread()];
    for user in &streams {
        let blocks = [4 * KIB, MIB, 2 * MIB].map(|bytes| {
            let block = arena.allocate(user, layout(bytes)).expect("there is memory");
            write(machine, user, block, 1);
            (block, bytes)
        });
        for ((block, bytes), on) in blocks.into_iter().zip(&streams) {
            if on != user {
                on.wait_for(user).expect("a wait");
            }
            free(arena, on, block, bytes);
        }
    }
}

#[test]
fn other_users_of_the_arena_invalidate_no_capture() {
    for flags in [StreamFlags::NON_BLOCKING, StreamFlags::empty()] {
        for announced in [true, false] {
            let _alone = alone();
            let machine = Machine::builder().memory(64 * MIB).schedule(Schedule::Lazy).enter();
            let arena =
                Arena::builder(CudaMemoryResource::new()).arena_size(mib(32)).build().unwrap();
            let captured = CudaStream::with_flags(flags, 0).unwrap();
            let block = arena.allocate(&captured, layout(KIB)).unwrap();
            write(&machine, &captured, block, 1);
            free(&arena, &captured, block, KIB);
            let _scope = announced.then(CaptureScope::announce);
            begin(&captured);
            use_arena(&machine, &arena);
            std::thread::scope(|scope| {
                let user = scope.spawn(|| machine.scope(|| use_arena(&machine, &arena)));
                user.join().unwrap();
            });
            drop(end(&captured));
            drop(arena);
            machine.assert_no_violations();
        }
    }
}
