//! Soak test: random programs, a few as a test, and any number with `RMM_SOAK_STEPS`.

use std::env;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use rmm_adaptors::PoolStatistics;
use rmm_core::Device;
use rmm_sim::{Machine, Schedule};

use crate::harness::{Fixture, Runner};
use crate::programs::{Op, drawn, ops};
use crate::support::base_seed;

/// Steps of a plain test run.
const FEW: u64 = 10_000;
/// The most steps of one thread of a program.
const LONGEST: usize = 2000;

/// Counts of what was done.
#[derive(Clone, Copy, Default)]
struct Figures {
    programs: u64,
    threads: u64,
    steps: u64,
    driver_calls: u64,
    allocations: u64,
    failures: u64,
    events: u64,
    stream_waits: u64,
    host_waits: u64,
    violations: u64,
}

impl Figures {
    fn add(&mut self, other: Self) {
        self.programs += other.programs;
        self.threads += other.threads;
        self.steps += other.steps;
        self.driver_calls += other.driver_calls;
        self.allocations += other.allocations;
        self.failures += other.failures;
        self.events += other.events;
        self.stream_waits += other.stream_waits;
        self.host_waits += other.host_waits;
        self.violations += other.violations;
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = [
            ("programs", self.programs),
            ("threads", self.threads),
            ("steps", self.steps),
            ("driver calls", self.driver_calls),
            ("allocations", self.allocations),
            ("failed allocations", self.failures),
            ("events recorded", self.events),
            ("waits of streams", self.stream_waits),
            ("waits of the host", self.host_waits),
            ("violations", self.violations),
        ];
        rows.into_iter().try_for_each(|(name, count)| writeln!(f, "{name:18} {count:>14}"))
    }
}

/// The steps of one thread of the program with this seed.
pub(crate) fn steps_of(seed: u64, thread: u64) -> Vec<Op> {
    drawn(ops(LONGEST), seed, thread)
}

/// Runs the program of this seed, which determines everything: the limit, the schedule, the number
/// of threads, and their steps. Returns what was done, and what is wrong.
fn run(seed: u64) -> (Figures, Option<String>) {
    let schedule = match seed % 4 {
        0 => Schedule::Lazy,
        1 => Schedule::Eager,
        _ => Schedule::Seeded(seed),
    };
    let threads = if seed % 3 == 2 { 3 } else { 1 };
    let limit = 256 * (100 + seed.wrapping_mul(7919) % 2900);
    let machine = Machine::builder().memory(64 << 20).schedule(schedule).build();
    let entered = machine.enter();
    let fixture = Fixture::new(&machine, limit);
    let steps = thread::scope(|scope| {
        let start = |number| {
            let (machine, fixture) = (&machine, fixture.clone());
            scope.spawn(move || {
                let _entered = machine.enter();
                let _current = Device::new(0).and_then(Device::make_current).expect("a device");
                let (mut runner, ops) = (Runner::sharing(fixture, number), steps_of(seed, number));
                for op in &ops {
                    runner.step(op);
                }
                runner.free_all();
                assert_eq!(runner.failed_calls, 0, "no driver call fails here (seed {seed})");
                (ops.len() as u64, runner.failed_allocations)
            })
        };
        let threads: Vec<_> = (0..threads).map(start).collect();
        let add = |(steps, failures), (more_steps, more_failures)| {
            (steps + more_steps, failures + more_failures)
        };
        threads.into_iter().map(|thread| thread.join().expect("a program")).fold((0, 0), add)
    });
    let is_sound = machine.violations().is_empty();
    if is_sound {
        fixture.finish();
    }
    let statistics: PoolStatistics = fixture.pool().statistics();
    drop(fixture);
    let violations = machine.violations();
    let report = violations
        .first()
        .map(|first| format!("seed {seed}: {} violations, first {first}", violations.len()));
    assert!(!is_sound || machine.leaks().is_empty(), "seed {seed}: {:?}", machine.leaks());
    drop(entered);
    let figures = Figures {
        programs: 1,
        threads,
        steps: steps.0,
        driver_calls: machine.calls(),
        allocations: statistics.allocations,
        failures: steps.1,
        events: statistics.events_recorded,
        stream_waits: statistics.stream_waits,
        host_waits: statistics.host_waits,
        violations: violations.len() as u64,
    };
    (figures, report)
}

fn progress(steps: u64) -> ProgressBar {
    let bar = ProgressBar::new(steps);
    let template = "[{bar:40}] {human_pos}/{human_len} steps, {per_sec}, {eta} left";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> "));
    }
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// Stops the other workers if one panics.
struct StopOthers<'a>(&'a AtomicBool);

impl Drop for StopOthers<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

#[test]
fn random_programs_keep_all_invariants() {
    let wanted = env::var("RMM_SOAK_STEPS").ok().and_then(|steps| steps.parse().ok());
    let (wanted, first) = (wanted.unwrap_or(FEW), base_seed());
    let (start, bar) = (Instant::now(), progress(wanted));
    let (next, total) = (AtomicU64::new(first), Mutex::new(Figures::default()));
    let must_stop = AtomicBool::new(false);
    let work = || {
        let _panics = StopOthers(&must_stop);
        while bar.position() < wanted && !must_stop.load(Ordering::Relaxed) {
            let (figures, report) = run(next.fetch_add(1, Ordering::Relaxed));
            if let Some(report) = report {
                println!("{report}");
            }
            bar.inc(figures.steps);
            total.lock().unwrap_or_else(PoisonError::into_inner).add(figures);
            must_stop.fetch_or(figures.violations > 0, Ordering::Relaxed);
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    bar.finish_and_clear();
    let total = *total.lock().unwrap_or_else(PoisonError::into_inner);
    let last = next.load(Ordering::Relaxed) - 1;
    println!(
        "seeds {first} to {last}\n{total}{:18} {:>12.1} s",
        "time",
        start.elapsed().as_secs_f64()
    );
    assert_eq!(total.violations, 0, "a program broke a rule: its seed is above");
    assert!(total.steps >= wanted && total.allocations > total.steps / 10, "too little was done");
}
