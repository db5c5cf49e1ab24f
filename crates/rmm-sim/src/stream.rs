//! Streams: queues of work, and what is known to come before what.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::c_void;

use rmm_sys::CuResult;

use crate::kernel::Body;
use crate::memory::Place;
use crate::points::{Point, Points};
use crate::state::State;

/// The parameter of a host function: opaque here, and only ever handed back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostData(pub(crate) *mut c_void);

// SAFETY: the pointer is not used here; `cuLaunchHostFunc` documents that the function may run on
// any thread, so its caller vouches for the parameter being usable there.
unsafe impl Send for HostData {}

/// A host function as the driver takes it.
pub(crate) type HostFunction = unsafe extern "C" fn(*mut c_void);

/// The priority of the streams that come first; 0 is that of the others. The software device keeps
/// priorities and does nothing with them.
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
    /// The place that an event stands for.
    Record {
        event: u64,
    },
    /// The end of the memory that a stream-ordered free let go of.
    Release {
        allocation: u64,
    },
    /// Something that only has a place in the order.
    Mark(&'static str),
}

impl Work {
    /// The same work once more, unless it can be done only once.
    pub(crate) fn replica(&self) -> Option<Self> {
        Some(match self {
            Self::Copy { from, to } => Self::Copy { from: *from, to: *to },
            Self::Fill { to, pattern, width } => {
                Self::Fill { to: *to, pattern: *pattern, width: *width }
            }
            Self::Host { function, data } => Self::Host { function: *function, data: *data },
            Self::Kernel(body) => Self::Kernel(body.replica()?),
            Self::Mark(what) => Self::Mark(what),
            Self::Staged { .. } | Self::Record { .. } | Self::Release { .. } => return None,
        })
    }
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

/// The streams of a machine by id. Ids are never reused, so a stream that is missing has done all
/// its work.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    by_id: BTreeMap<u64, Stream>,
    last_id: u64,
    /// By device, what is left of streams that are gone, until the host has waited for the device.
    /// Only kept if the order is checked: that they have run says nothing of what the program
    /// knows.
    gone: Option<BTreeMap<usize, Gone>>,
}

/// The ends of streams that are gone, and what they were behind.
#[derive(Debug, Default)]
pub(crate) struct Gone {
    pub(crate) all: Points,
    /// Those that the legacy stream orders itself with.
    pub(crate) blocking: Points,
}

impl Streams {
    pub(crate) fn new(remembers_gone: bool) -> Self {
        Self { gone: remembers_gone.then(BTreeMap::new), ..Self::default() }
    }

    /// What is left of a device's streams that are gone, as far as the host has not waited for
    /// them.
    pub(crate) fn gone(&self, device: usize) -> Option<&Gone> {
        self.gone.as_ref()?.get(&device)
    }

    /// The host has waited for a device.
    pub(crate) fn forget_gone(&mut self, device: usize) {
        if let Some(gone) = &mut self.gone {
            gone.remove(&device);
        }
    }

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
        self.by_id.insert(self.last_id, stream);
        self.last_id
    }

    pub(crate) fn get(&self, id: u64) -> Option<&Stream> {
        self.by_id.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: u64) -> Option<&mut Stream> {
        self.by_id.get_mut(&id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &Stream)> {
        self.by_id.iter().map(|(&id, stream)| (id, stream))
    }

    pub(crate) fn is_complete(&self, point: Point) -> bool {
        self.by_id.get(&point.stream).is_none_or(|stream| stream.completed >= point.position)
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
        if let Some(stream) = self.by_id.get_mut(&id) {
            stream.destroyed = true;
        }
        self.bury_if_done(id);
    }

    /// Counts an item of a stream as done.
    pub(crate) fn complete_one(&mut self, id: u64) {
        if let Some(stream) = self.by_id.get_mut(&id) {
            stream.completed += 1;
            stream.running = false;
        }
        self.bury_if_done(id);
    }

    /// Takes all items of a stream for done.
    pub(crate) fn give_up(&mut self, id: u64) {
        if let Some(stream) = self.by_id.get_mut(&id) {
            stream.completed = stream.submitted;
            stream.running = false;
        }
        self.bury_if_done(id);
    }

    /// Takes all work of a device's streams away, but for what is running now; its items count as
    /// done. Returns the items.
    pub(crate) fn abandon(&mut self, device: usize) -> Vec<Item> {
        let mut abandoned = Vec::new();
        let mut done = Vec::new();
        for (&id, stream) in self.by_id.iter_mut().filter(|(_, stream)| stream.device == device) {
            abandoned.extend(stream.queue.drain(..));
            stream.completed = stream.submitted - u64::from(stream.running);
            done.push(id);
        }
        for id in done {
            self.bury_if_done(id);
        }
        abandoned
    }

    /// Whether some thread is running work of a device.
    pub(crate) fn is_running(&self, device: usize) -> bool {
        self.by_id.values().any(|stream| stream.device == device && stream.running)
    }

    /// Ends a device's streams, all of whose work is done.
    pub(crate) fn end_all_of(&mut self, device: usize) {
        self.by_id.retain(|_, stream| stream.device != device);
        self.forget_gone(device);
    }

    fn bury_if_done(&mut self, id: u64) {
        if self.get(id).is_some_and(|stream| stream.destroyed && stream.is_drained())
            && let Some(stream) = self.by_id.remove(&id)
            && let Some(gone) = &mut self.gone
        {
            let gone = gone.entry(stream.device).or_default();
            let mut known = stream.frontier;
            known.add(Point { stream: id, position: stream.submitted });
            gone.all.join(&known);
            if stream.order == Order::Blocking {
                gone.blocking.join(&known);
            }
        }
    }

    /// What waiting for a stream means: its own work and, for the legacy stream, that of the
    /// blocking ones too.
    pub(crate) fn points_of(&self, id: u64) -> Vec<Point> {
        let mut points = self.blocked_by_legacy(id);
        points.push(self.end_of(id));
        points
    }

    /// For the legacy stream, the ends of the blocking streams of its device; for others, nothing.
    fn blocked_by_legacy(&self, id: u64) -> Vec<Point> {
        let is_legacy = self.get(id).is_some_and(|stream| stream.order == Order::Legacy);
        let before = self.implicitly_before(id).filter(|_| is_legacy);
        before.map(|(id, stream)| Point { stream: id, position: stream.submitted }).collect()
    }

    /// What is left of the streams that are gone and that a stream's next item is behind without
    /// being told to.
    pub(crate) fn gone_before(&self, id: u64) -> Option<&Points> {
        let legacy = self.get(id).filter(|stream| stream.order == Order::Legacy)?;
        self.gone(legacy.device).map(|gone| &gone.blocking)
    }

    /// The streams that a stream's next item waits for without being told to: for the legacy
    /// stream, the blocking ones of its device; for those, the legacy one.
    pub(crate) fn implicitly_before(&self, id: u64) -> impl Iterator<Item = (u64, &Stream)> {
        let of = self.get(id).map(|stream| (stream.order, stream.device));
        let before = match of {
            Some((Order::Legacy, _)) => Some(Order::Blocking),
            Some((Order::Blocking, _)) => Some(Order::Legacy),
            Some((Order::NonBlocking, _)) | None => None,
        };
        let streams = before.map(|_| self.iter()).into_iter().flatten();
        streams.filter(move |(_, other)| {
            before == Some(other.order) && of.is_some_and(|(_, device)| other.device == device)
        })
    }
}

