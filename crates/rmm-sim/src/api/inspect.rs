//! Inspecting a machine: its calls, its simulated time, its trace, and what went wrong.
#![forbid(unsafe_code)]

use std::time::Duration;

use crate::engine::machine::Machine;
use crate::engine::session::Session;
use crate::engine::thread;
use crate::model::context::Scope;
use crate::model::sim_time::Stalls;
use crate::model::trace::{Leak, TraceEntry};
use crate::model::violation::Violation;

impl Machine {
    /// The number of driver calls so far.
    pub fn calls(&self) -> u64 {
        self.lock().calls.values().sum()
    }

    /// The number of driver calls so far by function, in alphabetical order.
    pub fn call_counts(&self) -> Vec<(&'static str, u64)> {
        self.lock().calls.iter().map(|(&name, &count)| (name, count)).collect()
    }

    /// Simulated time since the machine was made, as its host sees it: the time of its calls, and
    /// of its waits for devices. [`Costs`](crate::Costs) sets what takes how long.
    ///
    /// The time follows from the calls alone: work starts once it is enqueued, the work before it
    /// on its stream is complete, and what the stream waits for is complete. For the calls of one
    /// thread it is therefore the same under every schedule. Streams do not slow each other down. A
    /// query takes its own time, and does not move the time to the end of work that it finds
    /// complete. With [`Schedule::Timed`](crate::Schedule::Timed), the simulated time decides what
    /// a query finds complete.
    pub fn time(&self) -> Duration {
        self.lock().sim_time.now()
    }

    /// How often and how long the host waited for devices, in simulated time.
    pub fn stalls(&self) -> Stalls {
        self.lock().sim_time.stalls()
    }

    /// The calls that were made and the work that ran while tracing was on, in order.
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

    /// Whether memory was exported, or imported from another process. The order between processes
    /// is not checked: what one of them writes and another reads has no history that both know.
    pub fn shares_memory(&self) -> bool {
        self.lock().virtual_memory.is_shared
    }

    /// The violations found so far, in order; [`ViolationKind`](crate::ViolationKind) lists the
    /// rules that are checked.
    pub fn violations(&self) -> Vec<Violation> {
        self.lock().checks.violations().to_vec()
    }

    /// Asserts that no violation was found.
    ///
    /// # Panics
    /// If there are violations, with all reports.
    #[track_caller]
    pub fn assert_no_violations(&self) {
        let violations = self.violations();
        if !violations.is_empty() {
            let lines: Vec<String> = violations.iter().map(ToString::to_string).collect();
            panic!("{} violations:\n{}", lines.len(), lines.join("\n"));
        }
    }

    /// The bytes of a device that are not free: those of allocations and physical memory, and those
    /// that pools reserve. 0 if there is no such device.
    pub fn memory_in_use(&self, device: usize) -> usize {
        self.lock().devices.get(device).map_or(0, |device| device.total - device.free())
    }

    /// The objects that were created and not released.
    pub fn leaks(&self) -> Vec<Leak> {
        self.lock().leaks()
    }

    /// Runs all work that is queued now. Does nothing inside a host function or kernel.
    pub fn run_all(&self) {
        if !thread::in_callback() {
            Session::open(self).run_pending(Scope::All);
        }
    }
}
