//! Vector clocks of streams: which stream may reuse a block that another stream freed.
//!
//! Every free gets a *release point* (q, n): the stream it was freed on and that stream's count at
//! the time. A free block may go to stream s if and only if `q == s`, or work up to n is known to
//! be complete on q (`done`), or s is already ordered after n on q (the `frontier` of s).
//! [`Timeline::visible_to`] is this predicate, and the safety of the pool. The clocks are those of
//! Mattern (1988) and Fidge (1988), kept sparse: a frontier holds only waits that are not over.
//!
//! ```text
//!   stream q:  free  free  |E1|  free  |E2|  free  free
//!   point:      1     1          2           3     3 <- open
//!              '-- done --'      ^
//!                                s has waited for E2: frontier of s = { q: 2 }
//! ```
//!
//! To *seal* a stream is to record an event on it, which covers every point up to the count, and to
//! advance the count. The event may be recorded long after the frees: later covers more, never
//! less. A point that no event covers is unknown, never complete.

#![forbid(unsafe_code)]

mod context;
mod context_events;
mod frontier;
mod isolation;
mod news;
mod slot;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

use rmm_core::{CudaEvent, Error, StreamId};
use rmm_sys::CuStream;

use super::values::units::{ListId, Point};
use crate::sync::hash::BuildIdHasher;
use context_events::ContextEvents;
use frontier::Frontier;
pub(crate) use slot::RecordPolicy;
use slot::{MAX_EVENTS, RecordedEvent, Slot};

/// Frees without an event after which one is recorded, so that polling finds something complete and
/// waits are not too coarse.
const SEAL_FREES: u32 = 64;
/// Freed bytes without an event after which one is recorded.
const SEAL_BYTES: u64 = 64 << 20;
/// A stream in the table of streams.
#[derive(Clone, Copy, Debug)]
struct Known {
    list: ListId,
    /// Whether it was looked up since the last sweep of its slot.
    is_recent: bool,
}

/// How often the pool called the driver for stream order.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DriverCalls {
    pub(crate) records: u64,
    pub(crate) queries: u64,
    pub(crate) waits: u64,
}

/// The streams of a pool.
#[derive(Debug)]
pub(crate) struct Timeline {
    /// Index: a list's number. The first stands for the idle list and belongs to no stream.
    slots: Vec<Slot>,
    of_stream: HashMap<StreamId, Known, BuildIdHasher>,
    /// The stream that was looked up last: programs use the same one over and over.
    last: Option<(StreamId, ListId)>,
    /// The lowest numbers come first, so that unused slots gather at the end.
    spare_slots: BinaryHeap<Reverse<u32>>,
    /// The first point of a new slot: above all that a slot of the same number had before, which
    /// frontiers may still name.
    first_open: Point,
    /// The slot that is swept next.
    next_swept: usize,
    spare_events: Vec<RecordedEvent>,
    context: ContextEvents,
    /// Lists of which more is complete than when they were last looked at, oldest first.
    ///
    /// # Invariant
    /// A list is in here, once, if and only if its slot `has_news`.
    news: VecDeque<ListId>,
    pub(crate) counts: DriverCalls,
    /// Whether events are polled. If not, work counts as complete only after a wait.
    pub(crate) polls: bool,
    /// Whether nothing that is freed ever counts as complete, since graphs use it at each launch:
    /// it serves the stream that has freed it, and no other.
    pub(crate) isolates: bool,
}

impl Timeline {
    pub(crate) fn new() -> Self {
        Self {
            slots: vec![Slot::new(None, CuStream::NULL, RecordPolicy::Retired, false)],
            of_stream: HashMap::default(),
            last: None,
            spare_slots: BinaryHeap::new(),
            first_open: 1,
            next_swept: 0,
            spare_events: Vec::new(),
            context: ContextEvents::default(),
            news: VecDeque::new(),
            counts: DriverCalls::default(),
            polls: true,
            isolates: false,
        }
    }

