//! Tests of an arena that serves the default streams of threads, also after their threads ended.

use std::sync::mpsc;
use std::thread;

use rmm_core::{CudaStream, Device, DevicePtr, Resource};
use rmm_resources::CudaMemoryResource;
use rmm_sim::{Machine, Schedule};

use crate::support::{Arena, MIB, base_seed, free, layout, mib, stream, write};

const KIB: usize = 1 << 10;

fn schedules() -> impl Iterator<Item = Schedule> {
    let seeded = (base_seed()..base_seed() + 6).map(Schedule::Seeded);
    [Schedule::Lazy, Schedule::Eager].into_iter().chain(seeded)
}

fn arena(bytes: u64) -> Arena {
    Arena::builder(CudaMemoryResource::new()).arena_size(bytes).build().expect("an arena")
}

/// Runs on a new thread, with the machine's device current.
fn on_thread<T: Send>(machine: &Machine, f: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let _entered = machine.enter();
            let _current = Device::new(0).and_then(Device::make_current).expect("a device");
            f()
        });
        thread.join().expect("it ends well")
    })
}

/// Writes and frees blocks on the calling thread's default stream, which stays busy for as long as
/// the schedule allows.
fn use_own_stream(machine: &Machine, arena: &Arena, blocks: usize) {
    let own = CudaStream::per_thread();
    let blocks: Vec<DevicePtr> = (0..blocks)
        .map(|_| arena.allocate(&own, layout(64 * KIB)).expect("there is room"))
        .collect();
    for (tag, block) in (0..).zip(blocks) {
        write(machine, &own, block, tag);
        free(arena, &own, block, 64 * KIB);
    }
}

#[test]
fn memory_of_an_ended_thread_is_reused_in_order() {
    for schedule in schedules() {
        let machine = Machine::builder().schedule(schedule).build();
        let _entered = machine.enter();
        let arenas = [arena(mib(2)), arena(mib(2))];
        let heir = stream();
        for _ in 0..6 {
            on_thread(&machine, || {
                for arena in &arenas {
                    use_own_stream(&machine, arena, 20);
                }
            });
            for arena in &arenas {
                let block = arena.allocate(&heir, layout(2 * MIB)).expect("all is free");
                write(&machine, &heir, block, 7);
                free(arena, &heir, block, 2 * MIB);
            }
        }
        for arena in &arenas {
            assert_eq!(arena.statistics().live_bytes, 0);
        }
        drop((arenas, heir));
        machine.assert_no_violations();
        assert!(machine.leaks().is_empty(), "{:?}", machine.leaks());
    }
}

#[test]
fn a_block_outlives_its_thread() {
    for schedule in schedules() {
        let machine = Machine::builder().schedule(schedule).build();
        let _entered = machine.enter();
        let arena = arena(mib(1));
        let (first, left, used) = on_thread(&machine, || {
            let own = CudaStream::per_thread();
            let [first, left] =
                [0, 1].map(|_| arena.allocate(&own, layout(KIB)).expect("there is room"));
            write(&machine, &own, left, 1);
            free(&arena, &own, first, KIB);
            (first, left, own.record_event().expect("an event"))
        });
        let heir = stream();
        heir.wait(&used).expect("a wait");
        write(&machine, &heir, left, 2);
        free(&arena, &heir, left, KIB);
        assert_eq!(arena.statistics().unknown_frees, 0);
        let all = arena.allocate(&heir, layout(MIB)).expect("all is free");
        assert!(all <= first && first < left);
        write(&machine, &heir, all, 3);
        free(&arena, &heir, all, MIB);
        machine.assert_no_violations();
    }
}

/// A block of a thread's default stream may be freed on another stream and the other way round, and
/// its reuse is ordered by the stream of the free.
#[test]
fn blocks_are_freed_across_the_kinds_of_streams() {
    for schedule in schedules() {
        for threads_own_first in [true, false] {
            let machine = Machine::builder().schedule(schedule).build();
            let _entered = machine.enter();
            let arena = arena(mib(2));
            let (mut from, mut to) = (CudaStream::per_thread(), stream());
            if !threads_own_first {
                std::mem::swap(&mut from, &mut to);
            }
            for tag in 0..300 {
                let block = arena.allocate(&from, layout(100 * KIB)).expect("it was freed");
                write(&machine, &from, block, tag);
                to.wait_for(&from).expect("a wait");
                write(&machine, &to, block, tag);
                free(&arena, &to, block, 100 * KIB);
            }
            let statistics = arena.statistics();
            assert_eq!((statistics.allocations, statistics.frees), (300, 300));
            assert_eq!((statistics.live_bytes, statistics.unknown_frees), (0, 0));
            drop(arena);
            machine.assert_no_violations();
        }
    }
}

#[test]
fn threads_free_blocks_of_other_threads() {
    for schedule in schedules() {
        let machine = Machine::builder().schedule(schedule).build();
        let _entered = machine.enter();
        let arena = arena(mib(4));
        thread::scope(|scope| {
            let (out, incoming) = mpsc::sync_channel(16);
            scope.spawn({
                let (machine, arena) = (&machine, &arena);
                move || {
                    let _entered = machine.enter();
                    let _current = Device::new(0).and_then(Device::make_current).expect("a device");
                    let own = CudaStream::per_thread();
                    for tag in 0..400 {
                        let bytes = KIB << (tag % 8);
                        let block = arena.allocate(&own, layout(bytes)).expect("room");
                        write(machine, &own, block, tag);
                        let used = own.record_event().expect("an event");
                        out.send((block, bytes, used)).expect("the receiver is alive");
                    }
                }
            });
            let own = CudaStream::per_thread();
            for (block, bytes, used) in incoming {
                own.wait(&used).expect("a wait");
                write(&machine, &own, block, 1);
                free(&arena, &own, block, bytes);
            }
        });
        assert_eq!((arena.statistics().live_bytes, arena.statistics().unknown_frees), (0, 0));
        drop(arena);
        machine.assert_no_violations();
    }
}
