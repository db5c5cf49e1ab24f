//! The holders of the memory that a group's members draw on, for errors.

use std::collections::HashSet;

use super::{Group, Others, Siblings};
use crate::device_usage::DeviceUsage;
use crate::{Device, Error, LimitId, MemoryKind};

impl Group {
    /// Who holds the memory of the current device, which is the group's, beside the resource with
    /// this identity. `None` if it is no device memory, or the driver cannot say.
    fn device_usage(&self, own: Option<LimitId>) -> Option<DeviceUsage> {
        if self.key.1 != MemoryKind::Device {
            return None;
        }
        let memory = Device::memory_info().ok()?;
        // What is over another member holds a part of what that holds.
        let members = self.members();
        let ids: HashSet<LimitId> = members.iter().map(|member| member.id).collect();
        let is_over_none = |draws_on: &[LimitId]| !draws_on.iter().any(|below| ids.contains(below));
        let over_none = members.iter().filter(|member| is_over_none(&member.draws_on));
        let over_none: Vec<_> =
            over_none.filter_map(|it| Some((it.id, it.other.resource.upgrade()?))).collect();
        drop(members);
        let (mut own_bytes, mut pools) = (0, Vec::new());
        for (id, resource) in over_none {
            let usage = resource.usage();
            if Some(id) == own {
                own_bytes = usage.reserved;
            } else {
                pools.push((resource.trim_name(), usage));
            }
        }
        if let Some(of_driver) = &self.driver_pools {
            pools.push((of_driver.trim_name(), of_driver.usage()));
        }
        Some(DeviceUsage::new(memory, own_bytes, pools))
    }

    /// Adds to an error who holds the device's memory, if the device has refused the request. No
    /// lock of a resource may be held.
    pub(super) fn explain(&self, error: Error, own: Option<LimitId>) -> Error {
        let is_full = error.is_out_of_memory() && error.limit_id().is_none();
        match error.device_usage() {
            None if is_full => error.with_device_usage(self.device_usage(own)),
            _ => error,
        }
    }
}

impl Others {
    /// Adds to an error of a resource that is not among them who holds the device's memory, if the
    /// device has refused the request. Its context must be current, and no lock of a resource held.
    pub(super) fn explain(&self, error: Error) -> Error {
        match self.groups.first() {
            Some(group) => group.explain(error, None),
            None => error,
        }
    }
}

impl Siblings {
    /// Adds to an error of this resource who holds the device's memory, if the device has refused
    /// the request. Its context must be current, and no lock of a resource held.
    #[must_use]
    pub fn explain(&self, error: Error) -> Error {
        self.group.explain(error, Some(self.id))
    }
}
