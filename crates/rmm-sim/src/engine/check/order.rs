//! The happens-before order: comparing points with the vector clocks of streams and of the host.
#![forbid(unsafe_code)]

use crate::engine::state::State;
use crate::model::context::Scope;
use crate::model::streams::{Stream, StreamKind};
use crate::model::vector_clock::{Point, VectorClock};
use crate::model::violation::{Access, MissingOrder};

impl State {
    /// Whether the next work of a stream will happen after a point.
    pub(crate) fn is_ordered_after(&self, id: u64, point: Point) -> bool {
        if point.position == 0 || point.stream == id || self.checks.host.covers(point) {
            return true;
        }
        let Some(stream) = self.streams.get(id) else { return false };
        let removed = self.streams.removed_before(id);
        if stream.frontier.covers(point) || removed.is_some_and(|removed| removed.covers(point)) {
            return true;
        }
        let mut implicit = self.streams.implicitly_before(id);
        implicit.any(|(other, stream)| {
            other == point.stream && stream.submitted >= point.position
                || stream.frontier.covers(point)
        })
    }

    /// The position of an allocation or free on a stream, which is no work of its own: after the
    /// last work so far and, by the rules of the legacy default stream, after what the next work
    /// would wait for implicitly.
    pub(crate) fn position_after(&self, id: u64) -> (u64, Vec<Point>) {
        let also = self.streams.implicitly_before(id);
        let also = also.map(|(id, stream)| Point { stream: id, position: stream.submitted });
        let removed = self.streams.removed_before(id).into_iter().flat_map(VectorClock::iter);
        let also = also.chain(removed).filter(|point| point.position > 0);
        (self.streams.end_of(id).position, also.collect())
    }

    /// The edge that is missing for `first` to happen before the next work of a stream, or of the
    /// host (`None`).
    pub(crate) fn missing_order(
        &self,
        first: &Access,
        waiter: Option<u64>,
    ) -> Option<MissingOrder> {
        let is_ordered = |point: Point| match waiter {
            Some(id) => self.is_ordered_after(id, point),
            None => point.position == 0 || self.checks.host.covers(point),
        };
        let Point { stream, position } = first.points().find(|&point| !is_ordered(point))?;
        let frontier = waiter.and_then(|id| self.streams.get(id)).map(|stream| &stream.frontier);
        let reached = frontier.map_or(0, |frontier| frontier.position_in(stream));
        let reached = reached.max(self.checks.host.position_in(stream));
        // A stream that was destroyed has no name any more, but the access still has it.
        let of_access = || first.stream_name.clone().filter(|_| first.stream == Some(stream));
        let stream_name = self.streams.name(stream).or_else(of_access);
        let waiter_name = waiter.and_then(|id| self.streams.name(id));
        Some(MissingOrder { stream, stream_name, position, waiter, waiter_name, reached })
    }

    /// The vector clock of the end of a stream: its work so far, and all that happens before it.
    /// The host joins this clock by waiting for the stream.
    pub(crate) fn clock_of(&self, id: u64) -> VectorClock {
        let mut known = VectorClock::default();
        if !self.checks.is_on() {
            return known;
        }
        known.add(self.streams.end_of(id));
        if let Some(stream) = self.streams.get(id) {
            known.join(&stream.frontier);
            if stream.kind == StreamKind::Legacy {
                for (other, stream) in self.streams.implicitly_before(id) {
                    known.add(Point { stream: other, position: stream.submitted });
                    known.join(&stream.frontier);
                }
                self.streams.removed_before(id).into_iter().for_each(|removed| known.join(removed));
            }
        }
        known
    }

    /// The vector clock of the end of all streams of a scope, also destroyed ones.
    pub(crate) fn clock_of_scope(&mut self, scope: Scope) -> VectorClock {
        let mut known = VectorClock::default();
        if !self.checks.is_on() {
            return known;
        }
        for (id, stream) in self.streams.iter().filter(|(_, stream)| stream.is_in(scope)) {
            known.add(Point { stream: id, position: stream.submitted });
            known.join(&stream.frontier);
        }
        for removed in self.streams.removed(scope) {
            known.join(&removed.all);
        }
        known
    }

    /// The vector clock of a scope whose queued work is abandoned. What streams of other scopes do
    /// goes on, also if that work would have waited for it.
    pub(crate) fn clock_of_abandoned(&mut self, scope: Scope) -> VectorClock {
        let mut known = self.clock_of_scope(scope);
        let goes_on = |id| self.streams.get(id).is_some_and(|stream: &Stream| !stream.is_in(scope));
        known.retain(|point| !goes_on(point.stream));
        known
    }

    /// Joins a clock into the host's: the host has seen it complete.
    pub(crate) fn join_host_clock(&mut self, points: &VectorClock) {
        if self.checks.is_on() {
            self.checks.host.join(points);
        }
    }

    /// Joins the clock of a scope into the host's, which has waited for it; `known` is the clock
    /// when the wait began.
    pub(crate) fn join_host_clock_of(&mut self, scope: Scope, known: &VectorClock) {
        self.join_host_clock(known);
        self.streams.forget_removed(scope, known);
    }

    /// Whether a frontier must keep a point: its stream exists, or the host has not seen it
    /// complete. That the work of a destroyed stream has run does not order it before anything.
    pub(crate) fn is_relevant(&self, point: Point) -> bool {
        self.streams.get(point.stream).is_some()
            || self.checks.is_on() && !self.checks.host.covers(point)
    }
}
