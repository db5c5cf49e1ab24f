//! What a tuning has found, as plain data.

use serde::Serialize;

use crate::trace::{Action, Trace};

/// What was found for one trace.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Tuning {
    /// The file, as it was named.
    pub file: String,
    /// The device that the trace was recorded on, if the log has several.
    pub recorded_device: Option<u32>,
    /// How many events the trace has.
    pub events: u64,
    /// How many threads it was recorded on.
    pub threads: u64,
    /// How many streams it uses.
    pub streams: u64,
    /// The most bytes live at once, each size rounded up to 256: no memory can be smaller.
    pub peak_live_bytes: u64,
    /// Requests that failed when the log was recorded. They are not repeated, so a program that was
    /// to have that memory needs more than the answer.
    pub failed_when_recorded: u64,
    /// Whether the log ends in the middle of a line.
    pub ends_early: bool,
    /// The memory that was asked about, if one was.
    pub given_memory_bytes: Option<u64>,
    /// The answer; none if the trace runs in no memory that was tried, or not in what was given:
    /// then `least` says what would do.
    #[serde(flatten)]
    pub answer: Option<Answer>,
    /// What would do where the given memory does not.
    pub least: Option<Answer>,
    /// The smallest memory if work is done as soon as it is enqueued, with the configuration that
    /// needs it; not if a memory was given in which the trace runs.
    pub at_once: Option<Answer>,
    /// The same if work is done only when something waits for it.
    pub when_waited_for: Option<Answer>,
    /// All configurations that were tried.
    pub configurations: Vec<ConfigurationResult>,
}

/// A memory in which a trace runs, at the paces that are asked about.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Answer {
    /// The memory.
    pub memory_bytes: u64,
    /// The line to copy: the specification of the resource.
    pub resource: String,
    /// The name of its configuration.
    pub configuration: String,
    /// How often a stream, or the calling thread, was made to wait, if work is done only when it is
    /// waited for.
    pub waits: u64,
    /// Driver calls, where they are counted.
    pub driver_calls: Option<u64>,
    /// The same line with 2 % less memory, if that was tried.
    pub less: Option<Less>,
}

/// That less memory is not enough.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Less {
    /// The smaller memory.
    pub memory_bytes: u64,
    /// The first failure there, at the pace at which it was found first.
    pub failure: String,
}

/// What was found for one configuration.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ConfigurationResult {
    /// Its name.
    pub configuration: String,
    /// The text of its specification, in which `{memory}` stands for the memory.
    pub template: String,
    /// The smallest memory that was found, for all paces; of the given memory, if one was given and
    /// the trace runs in it.
    pub memory_bytes: Option<u64>,
    /// The same if work is done as soon as it is enqueued.
    pub at_once_memory_bytes: Option<u64>,
    /// The same if work is done only when something waits for it.
    pub when_waited_for_memory_bytes: Option<u64>,
    /// At `memory_bytes`: the most that it held, if it counts that.
    pub reserved_bytes: Option<u64>,
    /// At `memory_bytes`: as in [`Answer`].
    pub waits: Option<u64>,
    /// At `memory_bytes`: as in [`Answer`].
    pub driver_calls: Option<u64>,
    /// Why it does not run in the given memory, or in the most that was tried.
    pub failure: Option<String>,
    /// More memory, and what it saves; ascending, from `memory_bytes`.
    pub curve: Vec<Point>,
}

impl ConfigurationResult {
    /// Fills in what is known of the memory in which it runs.
    pub(super) fn with(mut self, point: Option<Point>) -> Self {
        self.memory_bytes = point.map(|point| point.memory_bytes);
        self.reserved_bytes = point.and_then(|point| point.reserved_bytes);
        self.waits = point.map(|point| point.waits);
        self.driver_calls = point.and_then(|point| point.driver_calls);
        self
    }

    /// Whether it holds all of the memory in which it runs, be that needed or not.
    pub(super) fn holds_all(&self) -> bool {
        self.reserved_bytes.is_some_and(|reserved| Some(reserved) >= self.memory_bytes)
    }
}

/// What a configuration does in an amount of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Point {
    /// The memory.
    pub memory_bytes: u64,
    /// The most that was held, if that is counted.
    pub reserved_bytes: Option<u64>,
    /// As in [`Answer`].
    pub waits: u64,
    /// As in [`Answer`].
    pub driver_calls: Option<u64>,
}

impl Tuning {
    /// What is known before anything was tried.
    pub(super) fn of(trace: &Trace) -> Self {
        Self {
            file: trace.path.display().to_string(),
            recorded_device: None,
            events: trace.events.len() as u64,
            threads: trace.threads.len() as u64,
            streams: trace.streams.len() as u64,
            peak_live_bytes: trace.peak_live_aligned,
            failed_when_recorded: failed_when_recorded(trace),
            ends_early: trace.ends_early,
            given_memory_bytes: None,
            answer: None,
            least: None,
            at_once: None,
            when_waited_for: None,
            configurations: Vec::new(),
        }
    }
}

/// How many requests failed when the log was recorded: a replay does not repeat them. The end mark
/// of a log is a failed request of 0 bytes.
fn failed_when_recorded(trace: &Trace) -> u64 {
    let failed = |action: &Action| matches!(action, Action::AllocateFailure { size: 1.. });
    trace.events.iter().filter(|event| failed(&event.action)).count() as u64
}
