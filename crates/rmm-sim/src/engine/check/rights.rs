//! Access rights: of devices to mapped memory, and of kernels to the memory of other devices.
//!
//! Only kernels need peer access: the driver copies between any two devices, and what it does for
//! fills is not documented.
#![forbid(unsafe_code)]

use rmm_sys::{CuMemAccessFlags, CuResult};

use crate::engine::state::State;
use crate::model::memory::{Allocation, AllocationKind, Place};
use crate::model::operation::Operation;
use crate::model::pool::Medium;
use crate::model::violation::{Violation, ViolationKind};
use crate::model::virtual_memory::permits;
use crate::model::work::Work;

impl State {
    /// Whether `place` is still allocated and the device may do this to it; reports a violation if
    /// not.
    pub(crate) fn is_usable(
        &mut self,
        place: &Place,
        operation: Operation,
        device: usize,
        what: &str,
    ) -> bool {
        let Some(allocation) = place.allocation else { return true };
        let alive = match allocation.kind {
            AllocationKind::Mapped => {
                self.virtual_memory.is_mapped_since(&place.range(), allocation.id)
            }
            AllocationKind::Imported { id, .. } => {
                self.allocations.is_alive(allocation.id) && self.allocations.is_alive(id)
            }
            _ => self.allocations.is_alive(allocation.id),
        };
        if !alive {
            let mut violation = Violation::new(ViolationKind::UseAfterFree).with_detail(format!(
                "{what} accessed memory that was freed; the access was skipped"
            ));
            violation.place = Some((self.describe(place.address), place.bytes));
            if let Some(freed) = self.checks.freed_by(place.address) {
                violation = violation.with_first(freed);
            }
            self.checks.report(violation);
        }
        alive && self.may_access(place, operation, device, what)
    }

    /// Whether a device's access rights to mapped memory permit an operation; reports it if not.
    pub(crate) fn may_access(
        &mut self,
        place: &Place,
        operation: Operation,
        device: usize,
        what: &str,
    ) -> bool {
        if place.allocation.is_none_or(|allocation| allocation.kind != AllocationKind::Mapped) {
            return true;
        }
        let range = place.range();
        let mut mappings = self.virtual_memory.over(&range);
        let closed = mappings.find(|(_, mapped)| !permits(mapped.access_of(device), operation));
        let Some((start, mapped)) = closed else { return true };
        let at = start.max(range.start)..range.end.min(start + mapped.bytes);
        let needed = if operation == Operation::Read { "read" } else { "write" };
        let violation = Violation::new(ViolationKind::NoAccess).with_detail(format!(
            "{what} accessed memory that device {device} may not {needed}; the access was skipped"
        ));
        self.checks.report(violation.with_place(self.located(&at)));
        false
    }

    /// The right of kernels of a device to access an allocation. Mapped memory has its own rules,
    /// and all devices may access host memory.
    fn peer_access(&self, allocation: &Allocation, device: usize) -> CuMemAccessFlags {
        let granted = match allocation.kind {
            _ if allocation.device == device => true,
            AllocationKind::Device => self.devices[device].peers.contains(&allocation.device),
            AllocationKind::Pool(key, Medium::Device)
            | AllocationKind::Imported { pool: key, .. } => {
                let pool = self.pools.get(&key);
                let flags = pool.and_then(|pool| pool.access.get(&device).copied());
                return flags.map_or(CuMemAccessFlags::NONE, CuMemAccessFlags);
            }
            AllocationKind::Pool(_, Medium::Managed | Medium::Host)
            | AllocationKind::Managed
            | AllocationKind::Pinned
            | AllocationKind::Registered
            | AllocationKind::Mapped => true,
        };
        if granted { CuMemAccessFlags::READ_WRITE } else { CuMemAccessFlags::NONE }
    }

    /// Whether peer access permits an operation of a kernel on a device; reports it if not.
    pub(crate) fn may_reach(
        &mut self,
        place: &Place,
        operation: Operation,
        device: usize,
        kernel: &str,
    ) -> bool {
        let Some(allocation) = place.allocation else { return true };
        if permits(self.peer_access(&allocation, device), operation) {
            return true;
        }
        let (home, needed) = (
            allocation.device,
            match operation {
                Operation::Read => "read",
                _ => "write",
            },
        );
        let missing = match allocation.kind {
            AllocationKind::Pool(..) | AllocationKind::Imported { .. } => "cuMemPoolSetAccess",
            _ => "cuCtxEnablePeerAccess",
        };
        let violation = Violation::new(ViolationKind::NoAccess).with_detail(format!(
            "{kernel} accessed memory of device {home} that device {device} may not {needed} without {missing}; the access was skipped"
        ));
        self.checks.report(violation.with_place(self.located(&place.range())));
        false
    }

    /// Whether peer access permits all that a kernel declares.
    fn kernel_may_reach(&mut self, work: &Work, device: usize) -> bool {
        let Work::Kernel(body) = work else { return true };
        if self.devices.len() < 2 {
            return true;
        }
        let (name, places) = (body.name, body.places.clone());
        places.iter().all(|(place, operation)| self.may_reach(place, *operation, device, name))
    }

    /// Checks the access rights of work: to mapped memory and, for a kernel, to memory of other
    /// devices.
    ///
    /// # Errors
    /// `INVALID_VALUE` if not.
    pub(crate) fn check_rights(&mut self, stream: u64, work: &Work) -> Result<(), CuResult> {
        let device = self.streams.get(stream).ok_or(CuResult::INVALID_HANDLE)?.device;
        if !self.kernel_may_reach(work, device) {
            return Err(CuResult::INVALID_VALUE);
        }
        if self.virtual_memory.is_unused() {
            return Ok(());
        }
        let (what, uses) = work.uses();
        for (place, operation) in uses {
            if !self.may_access(&place, operation, device, what) {
                return Err(CuResult::INVALID_VALUE);
            }
        }
        Ok(())
    }
}
