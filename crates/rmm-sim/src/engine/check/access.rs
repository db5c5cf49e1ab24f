//! Checking accesses, allocations and frees.
#![forbid(unsafe_code)]

use std::ops::Range;
use std::sync::Arc;

use crate::model::violation::{Access, Violation, ViolationKind};
use rmm_sys::CuResult;

use crate::engine::state::State;
use crate::model::memory::{Allocation, Place, Side};
use crate::model::operation::Operation;
use crate::model::piece::Piece;
use crate::model::vector_clock::Point;
use crate::model::work::Use;

fn range_of(allocation: &Allocation) -> Range<usize> {
    allocation.start..allocation.start + allocation.bytes
}

impl State {
    /// [`place`](Self::place), for work: if the range was freed, that is reported.
    ///
    /// # Errors
    /// As `place`.
    pub(crate) fn usable_place(
        &mut self,
        (what, operation): (&'static str, Operation),
        address: usize,
        bytes: usize,
        side: Side,
    ) -> Result<Place, CuResult> {
        let place = self.place(address, bytes, side);
        place.inspect_err(|_| self.check_bad_range((what, operation), address, bytes))
    }

    /// Checks the accesses of work that was enqueued at a point.
    pub(crate) fn check_work(&mut self, at: Point, what: &'static str, uses: &[Use]) {
        for (place, operation) in uses {
            let range = place.range();
            let root = match place.allocation {
                Some(allocation) => allocation.start,
                // Host memory that no allocator annotates is not checked.
                None => match self.checks.suballocations.root_of(place.address) {
                    Some(root) => root,
                    None => continue,
                },
            };
            let access = self.access_at(*operation, what, at);
            self.check_use(root, &range, &access);
        }
    }

    /// Checks an access to a range of the allocation at `root`, and records it.
    pub(crate) fn check_use(&mut self, root: usize, range: &Range<usize>, access: &Arc<Access>) {
        let is_the_allocators = self.checks.suspended.holds(range);
        if !is_the_allocators
            && let Err(broken) = self.checks.suballocations.check_use(root, range)
            && !self.is_of_silent_allocator(root, range)
        {
            self.report_rule(broken, range, access);
            return;
        }
        for piece in self.pieces(range) {
            self.check_piece(&piece, access, is_the_allocators);
        }
        self.record_mapped_use(range, access);
    }

    /// Whether the range lies in mappings of which no part was ever annotated: an allocator that
    /// annotates nothing, such as a pool for graphs, shares the reservation with one that does.
    fn is_of_silent_allocator(&self, root: usize, range: &Range<usize>) -> bool {
        let has_part = |(start, bytes): (usize, usize)| {
            self.checks.suballocations.has_part(root, &(start..start + bytes))
        };
        let mappings = self.virtual_memory.over(range);
        let mut mappings = mappings.map(|(start, mapped)| (start, mapped.bytes)).peekable();
        mappings.peek().is_some() && !mappings.any(has_part)
    }

    /// Checks an access; `is_the_allocators` if it may read what no one has written.
    fn check_piece(&mut self, piece: &Piece, access: &Arc<Access>, is_the_allocators: bool) {
        let range = &piece.backing;
        self.check_order(ViolationKind::Race, piece, access);
        if access.operation == Operation::Write {
            self.checks.shadow.write(range, Arc::clone(access));
            return;
        }
        // An update reads too, but counters are commonly set to zero by other means.
        if self.checks.settings.initialisation
            && !is_the_allocators
            && access.operation == Operation::Read
        {
            let empty = {
                let mut segments = self.checks.shadow.over(range);
                let empty = segments.find(|(_, segment)| !segment.is_initialised);
                empty.map(|(at, segment)| (at, segment.write.clone()))
            };
            if let Some((at, first)) = empty {
                let at = piece.name_of(&at);
                self.report_rule((ViolationKind::UninitialisedRead, first), &at, access);
            }
        }
        self.checks.shadow.share(range, access);
    }

    /// Records an allocation by the driver: in stream order at a point, or for all streams.
    pub(crate) fn check_allocated(&mut self, start: usize, bytes: usize, at: Option<Point>) {
        if !self.checks.is_on() {
            return;
        }
        let access = match at {
            Some(at) => self.access_at(Operation::Allocate, "the driver", at),
            None => self.access_after(Operation::Allocate, "the driver", None),
        };
        self.checks.shadow.write(&(start..start + bytes), access);
    }

    /// Checks a free by the driver: in stream order at a point, or for all streams.
    pub(crate) fn check_freed(&mut self, allocation: &Allocation, at: Option<Point>) {
        if !self.checks.is_on() {
            return;
        }
        let access = match at {
            Some(at) => self.access_at(Operation::Free, "the driver", at),
            None => self.access_after(Operation::Free, "the driver", None),
        };
        let range = range_of(allocation);
        self.check_registered(&range, &access);
        if let Err(broken) = self.checks.suballocations.end(allocation.start) {
            self.report_rule(broken, &range, &access);
        }
        self.check_order(ViolationKind::FreedInUse, &Piece::unmapped(&range), &access);
        self.checks.shadow.clear(&range);
        self.checks.remember_free(range, access);
    }

    /// Ends a range with its context: no work accesses it any more, and its suballocations end.
    pub(crate) fn check_ended(&mut self, range: &Range<usize>, by: &'static str) {
        if !self.checks.is_on() {
            return;
        }
        let root = self.root_of(range.start);
        let access = self.access_after(Operation::Free, by, None);
        // A suballocation that is still live ends too; a later use of it is reported.
        self.checks.suballocations.end_within(root, range).unwrap_or_default();
        self.checks.shadow.clear(range);
        self.checks.remember_free(range.clone(), access);
    }

    /// Reports an argument that names memory which is freed or was never allocated.
    fn check_bad_range(
        &mut self,
        (what, operation): (&'static str, Operation),
        address: usize,
        bytes: usize,
    ) {
        if !self.checks.is_on() || address == 0 {
            return;
        }
        let end = address.saturating_add(bytes);
        let access = self.refused_access(operation, what);
        if self.check_bad_mapping(&access, &(address..end)) {
            return;
        }
        let (kind, first) = match self.allocations.containing(address) {
            Some(found) if end > found.start + found.bytes => (ViolationKind::OutOfBounds, None),
            Some(_) => return,
            None => match self.checks.freed_by(address) {
                Some(freed) => (ViolationKind::UseAfterFree, Some(Arc::clone(freed))),
                None => return,
            },
        };
        let detail = format!("passed to a {what}");
        let mut violation = Violation::new(kind).with_detail(detail);
        if let Some(first) = first {
            violation = violation.with_first(&first);
        }
        self.checks.report(violation.with_place(self.located(&(address..end))));
    }

    /// Reports a free of an address at which no allocation starts.
    pub(crate) fn check_bad_free(&mut self, what: &'static str, start: usize) {
        if !self.checks.is_on() {
            return;
        }
        let access = self.access_after(Operation::Free, what, None);
        let freed = self.checks.freed_by(start).cloned();
        let kind = match &freed {
            Some(_) if self.allocation_at(start).is_none() => ViolationKind::DoubleFree,
            _ => ViolationKind::UnknownFree,
        };
        let first = freed.filter(|_| kind == ViolationKind::DoubleFree);
        self.report_rule((kind, first), &(start..start), &access);
    }

    /// Checks an access of the host to pinned or managed memory.
    pub(crate) fn check_host_use(&mut self, place: &Place, operation: Operation) {
        if !self.checks.is_on() {
            return;
        }
        let range = place.range();
        let Some(allocation) = place.allocation else { return };
        let access = self.access_after(operation, "the program", None);
        self.check_use(allocation.start, &range, &access);
    }
}
