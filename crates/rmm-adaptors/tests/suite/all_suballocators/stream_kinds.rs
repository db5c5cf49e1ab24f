//! Random programs over all kinds of streams: both default streams, blocking and non-blocking ones,
//! adopted ones with a known end and with an unknown one, raw handles that are adopted anew at each
//! call, and streams that their owner destroys right after a call, whose handles the next ones get.
//! Blocks go to and from the legacy stream by its implicit order alone, and threads end with work
//! on their default streams.

#[path = "stream_kinds/lanes.rs"]
mod lanes;
#[path = "stream_kinds/worker.rs"]
mod worker;

use std::sync::{Mutex, PoisonError};
use std::thread;

use rmm_core::Device;
use rmm_sim::{Machine, Schedule};

use self::lanes::{Lanes, Mix};
use self::worker::{Figures, Worker};
use super::OfSeed;
use super::drained::assert_drained_equals_fresh;
use crate::harness::Allocator;
use crate::suballocators::{LEAST, Make, Upstream};
use crate::support::base_seed;
use crate::tag_kernels::Mismatches;

/// Programs of a plain test run: each mix of streams under several schedules.
const SEEDS: u64 = 12;
/// Waves of threads in a program. The threads of a wave have ended when the next one begins.
const WAVES: u64 = 3;
/// Steps of all threads of a wave.
const STEPS: u64 = 240;

/// What the threads of a program share.
struct Program<'a, R> {
    machine: &'a Machine,
    resource: &'a R,
    lanes: &'a Lanes,
    mismatches: &'a Mismatches,
    /// Blocks on their way to another thread.
    handed_over: Mutex<Vec<worker::Block>>,
}

fn schedule(seed: u64) -> Schedule {
    match seed % 4 {
        0 => Schedule::Lazy,
        1 => Schedule::Eager,
        _ => Schedule::Seeded(seed),
    }
}

impl<R: Allocator> Program<'_, R> {
    /// Runs the threads of a wave to their ends.
    fn run_wave(&self, seed: u64, wave: u64) -> Figures {
        let threads = 1 + (seed + wave) % 4;
        let run = |thread: u64| {
            let _entered = self.machine.enter();
            let _current = Device::new(0).and_then(Device::make_current).expect("a device");
            let number = wave * 8 + thread;
            Worker::new(self, seed << 8 | number, number).run(STEPS / threads)
        };
        thread::scope(|scope| {
            let start = |thread| scope.spawn(move || run(thread));
            let threads: Vec<_> = (0..threads).map(start).collect();
            threads.into_iter().map(|thread| thread.join().expect("it ends well")).sum()
        })
    }

    /// Frees what the threads have left.
    fn free_the_rest(&self, seed: u64) {
        let left =
            std::mem::take(&mut *self.handed_over.lock().unwrap_or_else(PoisonError::into_inner));
        let mut last = Worker::new(self, seed, WAVES * 8);
        for block in left {
            last.take_in(block);
        }
        last.free_all();
    }
}

/// Runs the program of a seed.
fn run<R: Allocator>(make: Make<R>, seed: u64) -> Figures {
    let machine = Machine::builder().memory(64 << 20).schedule(schedule(seed)).build();
    let entered = machine.enter();
    let resource = make(Upstream::new(seed % 5 == 4), LEAST).expect("there is memory");
    let (lanes, mismatches) = (Lanes::new(Mix::of(seed)), Mismatches::default());
    let program = Program {
        machine: &machine,
        resource: &resource,
        lanes: &lanes,
        mismatches: &mismatches,
        handed_over: Mutex::default(),
    };
    let figures = (0..WAVES).map(|wave| program.run_wave(seed, wave)).sum();
    program.free_the_rest(seed);
    machine.run_all();
    assert_eq!(mismatches.count(), 0, "a block was overwritten while it was in use");
    assert_eq!(resource.live_and_unknown(), (0, 0), "blocks are left, or others were freed");
    assert_drained_equals_fresh(&resource, make, LEAST);
    drop((resource, lanes));
    machine.assert_no_violations();
    assert!(machine.leaks().is_empty(), "{:?}", machine.leaks());
    drop(entered);
    figures
}

/// Runs programs over all kinds of streams.
pub(super) fn keep_the_order<R: Allocator>(make: Make<R>) {
    let mut total = Figures::default();
    for seed in base_seed()..base_seed() + SEEDS {
        let _seed = OfSeed(seed);
        total += run(make, seed);
    }
    let is_enough = total.allocations > 300
        && total.implicit > 100
        && total.destroyed > 30
        && total.handed_over > 30;
    assert!(is_enough, "too little was done: {total:?}");
}
