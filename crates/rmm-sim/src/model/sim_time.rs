//! Simulated time: the host's time in calls and waits, and the time at which work on streams is
//! complete.
//!
//! It follows from the calls alone: the time at which an item is complete is known when it is
//! enqueued, and does not depend on when the schedule runs it.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use crate::model::costs::Costs;
use crate::model::streams::StreamKind;
use crate::model::vector_clock::{Point, VectorClock};
use crate::model::work::Work;

/// The host's waits for devices, in simulated time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Stalls {
    /// The number of waits. Calls that wait for work which is already complete are not counted.
    pub count: u64,
    /// The total time.
    pub time: Duration,
}

/// What the start of work depends on, besides its stream's own work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamInfo {
    pub(crate) kind: StreamKind,
    pub(crate) device: usize,
    /// The legacy default stream of the device.
    pub(crate) legacy: u64,
}

/// The times of a device's streams together.
#[derive(Clone, Copy, Debug, Default)]
struct DeviceTime {
    /// When all streams are idle.
    end: u64,
    /// When the blocking streams are idle, which the legacy stream waits for.
    blocking: u64,
    /// When streams created from now on may start.
    barrier: u64,
}

/// The simulated time of a machine, in nanoseconds since it was made.
#[derive(Debug)]
pub(crate) struct SimTime {
    costs: Costs,
    host: u64,
    stalls: Stalls,
    /// By stream, the positions whose work is complete later than now, and when. Both ascend.
    ends: HashMap<u64, VecDeque<(u64, u64)>>,
    /// By stream, the earliest start of its next item.
    held: HashMap<u64, u64>,
    devices: BTreeMap<usize, DeviceTime>,
}

impl SimTime {
    pub(crate) fn new(costs: Costs) -> Self {
        Self {
            costs,
            host: 0,
            stalls: Stalls::default(),
            ends: HashMap::new(),
            held: HashMap::new(),
            devices: BTreeMap::new(),
        }
    }

    pub(crate) fn now(&self) -> Duration {
        Duration::from_nanos(self.host)
    }

    pub(crate) fn stalls(&self) -> Stalls {
        self.stalls
    }

    /// Charges the cost of a call to the host.
    pub(crate) fn charge(&mut self, call: &str) {
        self.host = self.host.saturating_add(self.costs.of_call(call));
    }

    /// Charges a nanosecond for a call that costs nothing, so that polling makes progress.
    pub(crate) fn tick(&mut self, call: &str) {
        if self.costs.of_call(call) == 0 {
            self.host = self.host.saturating_add(1);
        }
    }

    /// When the work of a stream so far is complete.
    pub(crate) fn end_of_stream(&self, stream: u64) -> u64 {
        let end = self.ends.get(&stream).and_then(VecDeque::back);
        end.map_or(self.host, |&(_, end)| end.max(self.host))
    }

    /// When the work of a device so far is complete.
    pub(crate) fn end_of_device(&self, device: usize) -> u64 {
        self.devices.get(&device).map_or(self.host, |times| times.end.max(self.host))
    }

    /// When the work of all devices so far is complete.
    pub(crate) fn end_of_all(&self) -> u64 {
        self.devices.values().map(|times| times.end).fold(self.host, u64::max)
    }

    /// When the work is complete that a stream of this kind implicitly waits for.
    fn end_of_others(&self, kind: StreamKind, device: usize, legacy: u64) -> u64 {
        match kind {
            StreamKind::Legacy => self.devices.get(&device).map_or(0, |times| times.blocking),
            StreamKind::Blocking => self.end_of_stream(legacy),
            StreamKind::NonBlocking => 0,
        }
    }

    /// When a wait for a stream ends.
    pub(crate) fn end_of_wait(&self, stream: u64, kind: StreamKind, device: usize) -> u64 {
        let others = match kind {
            StreamKind::Legacy => self.end_of_others(kind, device, stream),
            StreamKind::Blocking | StreamKind::NonBlocking => 0,
        };
        self.end_of_stream(stream).max(others)
    }

    fn end_of_point(&self, point: Point) -> u64 {
        let ends = self.ends.get(&point.stream);
        let later = ends.and_then(|ends| {
            let at = ends.partition_point(|&(position, _)| position < point.position);
            ends.get(at)
        });
        later.map_or(0, |&(_, end)| end)
    }

    /// Computes the end of work that is enqueued after these points.
    pub(crate) fn enqueue(
        &mut self,
        at: Point,
        stream: StreamInfo,
        after: &VectorClock,
        work: &Work,
    ) {
        let after = after.iter().map(|point| self.end_of_point(point)).max().unwrap_or(0);
        let held = self.held.remove(&at.stream).unwrap_or(0);
        let StreamInfo { kind, device, legacy } = stream;
        let others = self.end_of_others(kind, device, legacy);
        let start = self.end_of_stream(at.stream).max(after).max(held).max(others);
        let end = start.saturating_add(self.costs.of_work(work));
        let host = self.host;
        let ends = self.ends.entry(at.stream).or_default();
        while ends.front().is_some_and(|&(_, end)| end <= host) {
            ends.pop_front();
        }
        ends.push_back((at.position, end));
        let times = self.devices.entry(device).or_default();
        times.end = times.end.max(end);
        if kind == StreamKind::Blocking {
            times.blocking = times.blocking.max(end);
        }
    }

    /// Delays a stream's next item until a time.
    pub(crate) fn hold(&mut self, stream: u64, until: u64) {
        let held = self.held.entry(stream).or_default();
        *held = until.max(*held);
    }

    /// Delays the streams that are created on a device from now on until a time.
    pub(crate) fn hold_new_streams(&mut self, device: usize, until: u64) {
        let times = self.devices.entry(device).or_default();
        times.barrier = times.barrier.max(until);
    }

    /// Applies the delay of a device to a new stream.
    pub(crate) fn begin(&mut self, stream: u64, device: usize) {
        if let Some(times) = self.devices.get(&device).filter(|times| times.barrier > self.host) {
            self.hold(stream, times.barrier);
        }
    }

    /// Makes the host wait until a time.
    pub(crate) fn wait_until(&mut self, time: u64) {
        let Some(waited) = time.checked_sub(self.host).filter(|&waited| waited > 0) else { return };
        self.host = time;
        self.stalls.count += 1;
        self.stalls.time = self.stalls.time.saturating_add(Duration::from_nanos(waited));
        self.ends.retain(|_, ends| ends.back().is_some_and(|&(_, end)| end > time));
    }

    /// The position up to which the work of a stream, of `submitted` items, is complete by now.
    pub(crate) fn done_by_now(&self, stream: u64, submitted: u64) -> u64 {
        let later = self.ends.get(&stream).and_then(|ends| {
            let at = ends.partition_point(|&(_, end)| end <= self.host);
            ends.get(at)
        });
        later.map_or(submitted, |&(position, _)| position.saturating_sub(1))
    }
}
