//! Streams: queues of work, and the vector clock of each.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::model::context::Scope;
use crate::model::vector_clock::{Point, VectorClock};
use crate::model::work::Item;

/// The greatest stream priority; 0 is the least. The software device stores priorities and ignores
/// them.
pub(crate) const GREATEST_PRIORITY: i32 = -5;

/// How a stream is implicitly ordered with the other streams of its context.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StreamKind {
    /// The legacy default stream.
    Legacy,
    /// A stream that synchronizes implicitly with the legacy default stream.
    Blocking,
    NonBlocking,
}

#[derive(Debug)]
pub(crate) struct Stream {
    /// The context that it belongs to, and that context's device.
    pub(crate) context: usize,
    pub(crate) device: usize,
    pub(crate) kind: StreamKind,
    pub(crate) priority: i32,
    pub(crate) queue: VecDeque<Item>,
    /// The number of items ever enqueued, which is the position of the last one.
    pub(crate) submitted: u64,
    pub(crate) completed: u64,
    /// Whether a thread is running the item after `completed`, with the machine unlocked.
    pub(crate) running: bool,
    /// Whether the program has destroyed it; it is removed when its work is complete.
    pub(crate) destroyed: bool,
    /// The stream's vector clock: for every other stream, the position that its next item happens
    /// after.
    pub(crate) frontier: VectorClock,
    /// The name that the program gave it, for reports.
    pub(crate) name: Option<Arc<str>>,
}

impl Stream {
    pub(crate) fn is_in(&self, scope: Scope) -> bool {
        scope.includes(self.context, self.device)
    }

    pub(crate) fn is_drained(&self) -> bool {
        self.completed == self.submitted
    }
}

/// The streams of a machine by id. Ids are never reused, so all work of a stream that is missing is
/// complete.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    by_id: BTreeMap<u64, Stream>,
    last_id: u64,
    /// The clocks of removed streams by context, until the host has waited for them. Kept only if
    /// order is checked: that their work has run does not order it before anything.
    removed: Option<BTreeMap<usize, Removed>>,
}

/// The vector clocks of the ends of removed streams.
#[derive(Debug)]
pub(crate) struct Removed {
    device: usize,
    pub(crate) all: VectorClock,
    /// Those of blocking streams, which the legacy stream waits for.
    pub(crate) blocking: VectorClock,
}

impl Streams {
    pub(crate) fn new(remembers_removed: bool) -> Self {
        Self { removed: remembers_removed.then(BTreeMap::new), ..Self::default() }
    }

    /// The clocks of removed streams that the host has not waited for.
    pub(crate) fn removed(&self, scope: Scope) -> impl Iterator<Item = &Removed> {
        let removed = self.removed.iter().flatten();
        let included = removed.filter(move |(context, of)| scope.includes(**context, of.device));
        included.map(|(_, removed)| removed)
    }

    /// Forgets the removed streams that the host has waited for: those before `known`.
    pub(crate) fn forget_removed(&mut self, scope: Scope, known: &VectorClock) {
        let is_known = |of: &Removed| of.all.iter().all(|point| known.covers(point));
        if let Some(removed) = &mut self.removed {
            removed.retain(|&context, of| !scope.includes(context, of.device) || !is_known(of));
        }
    }

