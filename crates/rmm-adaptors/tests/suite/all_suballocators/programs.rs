//! Random programs, drawn from seeds, on up to eight threads.

use std::thread;

use rmm_core::{Device, DevicePtr};
use rmm_sim::{Machine, Schedule};

use super::OfSeed;
use super::drained::assert_drained_equals_fresh;
use crate::harness::{Allocator, Fixture, Runner};
use crate::own_process;
use crate::programs::{Op, drawn, ops_on};
use crate::suballocators::{
    GRANULE, LEAST, Make, Upstream, arena, compact_pool, deterministic_pool,
};
use crate::support::base_seed;

/// Programs of a plain test run: every number of threads, with several numbers of streams and
/// schedules.
const SEEDS: u64 = 16;
/// The most steps of all threads together, and the least of one thread.
const STEPS: usize = 1600;
const FEW_STEPS: usize = 400;
/// Programs that are repeated to compare addresses.
const REPEATED: u64 = 6;

/// The parameters that a seed determines.
struct Program {
    schedule: Schedule,
    limit: u64,
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

/// Runs a program on its threads. Returns the number of waits.
fn run<R: Allocator>(program: &Program, make: Make<R>) -> u64 {
    let machine = program.machine();
    let entered = machine.enter();
    let fixture = Fixture::in_granules(&machine, program.resource(make), GRANULE);
    thread::scope(|scope| {
        for (number, ops) in (0..).zip(&program.threads) {
            let (machine, fixture) = (&machine, fixture.clone());
            scope.spawn(move || {
                let _entered = machine.enter();
                let _current = Device::new(0).and_then(Device::make_current).expect("a device");
                let mut runner = Runner::on_streams(fixture, number, program.streams);
                for op in ops {
                    runner.step(op);
                }
                runner.free_all();
                assert_eq!(runner.failed_calls, 0, "no driver call fails here");
            });
        }
    });
    fixture.finish();
    let waits = fixture.pool().waits();
    assert_drained_equals_fresh(fixture.pool(), make, program.limit);
    drop(fixture);
    machine.assert_no_violations();
    assert!(machine.leaks().is_empty(), "{:?}", machine.leaks());
    drop(entered);
    waits
}

/// Runs programs on one to eight threads.
pub(super) fn keep_the_order<R: Allocator>(make: Make<R>) {
    let mut waits = 0;
    for seed in base_seed()..base_seed() + SEEDS {
        let _seed = OfSeed(seed);
        waits += run(&Program::of(seed, 1 + seed % 8), make);
    }
    assert!(waits > 0, "there was memory for everybody");
}

/// The addresses of the blocks of a program on one thread, relative to the first. Runs on a new
/// thread with new streams.
fn places<R: Allocator>(program: &Program, make: Make<R>) -> Vec<Option<u64>> {
    thread::scope(|scope| scope.spawn(|| places_here(program, make)).join().expect("it ends well"))
}

fn places_here<R: Allocator>(program: &Program, make: Make<R>) -> Vec<Option<u64>> {
    let machine = program.machine().enter();
    let fixture = Fixture::in_granules(&machine, program.resource(make), GRANULE);
    let mut runner = Runner::on_streams(fixture, 0, program.streams);
    for op in &program.threads[0] {
        runner.step(op);
    }
    runner.finish();
    let first = runner.addresses.iter().flatten().next().copied().unwrap_or(DevicePtr::NULL);
    let place = |address: &Option<DevicePtr>| address.map(|place| place.0.wrapping_sub(first.0));
    runner.addresses.iter().map(place).collect()
}

/// Runs programs twice, each time on a new device.
fn repeat<R: Allocator>(make: Make<R>) {
    let mut blocks = 0;
    for seed in base_seed()..base_seed() + REPEATED {
        let _seed = OfSeed(seed);
        let program = Program::of(seed, 1);
        // A process queries the driver's capabilities once; on a device with a seeded schedule,
        // each call may advance the work.
        places(&program, make);
        let (once, again) = (places(&program, make), places(&program, make));
        blocks += once.iter().flatten().count();
        assert_eq!(once, again);
    }
    assert!(blocks > 200, "next to nothing was had: {blocks} blocks");
}

/// An arena has thread caches. Which of them share a slot depends on the streams and threads that
/// the process had before, so that other tests must make none meanwhile.
#[test]
fn the_same_calls_get_the_same_addresses() {
    if own_process::has_run() {
        return;
    }
    repeat(compact_pool);
    repeat(deterministic_pool);
    repeat(arena);
}

/// The promise of the deterministic preset: addresses do not depend on when the device runs its
/// work.
#[test]
fn deterministic_addresses_depend_on_calls_alone() {
    for seed in base_seed()..base_seed() + REPEATED {
        let _seed = OfSeed(seed);
        let drawn = Program::of(seed, 1);
        // The driver's own pools choose addresses by what the device has completed.
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
