//! Simulated time: what the host spends in calls and in waiting, and when work on streams is done.
//!
//! All of it follows from the calls alone: when an item will be done is known when it is enqueued,
//! whenever it runs.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use crate::model::costs::Costs;
use crate::model::streams::StreamKind;
use crate::model::vector_clock::{Point, VectorClock};
use crate::model::work::Work;

/// How the host has waited for devices, by simulated time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Stalls {
    /// How often it had to wait: calls that wait for what is done already are not counted.
    pub count: u64,
    /// How long in all.
    pub time: Duration,
}

/// The work of a device, as far as it is not one stream's.
#[derive(Clone, Copy, Debug, Default)]
struct DeviceTime {
    /// When all of it is done.
    end: u64,
    /// When that of the streams is done which the legacy stream waits for.
    blocking: u64,
    /// Streams made from now on wait until then.
    barrier: u64,
}

/// Times are nanoseconds since the machine was made.
#[derive(Debug)]
pub(crate) struct SimTime {
    costs: Costs,
    host: u64,
    stalls: Stalls,
    /// By stream, the positions whose work is done later than now, and when. Both ascend.
    ends: HashMap<u64, VecDeque<(u64, u64)>>,
    /// By stream, when its next item starts at the soonest.
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

    /// The host makes a call.
    pub(crate) fn charge(&mut self, call: &str) {
        self.host = self.host.saturating_add(self.costs.of_call(call));
    }

    /// A call that costs nothing takes the least of time, so that who asks again and again gets
    /// there.
    pub(crate) fn tick(&mut self, call: &str) {
        if self.costs.of_call(call) == 0 {
            self.host = self.host.saturating_add(1);
        }
    }

    /// When a stream has done what it was given so far.
    pub(crate) fn end_of_stream(&self, stream: u64) -> u64 {
        let end = self.ends.get(&stream).and_then(VecDeque::back);
        end.map_or(self.host, |&(_, end)| end.max(self.host))
    }

    /// When a device has done what it was given so far.
    pub(crate) fn end_of_device(&self, device: usize) -> u64 {
        self.devices.get(&device).map_or(self.host, |lane| lane.end.max(self.host))
    }

    /// When all devices have.
    pub(crate) fn end_of_all(&self) -> u64 {
        self.devices.values().map(|lane| lane.end).fold(self.host, u64::max)
    }

    /// When what a stream of this order waits for without being told to is done.
    fn end_of_others(&self, order: StreamKind, device: usize, legacy: u64) -> u64 {
        match order {
            StreamKind::Legacy => self.devices.get(&device).map_or(0, |lane| lane.blocking),
            StreamKind::Blocking => self.end_of_stream(legacy),
            StreamKind::NonBlocking => 0,
        }
    }

    /// When waiting for a stream ends.
    pub(crate) fn end_of_wait(&self, stream: u64, order: StreamKind, device: usize) -> u64 {
        let others = match order {
            StreamKind::Legacy => self.end_of_others(order, device, stream),
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

    /// Work has been put on a stream, behind these points.
    pub(crate) fn enqueue(
        &mut self,
        at: Point,
        (order, device, legacy): (StreamKind, usize, u64),
        after: &VectorClock,
        work: &Work,
    ) {
        let after = after.iter().map(|point| self.end_of_point(point)).max().unwrap_or(0);
        let held = self.held.remove(&at.stream).unwrap_or(0);
        let others = self.end_of_others(order, device, legacy);
        let start = self.end_of_stream(at.stream).max(after).max(held).max(others);
        let end = start.saturating_add(self.costs.of_work(work));
        let host = self.host;
        let ends = self.ends.entry(at.stream).or_default();
        while ends.front().is_some_and(|&(_, end)| end <= host) {
            ends.pop_front();
        }
        ends.push_back((at.position, end));
        let lane = self.devices.entry(device).or_default();
        lane.end = lane.end.max(end);
        if order == StreamKind::Blocking {
            lane.blocking = lane.blocking.max(end);
        }
    }

    /// A stream's next item starts no sooner than this.
    pub(crate) fn hold(&mut self, stream: u64, until: u64) {
        let held = self.held.entry(stream).or_default();
        *held = until.max(*held);
    }

    /// The streams that a device has from now on start no sooner than this.
    pub(crate) fn hold_new_streams(&mut self, device: usize, until: u64) {
        let lane = self.devices.entry(device).or_default();
        lane.barrier = lane.barrier.max(until);
    }

    /// A stream has been made.
    pub(crate) fn begin(&mut self, stream: u64, device: usize) {
        if let Some(lane) = self.devices.get(&device).filter(|lane| lane.barrier > self.host) {
            self.hold(stream, lane.barrier);
        }
    }

    /// The host waits until then.
    pub(crate) fn wait_until(&mut self, time: u64) {
        let Some(waited) = time.checked_sub(self.host).filter(|&waited| waited > 0) else { return };
        self.host = time;
        self.stalls.count += 1;
        self.stalls.time = self.stalls.time.saturating_add(Duration::from_nanos(waited));
        self.ends.retain(|_, ends| ends.back().is_some_and(|&(_, end)| end > time));
    }

    /// The last item of a stream that is done by now, if all up to `submitted` are not.
    pub(crate) fn done_by_now(&self, stream: u64, submitted: u64) -> u64 {
        let later = self.ends.get(&stream).and_then(|ends| {
            let at = ends.partition_point(|&(_, end)| end <= self.host);
            ends.get(at)
        });
        later.map_or(submitted, |&(position, _)| position.saturating_sub(1))
    }
}