    pub(crate) fn create(
        &mut self,
        (context, device): (usize, usize),
        kind: StreamKind,
        priority: i32,
    ) -> u64 {
        self.last_id += 1;
        let stream = Stream {
            context,
            device,
            kind,
            priority,
            queue: VecDeque::new(),
            submitted: 0,
            completed: 0,
            running: false,
            destroyed: false,
            frontier: VectorClock::default(),
            name: None,
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

    /// The name of a stream, if it has one and exists.
    pub(crate) fn name(&self, id: u64) -> Option<Arc<str>> {
        self.get(id)?.name.clone()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &Stream)> {
        self.by_id.iter().map(|(&id, stream)| (id, stream))
    }

    pub(crate) fn is_complete(&self, point: Point) -> bool {
        self.by_id.get(&point.stream).is_none_or(|stream| stream.completed >= point.position)
    }

    /// The point of the last item of a stream so far.
    pub(crate) fn end_of(&self, id: u64) -> Point {
        Point { stream: id, position: self.get(id).map_or(0, |stream| stream.submitted) }
    }

    /// The ends of the streams that have work left.
    pub(crate) fn pending(&self, scope: Scope) -> Vec<Point> {
        let pending = self.iter().filter(|(_, stream)| stream.is_in(scope) && !stream.is_drained());
        pending.map(|(id, stream)| Point { stream: id, position: stream.submitted }).collect()
    }

    /// Destroys a stream: it is removed now, or when its work is complete.
    pub(crate) fn retire(&mut self, id: u64) {
        if let Some(stream) = self.by_id.get_mut(&id) {
            stream.destroyed = true;
        }
        self.remove_if_done(id);
    }

    /// Counts an item of a stream as complete.
    pub(crate) fn complete_one(&mut self, id: u64) {
        if let Some(stream) = self.by_id.get_mut(&id) {
            stream.completed += 1;
            stream.running = false;
        }
        self.remove_if_done(id);
    }

    /// Counts all items of a stream as complete.
    pub(crate) fn complete_all(&mut self, id: u64) {
        if let Some(stream) = self.by_id.get_mut(&id) {
            stream.completed = stream.submitted;
            stream.running = false;
        }
        self.remove_if_done(id);
    }

    /// Removes all queued work of the streams, except work that is running now, and counts it as
    /// complete. Returns the removed items.
    pub(crate) fn abandon(&mut self, scope: Scope) -> Vec<Item> {
        let mut abandoned = Vec::new();
        let mut done = Vec::new();
        for (&id, stream) in self.by_id.iter_mut().filter(|(_, stream)| stream.is_in(scope)) {
            abandoned.extend(stream.queue.drain(..));
            stream.completed = stream.submitted - u64::from(stream.running);
            done.push(id);
        }
        for id in done {
            self.remove_if_done(id);
        }
        abandoned
    }

    /// Whether a thread is running work of these streams.
    pub(crate) fn is_running(&self, scope: Scope) -> bool {
        self.by_id.values().any(|stream| stream.is_in(scope) && stream.running)
    }

    /// Removes the streams of a context, all of whose work is complete.
    pub(crate) fn end_all_of(&mut self, context: usize) {
        self.by_id.retain(|_, stream| stream.context != context);
        if let Some(removed) = &mut self.removed {
            removed.remove(&context);
        }
    }

    fn remove_if_done(&mut self, id: u64) {
        if self.get(id).is_some_and(|stream| stream.destroyed && stream.is_drained())
            && let Some(stream) = self.by_id.remove(&id)
            && let Some(removed) = &mut self.removed
        {
            let new =
                || Removed { device: stream.device, all: <_>::default(), blocking: <_>::default() };
            let removed = removed.entry(stream.context).or_insert_with(new);
            let mut known = stream.frontier;
            known.add(Point { stream: id, position: stream.submitted });
            removed.all.join(&known);
            if stream.kind == StreamKind::Blocking {
                removed.blocking.join(&known);
            }
        }
    }

    /// The points that a wait for a stream waits for: its end and, for the legacy stream, the ends
    /// of the blocking streams.
    pub(crate) fn points_of(&self, id: u64) -> Vec<Point> {
        let mut points = self.blocked_by_legacy(id);
        points.push(self.end_of(id));
        points
    }

    /// For the legacy stream, the ends of the blocking streams of its context; for others, nothing.
    pub(crate) fn blocked_by_legacy(&self, id: u64) -> Vec<Point> {
        let is_legacy = self.get(id).is_some_and(|stream| stream.kind == StreamKind::Legacy);
        let before = self.implicitly_before(id).filter(|_| is_legacy);
        before.map(|(id, stream)| Point { stream: id, position: stream.submitted }).collect()
    }

    /// The clock of the removed streams that a stream's next item implicitly waits for.
    pub(crate) fn removed_before(&self, id: u64) -> Option<&VectorClock> {
        let legacy = self.get(id).filter(|stream| stream.kind == StreamKind::Legacy)?;
        self.removed.as_ref()?.get(&legacy.context).map(|removed| &removed.blocking)
    }

    /// The streams that a stream's next item implicitly waits for: for the legacy stream, the
    /// blocking streams of its context; for those, the legacy stream.
    pub(crate) fn implicitly_before(&self, id: u64) -> impl Iterator<Item = (u64, &Stream)> {
        let of = self.get(id).map(|stream| (stream.kind, stream.context));
        let before = match of {
            Some((StreamKind::Legacy, _)) => Some(StreamKind::Blocking),
            Some((StreamKind::Blocking, _)) => Some(StreamKind::Legacy),
            Some((StreamKind::NonBlocking, _)) | None => None,
        };
        let streams = before.map(|_| self.iter()).into_iter().flatten();
        streams.filter(move |(_, other)| {
            before == Some(other.kind) && of.is_some_and(|(_, context)| other.context == context)
        })
    }
}
