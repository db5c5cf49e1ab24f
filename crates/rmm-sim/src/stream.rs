//! Streams: queues of work, and what is known to come before what.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::c_void;

use rmm_sys::CuResult;

use crate::event::{Point, Points};
use crate::kernel::Body;
use crate::memory::Place;
use crate::state::State;

/// The parameter of a host function: opaque here, and only ever handed back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostData(pub(crate) *mut c_void);

// SAFETY: the pointer is not used here; `cuLaunchHostFunc` documents that the function may run on any thread, so its
// caller vouches for the parameter being usable there.
unsafe impl Send for HostData {}

/// A host function as the driver takes it.
pub(crate) type HostFunction = unsafe extern "C" fn(*mut c_void);

/// The priority of the streams that come first; 0 is that of the others. The software device keeps priorities and
/// does nothing with them.
pub(crate) const GREATEST_PRIORITY: i32 = -5;

/// A piece of work.
#[derive(Debug)]
pub(crate) enum Work {
    Copy {
        from: Place,
        to: Place,
    },
    /// A copy from memory that was read when the copy was enqueued.
    Staged {
        bytes: Box<[u8]>,
        to: Place,
    },
    Fill {
        to: Place,
        pattern: [u8; 4],
        width: usize,
    },
    Host {
        function: HostFunction,
        data: HostData,
    },
    Kernel(Body),
    /// Sets the time of an event, if it was not recorded anew since.
    Record {
        event: u64,
        recording: u64,
    },
    /// The end of the memory that a stream-ordered free let go of.
    Release {
        allocation: u64,
    },
    /// Something that only has a place in the order.
    Mark(&'static str),
}

#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) work: Work,
    /// What must be complete before.
    pub(crate) after: Vec<Point>,
}

/// How a stream orders itself with the others of its context.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    /// The legacy default stream.
    Legacy,
    /// A stream that orders itself with it.
    Blocking,
    NonBlocking,
}

#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) device: usize,
    pub(crate) order: Order,
    pub(crate) priority: i32,
    pub(crate) queue: VecDeque<Item>,
    /// How many items were ever enqueued, and the position of the last one.
    pub(crate) submitted: u64,
    pub(crate) completed: u64,
    /// Whether some thread is running the item after `completed`, with the machine unlocked.
    pub(crate) running: bool,
    /// Whether the program has destroyed it; it then goes when its work is done.
    pub(crate) destroyed: bool,
    /// How far into every other stream this one is ordered behind.
    pub(crate) frontier: Points,
}

impl Stream {
    pub(crate) fn is_drained(&self) -> bool {
        self.completed == self.submitted
    }
}

/// The streams of a machine by id. Ids are never reused, so a stream that is missing has done all its work.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    streams: BTreeMap<u64, Stream>,
    last_id: u64,
}

impl Streams {
    pub(crate) fn create(&mut self, device: usize, order: Order, priority: i32) -> u64 {
        self.last_id += 1;
        let stream = Stream {
            device,
            order,
            priority,
            queue: VecDeque::new(),
            submitted: 0,
            completed: 0,
            running: false,
            destroyed: false,
            frontier: Points::default(),
        };
        self.streams.insert(self.last_id, stream);
        self.last_id
    }

    pub(crate) fn get(&self, id: u64) -> Option<&Stream> {
        self.streams.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: u64) -> Option<&mut Stream> {
        self.streams.get_mut(&id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &Stream)> {
        self.streams.iter().map(|(&id, stream)| (id, stream))
    }

    pub(crate) fn is_complete(&self, point: Point) -> bool {
        self.streams.get(&point.stream).is_none_or(|stream| stream.completed >= point.position)
    }

    /// The last item enqueued in a stream so far.
    pub(crate) fn end_of(&self, id: u64) -> Point {
        Point { stream: id, position: self.get(id).map_or(0, |stream| stream.submitted) }
    }

    /// The last items of the streams of a device that have not run yet.
    pub(crate) fn pending(&self, device: Option<usize>) -> Vec<Point> {
        let of_device = |stream: &Stream| device.is_none_or(|device| stream.device == device);
        let pending = self.iter().filter(|(_, stream)| of_device(stream) && !stream.is_drained());
        pending.map(|(id, stream)| Point { stream: id, position: stream.submitted }).collect()
    }

    /// The stream has been destroyed by the program: it goes now, or when its work is done.
    pub(crate) fn retire(&mut self, id: u64) {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.destroyed = true;
        }
        self.bury_if_done(id);
    }

