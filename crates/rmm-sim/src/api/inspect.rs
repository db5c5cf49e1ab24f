//! What a test asks a machine: its calls, its time, its trace, and what went wrong.
#![forbid(unsafe_code)]

use std::time::Duration;

use crate::engine::machine::Machine;
use crate::engine::session::Session;
use crate::engine::thread;
use crate::model::sim_time::Stalls;
use crate::model::trace::{Leak, TraceEntry};
use crate::model::violation::Violation;

impl Machine {
    /// How many driver calls were made so far.
    pub fn calls(&self) -> u64 {
        self.lock().calls.values().sum()
    }

    /// How many driver calls were made so far, by function, in alphabetical order.
    pub fn call_counts(&self) -> Vec<(&'static str, u64)> {
        self.lock().calls.iter().map(|(&name, &count)| (name, count)).collect()
    }

    /// Simulated time since the machine was made, as its host sees it: what its calls took, and how
    /// long it waited for devices. [`Costs`](crate::Costs) says what takes how long.
    ///
    /// It follows from the calls alone: work starts once it is enqueued, its stream has done what
    /// came before, and what the stream waits for is done; so for the calls of one thread it is the
    /// same whatever the schedule. Streams do not slow each other down. A query takes its time and
    /// does not move the clock to the end of what it finds done; with [`Schedule::Timed`] it finds
    /// done what is done by the clock.
    pub fn time(&self) -> Duration {
        self.lock().sim_time.now()
    }

    /// How often and how long the host waited for devices, in simulated time.
    pub fn stalls(&self) -> Stalls {
        self.lock().sim_time.stalls()
    }

    /// What was called and what ran, in order, while tracing was on.
    pub fn trace(&self) -> Vec<TraceEntry> {
        self.lock().trace.clone()
    }

    /// Turns tracing on, with an empty trace, or off. It is off at first.
    pub fn set_tracing(&self, on: bool) {
        let mut state = self.lock();
        state.tracing = on;
        if on {
            state.trace.clear();
        }
    }

    /// Misuse that was seen, in order; see [`ViolationKind`](crate::ViolationKind) for what is
    /// looked for.
    pub fn violations(&self) -> Vec<Violation> {
        self.lock().checks.violations().to_vec()
    }

    /// Asserts that no misuse was seen.
    ///
    /// # Panics
    /// If some was, with all reports.
    #[track_caller]
    pub fn assert_no_violations(&self) {
        let violations = self.violations();
        if !violations.is_empty() {
            let lines: Vec<String> = violations.iter().map(ToString::to_string).collect();
            panic!("{} violations:\n{}", lines.len(), lines.join("\n"));
        }
    }

    /// The bytes of a device that are not free: taken by allocations and physical memory, and
    /// reserved by pools. 0 if there is no such device.
    pub fn memory_in_use(&self, device: usize) -> usize {
        self.lock().devices.get(device).map_or(0, |device| device.total - device.free())
    }

    /// What was made and not released.
    pub fn leaks(&self) -> Vec<Leak> {
        self.lock().leaks()
    }

    /// Runs all work that is queued now. Does nothing inside a host function or kernel.
    pub fn run_all(&self) {
        if !thread::in_callback() {
            Session::open(self).run_pending(None);
        }
    }
}
