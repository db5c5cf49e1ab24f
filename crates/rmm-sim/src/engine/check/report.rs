//! Comparing an access with the earlier ones to the same memory, and reporting violations.
#![forbid(unsafe_code)]

use std::ops::Range;
use std::sync::Arc;

use crate::engine::state::State;
use crate::model::operation::Operation;
use crate::model::piece::Piece;
use crate::model::suballocations::BrokenRule;
use crate::model::vector_clock::Point;
use crate::model::violation::{Access, Violation, ViolationKind};

impl State {
    /// An access by work at a point of a stream.
    pub(crate) fn access_at(
        &self,
        operation: Operation,
        what: &'static str,
        at: Point,
    ) -> Arc<Access> {
        Arc::new(Access {
            operation,
            what,
            stream: Some(at.stream),
            position: at.position,
            also: Vec::new(),
            backtrace: self.checks.backtrace(),
        })
    }

    /// An access after the last work of a stream so far, or on the host.
    pub(crate) fn access_after(
        &self,
        operation: Operation,
        what: &'static str,
        stream: Option<u64>,
    ) -> Arc<Access> {
        let (position, also) = stream.map_or((0, Vec::new()), |id| self.position_after(id));
        let backtrace = self.checks.backtrace();
        Arc::new(Access { operation, what, stream, position, also, backtrace })
    }

    pub(crate) fn located(&self, range: &Range<usize>) -> (String, usize) {
        (self.describe(range.start), range.len())
    }

    /// Reports a rule that `access` broke on a range.
    pub(crate) fn report_rule(
        &mut self,
        (kind, first): BrokenRule,
        range: &Range<usize>,
        access: &Access,
    ) {
        let mut violation = Violation::new(kind).with_second(access);
        violation.first = first.map(|first| (*first).clone());
        violation.place = Some(self.located(range));
        self.checks.report(violation);
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
            let mut violation = Violation::new(kind).with_first(&first).with_second(access);
            let place = self.located(&piece.name_of(&at));
            (violation.place, violation.missing) = (Some(place), Some(missing));
            self.checks.report(violation);
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
        let allocation = self.allocations.containing(start).map(|allocation| allocation.start);
        let reserved = || self.virtual_memory.reservation_of(start).map(|reserved| reserved.start);
        let suballocated = || self.checks.suballocations.root_of(start);
        allocation.or_else(reserved).or_else(suballocated).unwrap_or(start)
    }
}
