//! Enqueuing work: after what its stream, the events it waits for, and the legacy default stream
//! require.
#![forbid(unsafe_code)]

use rmm_sys::{CuResult, CuStream};

use crate::engine::session::Session;
use crate::engine::state::State;
use crate::model::handle::{self, HandleKind};
use crate::model::sim_time::StreamInfo;
use crate::model::streams::StreamKind;
use crate::model::vector_clock::{Point, VectorClock};
use crate::model::work::{Item, Work};

impl State {
    /// The vector clock of a stream, without points that the host has seen complete and whose
    /// streams are destroyed.
    pub(crate) fn frontier(&mut self, id: u64) -> VectorClock {
        let Some(stream) = self.streams.get_mut(id) else { return VectorClock::default() };
        let mut frontier = std::mem::take(&mut stream.frontier);
        frontier.retain(|point| self.is_relevant(point));
        if let Some(stream) = self.streams.get_mut(id) {
            stream.frontier.clone_from(&frontier);
        }
        frontier
    }

    /// Creates a stream, after the events that its context waits for (`cuCtxWaitEvent`).
    pub(crate) fn create_stream(
        &mut self,
        context: usize,
        kind: StreamKind,
        priority: i32,
    ) -> Result<u64, CuResult> {
        let device = self.contexts[context].device;
        let id = self.streams.create((context, device), kind, priority);
        self.sim_time.begin(id, device);
        let mut barrier = std::mem::take(&mut self.contexts[context].barrier);
        barrier.retain(|point| !self.streams.is_complete(point) || self.is_relevant(point));
        if barrier.iter().next().is_some() {
            self.enqueue_after(id, Work::Marker("wait for the context's events"), &barrier)?;
        }
        self.contexts[context].barrier = barrier;
        Ok(id)
    }

    /// Enqueues work on a stream, ordered also after the points of `after`; returns its point.
    ///
    /// If the stream is being captured, the work becomes part of the graph, and the point is at
    /// position 0.
    ///
    /// # Errors
    /// `INVALID_HANDLE` if the stream is destroyed; those of captures.
    pub(crate) fn enqueue_after(
        &mut self,
        id: u64,
        work: Work,
        after: &VectorClock,
    ) -> Result<Point, CuResult> {
        self.admit_legacy_stream(id)?;
        let Some(work) = self.capture_work(id, work)? else {
            return Ok(Point { stream: id, position: 0 });
        };
        let stream = self.streams.get(id).ok_or(CuResult::INVALID_HANDLE)?;
        let mut before = match stream.kind {
            StreamKind::Legacy => self.streams.blocked_by_legacy(id),
            StreamKind::Blocking => {
                vec![self.streams.end_of(self.contexts[stream.context].legacy_stream)]
            }
            StreamKind::NonBlocking => Vec::new(),
        };
        before.retain(|point| point.position > 0 && !stream.frontier.covers(*point));
        let mut joined = after.clone();
        for point in &before {
            joined.add(*point);
            if let Some(other) = self.streams.get(point.stream) {
                joined.join(&other.frontier);
            }
        }
        if let Some(removed) = self.streams.removed_before(id) {
            joined.join(removed);
        }
        before.extend(after.iter());
        before.retain(|point| point.stream != id && !self.streams.is_complete(*point));
        let is_checked = self.checks.is_on();
        let (what, uses) = if is_checked { work.uses() } else { ("", Vec::new()) };
        let stream = self.streams.get_mut(id).ok_or(CuResult::INVALID_HANDLE)?;
        stream.frontier.join(&joined);
        let point = Point { stream: id, position: stream.submitted + 1 };
        let info = StreamInfo {
            kind: stream.kind,
            device: stream.device,
            legacy: self.contexts[stream.context].legacy_stream,
        };
        self.sim_time.enqueue(point, info, after, &work);
        // Counted only once it is queued, because counted work is waited for.
        stream.queue.push_back(Item { work, after: before });
        stream.submitted = point.position;
        self.check_work(point, what, &uses);
        Ok(point)
    }

    /// Enqueues work on a stream; returns its point.
    ///
    /// # Errors
    /// The errors of [`enqueue_after`](Self::enqueue_after).
    pub(crate) fn enqueue(&mut self, id: u64, work: Work) -> Result<Point, CuResult> {
        self.enqueue_after(id, work, &VectorClock::default())
    }
}

impl Session<'_> {
    /// The id of a stream. Default streams are those of the current context or, for annotations, of
    /// the primary one of the device `near`.
    pub(crate) fn stream_near(
        &mut self,
        stream: CuStream,
        near: Option<usize>,
    ) -> Result<u64, CuResult> {
        if stream == CuStream::NULL || stream == CuStream::LEGACY {
            let context = self.current_context().or_else(|code| near.ok_or(code))?;
            return Ok(self.contexts[context].legacy_stream);
        }
        if stream == CuStream::PER_THREAD {
            let context = self.current_context().or_else(|code| near.ok_or(code))?;
            let key = (self.thread(), context);
            if let Some(&id) = self.thread_streams.get(&key) {
                return Ok(id);
            }
            let id = self.create_stream(context, StreamKind::Blocking, 0)?;
            self.thread_streams.insert(key, id);
            return Ok(id);
        }
        let slot = handle::decode(stream.addr(), self.machine_id(), HandleKind::Stream);
        slot.and_then(|slot| self.stream_slots.get(slot)).ok_or(CuResult::INVALID_HANDLE)
    }

    /// The id of a stream.
    pub(crate) fn stream(&mut self, stream: CuStream) -> Result<u64, CuResult> {
        self.stream_near(stream, None)
    }
}