    /// Host bytes of the tables.
    pub(crate) fn bookkeeping_bytes(&self) -> u64 {
        let frontiers = |events: &mut dyn Iterator<Item = &RecordedEvent>| -> usize {
            events.map(|event| event.frontier.bookkeeping_bytes()).sum()
        };
        let slot = |slot: &Slot| {
            let queue = slot.events.capacity() * size_of::<RecordedEvent>();
            queue + frontiers(&mut slot.events.iter()) + slot.frontier.bookkeeping_bytes()
        };
        let slots: usize = self.slots.iter().map(slot).sum();
        let slots = slots + self.slots.capacity() * size_of::<Slot>();
        let spare = self.spare_slots.capacity() * size_of::<u32>()
            + self.spare_events.capacity() * size_of::<RecordedEvent>()
            + self.news.capacity() * size_of::<ListId>()
            + frontiers(&mut self.spare_events.iter());
        // Seven of eight places are used at most, and each has a byte of its own.
        let places = self.of_stream.capacity().div_ceil(7) * 8;
        let context = self.context.bookkeeping_bytes();
        (slots + spare + context + places * (size_of::<(StreamId, Known)>() + 1)) as u64
    }

    /// The list of a stream that is known already: then the stream has not retired.
    #[inline]
    pub(crate) fn find(&mut self, stream: StreamId) -> Option<ListId> {
        if let Some((last, list)) = self.last
            && last == stream
        {
            return Some(list);
        }
        let known = self.of_stream.get_mut(&stream)?;
        known.is_recent = true;
        self.last = Some((stream, known.list));
        Some(known.list)
    }

    /// A slot for a stream, and whether its list is new and has to be made.
    pub(crate) fn add(
        &mut self,
        stream: StreamId,
        handle: CuStream,
        policy: RecordPolicy,
        idle_tells: bool,
    ) -> (ListId, bool) {
        let policy = self.usable_policy(policy);
        let slot = Slot::new(Some(stream), handle, policy, idle_tells);
        let (list, is_new) = if let Some(Reverse(number)) = self.spare_slots.pop() {
            let spare = &mut self.slots[number as usize];
            // Points continue from where they were: no frontier reaches beyond them.
            let (open, events) = (spare.open, std::mem::take(&mut spare.events));
            let frontier = std::mem::take(&mut spare.frontier);
            let (awaits_context, has_news) = (spare.awaits_context, spare.has_news);
            let done = open - 1;
            *spare = Slot { open, done, has_news, awaits_context, events, frontier, ..slot };
            (ListId(number), false)
        } else {
            (self.push(slot), true)
        };
        self.of_stream.insert(stream, Known { list, is_recent: false });
        (list, is_new)
    }

    /// Adds a slot behind the others.
    fn push(&mut self, slot: Slot) -> ListId {
        let open = self.first_open;
        self.slots.push(Slot { open, done: open - 1, ..slot });
        // At once, so that a steady state makes no host allocation.
        self.news.reserve(self.slots.len() - self.news.len());
        let number = u32::try_from(self.slots.len() - 1);
        ListId(number.expect("a program has fewer than 2^32 streams at a time"))
    }

    /// Whether there is a slot of this number.
    pub(crate) fn has_slot(&self, list: ListId) -> bool {
        list.index() < self.slots.len()
    }