impl State {
    /// How far into the others a stream is ordered behind, without what no longer matters.
    pub(crate) fn frontier(&mut self, id: u64) -> Points {
        let Some(stream) = self.streams.get_mut(id) else { return Points::default() };
        let mut frontier = std::mem::take(&mut stream.frontier);
        frontier.retain(|point| self.matters(point));
        if let Some(stream) = self.streams.get_mut(id) {
            stream.frontier.clone_from(&frontier);
        }
        frontier
    }

    /// Makes a stream, behind what the context has been told to wait for.
    pub(crate) fn create_stream(
        &mut self,
        device: usize,
        order: Order,
        priority: i32,
    ) -> Result<u64, CuResult> {
        let id = self.streams.create(device, order, priority);
        self.clock.begin(id, device);
        let mut barrier = std::mem::take(&mut self.devices[device].barrier);
        barrier.retain(|point| !self.streams.is_complete(point) || self.matters(point));
        if barrier.iter().next().is_some() {
            self.enqueue_after(id, Work::Mark("wait for the context's events"), &barrier)?;
        }
        self.devices[device].barrier = barrier;
        Ok(id)
    }

    /// Puts work at the end of a stream, behind the `after` points too; returns its place.
    ///
    /// If the stream is being captured the work becomes part of the graph, and the place is that
    /// before all.
    ///
    /// # Errors
    /// `INVALID_HANDLE` if the stream is gone; those of captures.
    pub(crate) fn enqueue_after(
        &mut self,
        id: u64,
        work: Work,
        after: &Points,
    ) -> Result<Point, CuResult> {
        self.check_legacy(id)?;
        let Some(work) = self.capture_work(id, work)? else {
            return Ok(Point { stream: id, position: 0 });
        };
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
        if let Some(gone) = self.streams.gone_before(id) {
            joined.join(gone);
        }
        before.extend(after.iter());
        before.retain(|point| point.stream != id && !self.streams.is_complete(*point));
        let is_checked = self.checks.is_on();
        let (what, uses) = if is_checked { work.uses() } else { ("", Vec::new()) };
        let stream = self.streams.get_mut(id).ok_or(CuResult::INVALID_HANDLE)?;
        stream.frontier.join(&joined);
        let point = Point { stream: id, position: stream.submitted + 1 };
        let lane = (stream.order, stream.device, self.devices[stream.device].legacy_stream);
        self.clock.enqueue(point, lane, after, &work);
        // Counted when it is there: what is counted is waited for.
        stream.queue.push_back(Item { work, after: before });
        stream.submitted = point.position;
        self.check_work(point, what, &uses);
        Ok(point)
    }

    /// Puts work at the end of a stream; returns its place.
    ///
    /// # Errors
    /// As [`enqueue_after`](Self::enqueue_after).
    pub(crate) fn enqueue(&mut self, id: u64, work: Work) -> Result<Point, CuResult> {
        self.enqueue_after(id, work, &Points::default())
    }
}
