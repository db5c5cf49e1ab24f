//! Mapped memory: uses that may still be running when a mapping ends or an access right is revoked.
//!
//! Races are a property of the physical memory, whichever addresses name it. Whether a mapping may
//! end depends on uses through its own addresses alone: uses through other mappings may go on. So
//! uses are recorded twice, by physical memory and by address.
#![forbid(unsafe_code)]

use std::ops::Range;
use std::sync::Arc;

use rmm_sys::CuMemAccessFlags;

use crate::engine::state::State;
use crate::model::context::Scope;
use crate::model::operation::Operation;
use crate::model::piece::Piece;
use crate::model::trace::LeakKind;
use crate::model::vector_clock::Point;
use crate::model::violation::{Access, Violation, ViolationKind};
use crate::model::virtual_memory::permits;

impl State {
    /// Records the last use of a mapping by each stream. Mappings end as a whole, so it does not
    /// matter which part was used.
    pub(crate) fn record_mapped_use(&mut self, range: &Range<usize>, access: &Arc<Access>) {
        for (start, mapped) in self.virtual_memory.over(range) {
            self.checks.shadow.share(&(start..start + mapped.bytes), access);
        }
    }

    /// Reports an argument that names reserved addresses of which not all are mapped; returns
    /// whether that is the case.
    pub(crate) fn check_bad_mapping(&mut self, access: &Access, range: &Range<usize>) -> bool {
        let Some(reserved) = self.virtual_memory.reservation_of(range.start) else { return false };
        let Some(gap) = self.virtual_memory.first_gap(range) else { return false };
        let freed = self.checks.freed_by(gap).filter(|_| gap < reserved.end);
        let (kind, first) = match freed {
            Some(freed) => (ViolationKind::UseAfterFree, Arc::clone(freed)),
            None => (ViolationKind::OutOfBounds, self.reservation(reserved.start)),
        };
        let violation = Violation::new(kind)
            .with_first(&first)
            .with_second(access)
            .with_detail("nothing is mapped there");
        self.checks.report(violation.with_place(self.located(&(gap..range.end))));
        true
    }

    /// The call that reserved the addresses from `start` on.
    fn reservation(&self, start: usize) -> Arc<Access> {
        let mut access =
            Access::clone(&self.access_after(Operation::Allocate, "cuMemAddressReserve", None));
        let site = self.checks.origins.of((LeakKind::AddressRange, start as u64));
        (access.backtrace, access.python) =
            site.map_or((None, None), |site| (Some(site.backtrace), site.python));
        Arc::new(access)
    }

    /// Starts the history of addresses that were mapped.
    pub(crate) fn check_mapped(&mut self, range: &Range<usize>) {
        self.checks.shadow.clear(range);
    }

    /// Checks the end of a mapping in the reservation `root`. Work that is not known to be complete
    /// may still use it, and would fault.
    pub(crate) fn check_unmapped(&mut self, root: usize, range: &Range<usize>) {
        if !self.checks.is_on() {
            return;
        }
        let access = self.access_after(Operation::Free, "cuMemUnmap", None);
        self.check_registered(range, &access);
        // What an allocator suspends it maps again.
        if !self.checks.suspended.holds(range)
            && let Err(broken) = self.checks.suballocations.end_within(root, range)
        {
            self.report_rule(broken, range, &access);
        }
        // The history stays until the addresses are mapped again: freeing the addresses must be
        // ordered after those uses too.
        self.check_order(ViolationKind::FreedInUse, &Piece::unmapped(range), &access);
        self.checks.remember_free(range.clone(), access);
    }

    /// Checks that addresses are no longer in use when their reservation ends.
    pub(crate) fn check_unreserved(&mut self, range: &Range<usize>) {
        if !self.checks.is_on() {
            return;
        }
        let access = self.access_after(Operation::Free, "cuMemAddressFree", None);
        if let Err(broken) = self.checks.suballocations.end(range.start) {
            self.report_rule(broken, range, &access);
        }
        self.check_order(ViolationKind::FreedInUse, &Piece::unmapped(range), &access);
        self.checks.shadow.clear(range);
        self.checks.remember_free(range.clone(), access);
    }

    /// Checks the release of the last reference to physical memory that is not mapped.
    pub(crate) fn check_released(&mut self, backing: &Range<usize>) {
        if !self.checks.is_on() {
            return;
        }
        let access = self.access_after(Operation::Free, "cuMemRelease", None);
        self.check_order(ViolationKind::FreedInUse, &Piece::unmapped(backing), &access);
    }

    /// Reports the release of a reference that the program does not hold; `was_one` if the handle
    /// was valid once.
    pub(crate) fn check_bad_release(&mut self, was_one: bool) {
        if !self.checks.is_on() {
            return;
        }
        let kind = if was_one { ViolationKind::DoubleFree } else { ViolationKind::UnknownFree };
        let access = self.access_after(Operation::Free, "cuMemRelease", None);
        let violation = Violation::new(kind).with_second(&access);
        let detail = "the program holds no reference to physical memory by this handle";
        self.checks.report(violation.with_detail(detail));
    }

    /// Ends the history of physical memory that went back to its device.
    pub(crate) fn forget_uses(&mut self, backing: &Range<usize>) {
        self.checks.shadow.clear(backing);
    }

    /// Checks a change of a device's access right to a mapping. Work that is not known to be
    /// complete may still need the former right.
    pub(crate) fn check_access_change(
        &mut self,
        range: &Range<usize>,
        device: usize,
        rights: CuMemAccessFlags,
    ) {
        if !self.checks.is_on() {
            return;
        }
        let change = self.access_after(Operation::Free, "cuMemSetAccess", None);
        let mut found = Vec::new();
        for (at, segment) in self.checks.shadow.over(range) {
            for first in segment.before(Operation::Free) {
                if !permits(rights, first.operation)
                    && self.is_by_device(first, device)
                    && let Some(missing) = self.missing_order(first, None)
                {
                    found.push((self.located(&at), Arc::clone(first), missing));
                }
            }
        }
        for (place, first, missing) in found {
            let mut violation = Violation::new(ViolationKind::NoAccess);
            violation.missing = Some(missing);
            violation = violation.with_first(&first).with_second(&change);
            self.checks.report(violation.with_place(place));
        }
    }

    fn is_by_device(&self, access: &Access, device: usize) -> bool {
        let Some(id) = access.stream else { return false };
        if let Some(stream) = self.streams.get(id) {
            return stream.device == device;
        }
        let end = Point { stream: id, position: access.position };
        self.streams.removed(Scope::Device(device)).any(|removed| removed.all.covers(end))
    }
}
