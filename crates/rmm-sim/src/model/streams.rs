//! Streams: queues of work, and what is known to come before what.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, VecDeque};

use crate::model::vector_clock::{Point, VectorClock};
use crate::model::work::Item;

/// The priority of the streams that come first; 0 is that of the others. The software device keeps
/// priorities and does nothing with them.
pub(crate) const GREATEST_PRIORITY: i32 = -5;

/// How a stream orders itself with the others of its context.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StreamKind {
    /// The legacy default stream.
    Legacy,
    /// A stream that orders itself with it.
    Blocking,
    NonBlocking,
}

#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) device: usize,
    pub(crate) order: StreamKind,
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
    pub(crate) frontier: VectorClock,
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
    pub(crate) all: VectorClock,
    /// Those that the legacy stream orders itself with.
    pub(crate) blocking: VectorClock,
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

    pub(crate) fn create(&mut self, device: usize, order: StreamKind, priority: i32) -> u64 {
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
            frontier: VectorClock::default(),
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
        self.remove_if_done(id);
    }

    /// Counts an item of a stream as done.
    pub(crate) fn complete_one(&mut self, id: u64) {
        if let Some(stream) = self.by_id.get_mut(&id) {
            stream.completed += 1;
            stream.running = false;
        }
        self.remove_if_done(id);
    }

    /// Takes all items of a stream for done.
    pub(crate) fn complete_all(&mut self, id: u64) {
        if let Some(stream) = self.by_id.get_mut(&id) {
            stream.completed = stream.submitted;
            stream.running = false;
        }
        self.remove_if_done(id);
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
            self.remove_if_done(id);
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

    fn remove_if_done(&mut self, id: u64) {
        if self.get(id).is_some_and(|stream| stream.destroyed && stream.is_drained())
            && let Some(stream) = self.by_id.remove(&id)
            && let Some(gone) = &mut self.gone
        {
            let gone = gone.entry(stream.device).or_default();
            let mut known = stream.frontier;
            known.add(Point { stream: id, position: stream.submitted });
            gone.all.join(&known);
            if stream.order == StreamKind::Blocking {
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
    pub(crate) fn blocked_by_legacy(&self, id: u64) -> Vec<Point> {
        let is_legacy = self.get(id).is_some_and(|stream| stream.order == StreamKind::Legacy);
        let before = self.implicitly_before(id).filter(|_| is_legacy);
        before.map(|(id, stream)| Point { stream: id, position: stream.submitted }).collect()
    }

    /// What is left of the streams that are gone and that a stream's next item is behind without
    /// being told to.
    pub(crate) fn gone_before(&self, id: u64) -> Option<&VectorClock> {
        let legacy = self.get(id).filter(|stream| stream.order == StreamKind::Legacy)?;
        self.gone(legacy.device).map(|gone| &gone.blocking)
    }

    /// The streams that a stream's next item waits for without being told to: for the legacy
    /// stream, the blocking ones of its device; for those, the legacy one.
    pub(crate) fn implicitly_before(&self, id: u64) -> impl Iterator<Item = (u64, &Stream)> {
        let of = self.get(id).map(|stream| (stream.order, stream.device));
        let before = match of {
            Some((StreamKind::Legacy, _)) => Some(StreamKind::Blocking),
            Some((StreamKind::Blocking, _)) => Some(StreamKind::Legacy),
            Some((StreamKind::NonBlocking, _)) | None => None,
        };
        let streams = before.map(|_| self.iter()).into_iter().flatten();
        streams.filter(move |(_, other)| {
            before == Some(other.order) && of.is_some_and(|(_, device)| other.device == device)
        })
    }
}
