//! Random programs, drawn from seeds.

use std::thread;

use rmm_core::{Device, DevicePtr};
use rmm_sim::{Machine, Schedule};

use super::OfSeed;
use super::good_as_new::is_as_good_as_new;
use crate::kinds::{GRANULE, LEAST, Make, Upstream, arena, compact_pool, deterministic_pool};
use crate::program::{Op, drawn, ops_on};
use crate::short::base_seed;
use crate::world::{Allocator, Common, World};

/// Programs of a plain test run: all counts of threads, with several counts of streams and
/// schedules.
const SEEDS: u64 = 16;
/// Steps of one thread, at most: as many of all threads together, but not too few.
const STEPS: usize = 1600;
const FEW_STEPS: usize = 400;
/// Programs that are run again to compare addresses.
const REPEATED: u64 = 6;

/// What a seed says of a program.
struct Program {
    schedule: Schedule,
    limit: usize,
    is_stream_ordered: bool,
    streams: usize,
    threads: Vec<Vec<Op>>,
}

impl Program {
    fn of(seed: u64, threads: u64) -> Self {
        let streams = [8, 1, 32, 2, 16][usize::try_from(seed % 5).expect("a small number")];
        let steps = STEPS / usize::try_from(threads).expect("a small number");
        let steps = steps.max(FEW_STEPS);
        Self {
            schedule: match seed % 4 {
                0 => Schedule::Lazy,
                1 => Schedule::Eager,
                _ => Schedule::Seeded(seed),
            },
            // Less than the blocks of most programs take.
            limit: if seed.is_multiple_of(3) { 2 * LEAST } else { LEAST },
            is_stream_ordered: seed % 7 < 3,
            streams,
            threads: (0..threads)
                .map(|thread| drawn(ops_on(streams, steps), seed, thread))
                .collect(),
        }
    }

    fn machine(&self) -> Machine {
        Machine::builder().memory(64 << 20).schedule(self.schedule).build()
    }

    fn resource<R>(&self, make: Make<R>) -> R {
        make(Upstream::new(self.is_stream_ordered), self.limit).expect("there is memory")
    }
}

/// Runs a program on its threads. Returns how often somebody had to wait.
fn run<R: Allocator>(program: &Program, make: Make<R>) -> u64 {
    let machine = program.machine();
    let entered = machine.enter();
    let common = Common::in_granules(&machine, program.resource(make), GRANULE);
    thread::scope(|scope| {
        for (number, ops) in (0..).zip(&program.threads) {
            let (machine, common) = (&machine, common.clone());
            scope.spawn(move || {
                let _entered = machine.enter();
                let _current = Device::new(0).and_then(Device::make_current).expect("a device");
                let mut world = World::on_streams(common, number, program.streams);
                for op in ops {
                    world.step(op);
                }
                world.free_all();
                assert_eq!(world.refused, 0, "the driver refuses nothing here");
            });
        }
    });
    common.finish();
    let waits = common.pool().waits();
    is_as_good_as_new(common.pool(), make, program.limit);
    drop(common);
    machine.assert_no_violations();
    assert!(machine.leaks().is_empty(), "{:?}", machine.leaks());
    drop(entered);
    waits
}

/// Runs programs on one to eight threads.
pub(super) fn keep_the_order<R: Allocator>(make: Make<R>) {
    let mut waits = 0;
    for seed in base_seed()..base_seed() + SEEDS {
        let _told = OfSeed(seed);
        waits += run(&Program::of(seed, 1 + seed % 8), make);
    }
    assert!(waits > 0, "there was memory for everybody");
}

/// Where the blocks of a program on one thread lie, counted from the first. The thread is a new
/// one, and so are its streams.
fn places<R: Allocator>(program: &Program, make: Make<R>) -> Vec<Option<u64>> {
    thread::scope(|scope| scope.spawn(|| places_here(program, make)).join().expect("it ends well"))
}

fn places_here<R: Allocator>(program: &Program, make: Make<R>) -> Vec<Option<u64>> {
    let machine = program.machine();
    let _entered = machine.enter();
    let common = Common::in_granules(&machine, program.resource(make), GRANULE);
    let mut world = World::on_streams(common, 0, program.streams);
    for op in &program.threads[0] {
        world.step(op);
    }
    world.finish();
    let first = world.addresses.iter().flatten().next().copied().unwrap_or(DevicePtr::NULL);
    let place = |address: &Option<DevicePtr>| address.map(|place| place.0.wrapping_sub(first.0));
    world.addresses.iter().map(place).collect()
}

/// Runs programs twice, each time on a new device.
fn repeat<R: Allocator>(make: Make<R>) {
    let mut blocks = 0;
    for seed in base_seed()..base_seed() + REPEATED {
        let _told = OfSeed(seed);
        let program = Program::of(seed, 1);
        // A process asks once what its driver can do; a device that runs by seed takes each call
        // for a chance to go on.
        places(&program, make);
        let (once, again) = (places(&program, make), places(&program, make));
        blocks += once.iter().flatten().count();
        assert_eq!(once, again);
    }
    assert!(blocks > 200, "next to nothing was had: {blocks} blocks");
}

/// Not those with caches: which of them share a place depends on the streams and threads that the
/// process had before.
#[test]
fn the_same_calls_get_the_same_addresses() {
    repeat(compact_pool);
    repeat(deterministic_pool);
    repeat(arena);
}

/// What a pool says of its deterministic preset: the device may do its work as early or as late as
/// it likes.
#[test]
fn a_deterministic_pool_places_blocks_by_the_calls_alone() {
    for seed in base_seed()..base_seed() + REPEATED {
        let _told = OfSeed(seed);
        let drawn = Program::of(seed, 1);
        // The driver's own pools place blocks by what the device has done.
        let program = |schedule| Program {
            schedule,
            is_stream_ordered: false,
            threads: drawn.threads.clone(),
            ..drawn
        };
        let lazy = places(&program(Schedule::Lazy), deterministic_pool);
        for schedule in [Schedule::Eager, Schedule::Seeded(seed)] {
            assert_eq!(places(&program(schedule), deterministic_pool), lazy, "{schedule:?}");
        }
    }
}