    /// Counts an item of a stream as done.
    pub(crate) fn complete_one(&mut self, id: u64) {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.completed += 1;
            stream.running = false;
        }
        self.bury_if_done(id);
    }

    fn bury_if_done(&mut self, id: u64) {
        if self.get(id).is_some_and(|stream| stream.destroyed && stream.is_drained()) {
            self.streams.remove(&id);
        }
    }

    /// How far into the others a stream is ordered behind. Streams that are gone are forgotten: all is behind them.
    pub(crate) fn frontier(&mut self, id: u64) -> Points {
        let Some(stream) = self.streams.get_mut(&id) else { return Points::default() };
        let mut frontier = std::mem::take(&mut stream.frontier);
        frontier.retain(|point| self.streams.contains_key(&point.stream));
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.frontier.clone_from(&frontier);
        }
        frontier
    }

    /// What waiting for a stream means: its own work and, for the legacy stream, that of the blocking ones too.
    pub(crate) fn points_of(&self, id: u64) -> Vec<Point> {
        let mut points = self.blocked_by_legacy(id);
        points.push(self.end_of(id));
        points
    }

    /// For the legacy stream, the ends of the blocking streams of its device; for others, nothing.
    fn blocked_by_legacy(&self, id: u64) -> Vec<Point> {
        let Some(legacy) = self.get(id).filter(|stream| stream.order == Order::Legacy) else {
            return Vec::new();
        };
        let blocking =
            |stream: &Stream| stream.order == Order::Blocking && stream.device == legacy.device;
        let ends = self.iter().filter(|(_, stream)| blocking(stream));
        ends.map(|(id, stream)| Point { stream: id, position: stream.submitted }).collect()
    }
}

impl State {
    /// Makes a stream, behind what the context has been told to wait for.
    pub(crate) fn create_stream(
        &mut self,
        device: usize,
        order: Order,
        priority: i32,
    ) -> Result<u64, CuResult> {
        let id = self.streams.create(device, order, priority);
        let mut barrier = std::mem::take(&mut self.devices[device].barrier);
        barrier.retain(|point| !self.streams.is_complete(point));
        if barrier.iter().next().is_some() {
            self.enqueue_after(id, Work::Mark("wait for the context's events"), &barrier)?;
        }
        self.devices[device].barrier = barrier;
        Ok(id)
    }

    /// Puts work at the end of a stream, behind the `after` points too; returns its place.
    ///
    /// # Errors
    /// `INVALID_HANDLE` if the stream is gone.
    pub(crate) fn enqueue_after(
        &mut self,
        id: u64,
        work: Work,
        after: &Points,
    ) -> Result<Point, CuResult> {
        let stream = self.streams.get(id).ok_or(CuResult::INVALID_HANDLE)?;
        let mut before = match stream.order {
            Order::Legacy => self.streams.blocked_by_legacy(id),
            Order::Blocking => vec![self.streams.end_of(self.devices[stream.device].legacy_stream)],
            Order::NonBlocking => Vec::new(),
        };
        before.retain(|point| point.position > 0 && !stream.frontier.covers(*point));
        let mut joined = after.clone();
        for point in &before {
            joined.add(*point);
            if let Some(other) = self.streams.get(point.stream) {
                joined.join(&other.frontier);
            }
        }
        before.extend(after.iter());
        before.retain(|point| point.stream != id && !self.streams.is_complete(*point));
        let stream = self.streams.get_mut(id).ok_or(CuResult::INVALID_HANDLE)?;
        stream.frontier.join(&joined);
        stream.submitted += 1;
        stream.queue.push_back(Item { work, after: before });
        Ok(Point { stream: id, position: stream.submitted })
    }

    /// Puts work at the end of a stream; returns its place.
    ///
    /// # Errors
    /// As [`enqueue_after`](Self::enqueue_after).
    pub(crate) fn enqueue(&mut self, id: u64, work: Work) -> Result<Point, CuResult> {
        self.enqueue_after(id, work, &Points::default())
    }
}