    /// The lists of all slots that are in use.
    pub(crate) fn lists(&self) -> impl Iterator<Item = ListId> + '_ {
        let slots = (0..).zip(&self.slots).skip(1);
        slots.filter(|(_, slot)| !slot.is_spare).map(|(number, _)| ListId(number))
    }

    /// The latest point of list `q` that is visible to `s`: blocks freed on `q` up to this point
    /// may be allocated on `s`. The safety rule of the pool. A stream sees all that it has freed
    /// itself; the legacy default stream only what an event on it follows.
    pub(crate) fn visible_to(&self, s: ListId, q: ListId) -> Point {
        if q == ListId::ANY_STREAM {
            return Point::MAX;
        }
        if q == s {
            let slot = &self.slots[q.index()];
            return if slot.policy == RecordPolicy::Fenced {
                slot.fenced.max(slot.done)
            } else {
                Point::MAX
            };
        }
        let frontier = self.slots[s.index()].frontier.point(q);
        self.slots[q.index()].done.max(frontier)
    }

    /// The latest point of a list that is known to be complete.
    pub(crate) fn done(&self, list: ListId) -> Point {
        self.slots[list.index()].done
    }

    /// The point that a block freed now gets.
    pub(crate) fn open(&self, list: ListId) -> Point {
        self.slots[list.index()].open
    }

    /// The list's stream, if events can be recorded on it at any time: then it exists until
    /// [`retire`](Self::retire) is called for it.
    pub(crate) fn late_handle(&self, list: ListId) -> Option<CuStream> {
        let slot = &self.slots[list.index()];
        slot.is_reachable().then_some(slot.handle)
    }

    /// Whether everything freed on the list is complete when its stream is found idle.
    pub(crate) fn idle_tells(&self, list: ListId) -> bool {
        self.polls && self.slots[list.index()].idle_tells
    }

    /// Keeps the list for its stream until it is [unpinned](Self::unpin) as often as it was pinned.
    pub(crate) fn pin(&mut self, list: ListId) {
        self.slots[list.index()].pins += 1;
    }

    /// Undoes one [`pin`](Self::pin).
    pub(crate) fn unpin(&mut self, list: ListId) {
        let slot = &mut self.slots[list.index()];
        debug_assert!(slot.pins > 0, "every unpin is preceded by a pin");
        // It may be called while a `Drop` runs: a slot that stays pinned only takes some memory.
        slot.pins = slot.pins.saturating_sub(1);
    }

    /// Whether blocks of the list wait for an event before their own stream may reuse them.
    pub(crate) fn awaits_fence(&self, list: ListId) -> bool {
        let slot = &self.slots[list.index()];
        slot.policy == RecordPolicy::Fenced && slot.unsealed_frees > 0
    }

    /// Whether such an event should be recorded before the next block is taken: many blocks wait
    /// for it, or a larger part than `bytes`.
    pub(crate) fn is_fence_due(&self, list: ListId, bytes: u64) -> bool {
        let slot = &self.slots[list.index()];
        self.awaits_fence(list)
            && (slot.unsealed_frees >= SEAL_FREES || slot.unsealed_bytes > bytes)
    }

    /// A list for blocks whose last use no event covers: a wait for the whole device shows that it
    /// is complete.
    pub(crate) fn add_quarantine(&mut self) -> ListId {
        self.push(Slot { pins: 1, ..Slot::new(None, CuStream::NULL, RecordPolicy::Retired, false) })
    }

    /// How many slots belong to streams, or still hold blocks of streams that are gone.
    pub(crate) fn slots_in_use(&self) -> usize {
        self.slots.len() - 1 - self.spare_slots.len()
    }

    /// Whether the stream has retired, or the pool will not be notified of its end. All others keep
    /// their slots while they live: thread caches may hold blocks of them, and the pool checks
    /// whether they are under capture before it waits for the device.
    pub(crate) fn may_be_gone(&self, list: ListId) -> bool {
        !self.slots[list.index()].is_reachable()
    }

    /// Advances to the next slot, in a circle. Returns its list if the stream [may be
    /// gone](Self::may_be_gone) and was not looked up since the last round.
    pub(crate) fn next_to_sweep(&mut self) -> Option<ListId> {
        let next = self.next_swept + 1;
        self.next_swept = if next < self.slots.len() { next } else { 1 };
        let slot = self.slots.get(self.next_swept)?;
        let known = slot.stream.and_then(|stream| self.of_stream.get_mut(&stream));
        let was_recent = known.is_some_and(|known| std::mem::take(&mut known.is_recent));
        let is_passed_over = slot.is_spare || was_recent;
        let number = u32::try_from(self.next_swept).expect("slots have such numbers");
        Some(ListId(number)).filter(|&list| !is_passed_over && self.may_be_gone(list))
    }

    /// The latest point that a block of the list may have.
    pub(crate) fn newest(&self, list: ListId) -> Point {
        let slot = &self.slots[list.index()];
        if slot.unsealed_frees > 0 { slot.open } else { slot.open - 1 }
    }

    /// Whether an event of the stream covers everything freed on the list up to `point`.
    pub(crate) fn is_sealed_up_to(&self, list: ListId, point: Point) -> bool {
        self.slots[list.index()].events.back().is_some_and(|event| event.covers >= point)
    }

    /// Whether an event of the context covers it.
    pub(crate) fn is_covered_by_context(&self, list: ListId, point: Point) -> bool {
        self.context.first_that_covers(list, point).is_some()
    }

    /// The list's stream; `None` once it has retired.
    pub(crate) fn stream(&self, list: ListId) -> Option<StreamId> {
        self.slots[list.index()].stream
    }

    /// The list's stream and its handle; `None` once it has retired.
    pub(crate) fn owner(&self, list: ListId) -> Option<(StreamId, CuStream)> {
        let slot = &self.slots[list.index()];
        slot.stream.map(|stream| (stream, slot.handle))
    }

    /// Whether blocks were freed that an event should cover.
    pub(crate) fn is_unsealed(&self, list: ListId) -> bool {
        self.slots[list.index()].unsealed_frees > 0 && !self.isolates
    }

    /// Whether there is one stream at most: then no event is needed for others.
    pub(crate) fn is_alone(&self) -> bool {
        self.of_stream.len() < 2
    }

    /// Counts a block that came to the list at its current point without a free, so that the point
    /// needs an event.
    pub(crate) fn note_rest(&mut self, list: ListId) {
        self.note_unsealed(list, 0);
    }

    /// Counts a free. Returns whether an event should be recorded now.
    pub(crate) fn note_free(&mut self, list: ListId, bytes: u64) -> bool {
        self.note_unsealed(list, bytes);
        self.context.frees = self.context.frees.saturating_add(1);
        let slot = &self.slots[list.index()];
        slot.policy != RecordPolicy::Retired
            && !self.is_alone()
            && (slot.unsealed_frees >= SEAL_FREES || slot.unsealed_bytes >= SEAL_BYTES)
    }

    fn note_unsealed(&mut self, list: ListId, bytes: u64) {
        let slot = &mut self.slots[list.index()];
        slot.unsealed_frees = slot.unsealed_frees.saturating_add(1);
        slot.unsealed_bytes = slot.unsealed_bytes.saturating_add(bytes);
        self.await_context(list);
    }

    /// Seals a stream: `record` records an event on it, which covers everything freed so far.
    ///
    /// # Errors
    /// What `record` returns. Then nothing has changed: frees without an event stay unknown.
    pub(crate) fn seal(
        &mut self,
        list: ListId,
        record: impl FnOnce(&CudaEvent) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let slot = &mut self.slots[list.index()];
        // A full queue's newest event is recorded anew, and then covers more. Waits that were
        // enqueued for its former record still wait for that one.
        let newest = if slot.events.len() < MAX_EVENTS { None } else { slot.events.pop_back() };
        let joins = newest.is_some();
        let mut event = match newest.or_else(|| self.spare_events.pop()) {
            Some(event) => event,
            None => RecordedEvent::new()?,
        };
        self.counts.records += 1;
        let recorded = record(&event.event);
        if recorded.is_ok() {
            event.frontier.copy_from(&slot.frontier);
            event.covers = slot.close_point();
            slot.fenced = event.covers;
        }
        if recorded.is_ok() || joins {
            slot.events.push_back(event);
        } else {
            self.spare_events.push(event);
        }
        recorded
    }

    /// Queries a stream's events, oldest first. Returns whether any was complete.
    ///
    /// A failure counts as not complete.
    pub(crate) fn poll(&mut self, list: ListId) -> bool {
        let mut found = false;
        while self.polls
            && !self.isolates
            && let Some(event) = self.slots[list.index()].events.front()
        {
            self.counts.queries += 1;
            if !event.event.is_complete().unwrap_or(false) {
                break;
            }
            found = true;
            self.finish_oldest(list);
        }
        found
    }

    /// Marks a stream's oldest event as complete, and everything that the stream was ordered after
    /// when it was recorded.
    fn finish_oldest(&mut self, list: ListId) {
        let Some(event) = self.slots[list.index()].events.pop_front() else { return };
        self.finish_up_to(list, event.covers);
        self.finish_frontier(&event.frontier);
        self.spare_events.push(event);
    }

    /// Marks all points of a list up to `point` as complete, unless graphs may use the memory
    /// again. The list may be gone.
    fn finish_up_to(&mut self, list: ListId, point: Point) {
        if self.isolates {
            return;
        }
        if let Some(slot) = self.slots.get_mut(list.index())
            && slot.done < point
        {
            slot.done = point;
            self.note_news(list);
        }
    }

    /// Marks everything that a stream was ordered after as complete.
    fn finish_frontier(&mut self, frontier: &Frontier) {
        for (list, point) in frontier.iter() {
            self.finish_up_to(list, point);
        }
    }

    /// Marks everything freed on a list so far as complete, and everything that its stream was
    /// ordered after: the stream was found idle.
    pub(crate) fn finish_all(&mut self, list: ListId) {
        if self.isolates {
            return;
        }
        let slot = &mut self.slots[list.index()];
        slot.done = slot.close_point();
        self.spare_events.extend(slot.events.drain(..));
        let mut frontier = std::mem::take(&mut slot.frontier);
        self.note_news(list);
        self.finish_frontier(&frontier);
        // All of it is complete.
        frontier.clear();
        self.slots[list.index()].frontier = frontier;
    }

    /// Orders the stream of list `s` after everything on list `q` up to `point`, which an event
    /// must cover: `wait` enqueues a wait for the oldest such event.
    ///
    /// # Errors
    /// What `wait` returns, or that no event covers the point. Then nothing has changed.
    pub(crate) fn wait(
        &mut self,
        s: ListId,
        q: ListId,
        point: Point,
        wait: impl FnOnce(&CudaEvent) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let own = self.slots[q.index()].events.iter().find(|event| event.covers >= point);
        let covering = own.or_else(|| self.context.first_that_covers(q, point));
        let Some(event) = covering else {
            return Err(Error::unsupported(
                "pool",
                "a free that no event covers cannot be waited for",
            ));
        };
        self.counts.waits += 1;
        wait(&event.event)?;
        let mut frontier = std::mem::take(&mut self.slots[s.index()].frontier);
        let own = self.slots[q.index()].events.iter().find(|event| event.covers >= point);
        if let Some(event) = own.or_else(|| self.context.first_that_covers(q, point)) {
            frontier.join(&event.frontier);
        }
        if let Some(event) = own {
            frontier.raise(q, event.covers);
        }
        // What is complete need not be kept.
        let slots = &self.slots;
        frontier
            .retain(|list, point| slots.get(list.index()).is_some_and(|slot| slot.done < point));
        self.slots[s.index()].frontier = frontier;
        Ok(())
    }

    /// Waits on this thread for everything that events cover of what was freed on a list.
    ///
    /// # Errors
    /// What the driver reports.
    pub(crate) fn synchronize(&self, list: ListId) -> Result<(), Error> {
        let own = self.slots[list.index()].events.back();
        let mut events = own.into_iter().chain(self.context.last_that_covers(list));
        events.try_for_each(|event| event.event.synchronize())
    }

    /// Closes the current points of some lists: later frees get later points. Returns the points
    /// closed.
    pub(crate) fn cut(&mut self, lists: impl Iterator<Item = ListId>) -> Vec<(ListId, Point)> {
        lists
            .map(|list| {
                let slot = &mut self.slots[list.index()];
                slot.open += 1;
                (list, slot.open - 1)
            })
            .collect()
    }

    /// Marks all points of a [`cut`](Self::cut) as complete: the host has waited for the whole
    /// device since.
    pub(crate) fn finish_cut(&mut self, cut: &[(ListId, Point)]) {
        for &(list, point) in cut {
            self.finish_up_to(list, point);
            // The stream may be gone meanwhile.
            let Some(slot) = self.slots.get_mut(list.index()) else { continue };
            while slot.events.front().is_some_and(|event| event.covers <= slot.done) {
                self.spare_events.extend(slot.events.pop_front());
            }
        }
    }

    /// Notes that a stream is about to be destroyed. Its list stays until it is empty.
    pub(crate) fn retire(&mut self, list: ListId) {
        self.forget_stream(list);
        let slot = &mut self.slots[list.index()];
        slot.policy = RecordPolicy::Retired;
        self.await_context(list);
    }

    /// Frees the slot of a stream that holds nothing: its list is empty, and no block in a cache or
    /// a batch belongs to it, so its events are needed no more. A stream that comes back gets a new
    /// slot.
    pub(crate) fn recycle(&mut self, list: ListId) {
        let slot = &self.slots[list.index()];
        if slot.pins > 0 || slot.is_spare {
            return;
        }
        self.forget_stream(list);
        let slot = &mut self.slots[list.index()];
        slot.policy = RecordPolicy::Retired;
        slot.is_spare = true;
        slot.frontier.clear();
        self.spare_events.extend(slot.events.drain(..));
        self.spare_slots.push(Reverse(list.0));
    }

    /// Frees host memory that is not needed now. Returns how many slots are left: spare slots
    /// behind them are gone.
    pub(crate) fn shrink(&mut self) -> usize {
        // The first is never spare.
        let is_used = self.slots.iter().rposition(|slot| !slot.is_spare);
        let used = is_used.map_or(0, |last| last + 1);
        for slot in self.slots.drain(used..) {
            self.first_open = self.first_open.max(slot.open);
        }
        self.spare_slots.retain(|&Reverse(number)| (number as usize) < used);
        self.spare_events = Vec::new();
        self.context.shrink(used);
        self.news.retain(|list| list.index() < used);
        self.news.shrink_to(used);
        for slot in &mut self.slots {
            slot.events.shrink_to_fit();
            slot.frontier.shrink();
        }
        self.slots.shrink_to_fit();
        self.spare_slots.shrink_to_fit();
        self.of_stream.shrink_to_fit();
        used
    }

    fn forget_stream(&mut self, list: ListId) {
        if let Some(stream) = self.slots[list.index()].stream.take() {
            self.of_stream.remove(&stream);
        }
        self.last = self.last.filter(|&(_, known)| known != list);
    }
}
