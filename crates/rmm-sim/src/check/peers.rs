//! Memory of one device that kernels of another touch: allowed once access to it was enabled.
//!
//! Only kernels need that: the driver copies between any two devices, and what it does for fills
//! nobody documents.
#![forbid(unsafe_code)]

use rmm_sys::CuMemAccessFlags;

use super::violation::{Violation, ViolationKind};
use crate::memory::{Allocation, Kind, Place};
use crate::operation::Operation;
use crate::pool::Medium;
use crate::state::State;
use crate::stream::Work;
use crate::virtual_memory::permits;

impl State {
    /// What kernels of a device may do with an allocation. Mapped memory has rules of its own, and
    /// memory of the host is everyone's.
    fn peer_access(&self, allocation: &Allocation, device: usize) -> CuMemAccessFlags {
        let granted = match allocation.kind {
            _ if allocation.device == device => true,
            Kind::Device => self.devices[device].peers.contains(&allocation.device),
            Kind::Pool(key, Medium::Device) | Kind::Imported { pool: key, .. } => {
                let pool = self.pools.get(&key);
                let flags = pool.and_then(|pool| pool.access.get(&device).copied());
                return flags.map_or(CuMemAccessFlags::NONE, CuMemAccessFlags);
            }
            Kind::Pool(_, Medium::Managed | Medium::Host)
            | Kind::Managed
            | Kind::Pinned
            | Kind::Registered
            | Kind::Mapped => true,
        };
        if granted { CuMemAccessFlags::READ_WRITE } else { CuMemAccessFlags::NONE }
    }

    /// Whether a kernel of a device may do something to a place, as far as peer access goes;
    /// reports it if not.
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
            Kind::Pool(..) | Kind::Imported { .. } => "cuMemPoolSetAccess",
            _ => "cuCtxEnablePeerAccess",
        };
        let mut violation = Violation::new(ViolationKind::NoAccess).with_detail(format!(
            "{kernel} came to memory of device {home} that device {device} may not {needed} without {missing}; it was left out"
        ));
        violation.place = Some(self.told(&place.range()));
        self.checks.report(violation);
        false
    }

    /// Whether a kernel on this device may do all that it declares, as far as peer access goes.
    pub(super) fn kernel_may_reach(&mut self, work: &Work, device: usize) -> bool {
        let Work::Kernel(body) = work else { return true };
        if self.devices.len() < 2 {
            return true;
        }
        let (name, places) = (body.name, body.places.clone());
        places.iter().all(|(place, operation)| self.may_reach(place, *operation, device, name))
    }
}
