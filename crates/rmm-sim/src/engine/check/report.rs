//! Comparing an access with the earlier ones to the same memory, and reporting violations.
#![forbid(unsafe_code)]

use std::ops::Range;
use std::sync::Arc;

use crate::engine::state::State;
use crate::model::operation::Operation;
use crate::model::piece::Piece;
use crate::model::suballocations::BrokenRule;
use crate::model::vector_clock::Point;
use crate::model::violation::{Access, Located, Violation, ViolationKind};

impl State {
    /// An access by work at a point of a stream.
    pub(crate) fn access_at(
        &self,
        operation: Operation,
        what: &'static str,
        at: Point,
    ) -> Arc<Access> {
        Arc::new(self.access(operation, what, Some(at.stream), (at.position, Vec::new())))
    }

    /// An access after the last work of a stream so far, or on the host.
    pub(crate) fn access_after(
        &self,
        operation: Operation,
        what: &'static str,
        stream: Option<u64>,
    ) -> Arc<Access> {
        let position = stream.map_or((0, Vec::new()), |id| self.position_after(id));
        Arc::new(self.access(operation, what, stream, position))
    }

    /// An access that a call which is refused names in its arguments.
    pub(crate) fn refused_access(&self, operation: Operation, what: &'static str) -> Access {
        Access { is_refused: true, ..self.access(operation, what, None, (0, Vec::new())) }
    }

    fn access(
        &self,
        operation: Operation,
        what: &'static str,
        stream: Option<u64>,
        (position, also): (u64, Vec<Point>),
    ) -> Access {
        let (backtrace, python) =
            self.checks.call_site().map(|site| (site.backtrace, site.python)).unzip();
        Access {
            operation,
            what,
            stream,
            stream_name: stream.and_then(|id| self.streams.name(id)),
            position,
            also,
            is_refused: false,
            memory_name: None,
            backtrace,
            python: python.flatten(),
        }
    }

    pub(crate) fn located(&self, range: &Range<usize>) -> Located {
        let name = self.checks.memory_names.at(range.start).cloned();
        (self.describe(range.start), range.len(), name)
    }

    /// Reports a rule that `access` broke on a range.
    pub(crate) fn report_rule(
        &mut self,
        (kind, first): BrokenRule,
        range: &Range<usize>,
        access: &Access,
    ) {
        let mut violation = Violation::new(kind).with_second(access);
        if let Some(first) = first {
            violation = violation.with_first(&first);
        }
        self.checks.report(violation.with_place(self.located(range)));
    }

    /// Reports the end of memory that a library has registered.
    pub(crate) fn check_registered(&mut self, range: &Range<usize>, access: &Access) {
        let Some(registered) = self.checks.registrations.over(range) else { return };
        let (place, bytes, _) = self.located(&registered);
        let detail = format!("a library has registered {bytes} bytes at {place}");
        let violation = Violation::new(ViolationKind::FreedWhileRegistered).with_second(access);
        self.checks.report(violation.with_place(self.located(range)).with_detail(detail));
    }

    /// Reports every earlier access to a piece of memory that conflicts with `access` and does not
    /// happen before it.
    pub(crate) fn check_order(&mut self, kind: ViolationKind, piece: &Piece, access: &Access) {
        let mut found = Vec::new();
        for (at, segment) in self.checks.shadow.over(&piece.backing) {
            for first in segment.before(access.operation) {
                if let Some(missing) = self.missing_order(first, access.stream) {
                    found.push((at.clone(), Arc::clone(first), missing));
                }
            }
        }
        for (at, first, missing) in found {
            let kind = match (kind, first.operation) {
                // The free and the use are not ordered either way.
                (ViolationKind::Race, Operation::Free) => ViolationKind::UseAfterFree,
                (ViolationKind::Race, Operation::Allocate) => ViolationKind::UseBeforeAllocation,
                (kind, _) => kind,
            };
            let place = self.located(&piece.name_of(&at));
            let mut violation = Violation::new(kind).with_first(&first).with_second(access);
            violation.missing = Some(missing);
            self.checks.report(violation.with_place(place));
        }
    }

    /// The pieces of memory at a range of addresses.
    pub(crate) fn pieces(&self, range: &Range<usize>) -> Vec<Piece> {
        if !self.virtual_memory.holds(range.start) {
            return vec![Piece::unmapped(range)];
        }
        match self.allocations.containing(range.start) {
            Some(imported) => vec![imported.piece(range)],
            None => self.virtual_memory.pieces(range).collect(),
        }
    }

    /// The start of the allocation, reservation or suballocated range that contains an address; for
    /// other host memory, the address itself.
    pub(crate) fn root_of(&self, start: usize) -> usize {
        self.known_root_of(start).unwrap_or(start)
    }

    /// The start of the allocation, reservation or suballocated range that contains an address;
    /// `None` for other host memory.
    pub(crate) fn known_root_of(&self, start: usize) -> Option<usize> {
        let allocation = self.allocations.containing(start).map(|allocation| allocation.start);
        let reserved = || self.virtual_memory.reservation_of(start).map(|reserved| reserved.start);
        allocation.or_else(reserved).or_else(|| self.checks.suballocations.root_of(start))
    }
}
