//! The current resource of each device.

pub use rmm_core::per_device;
pub use rmm_resources::{
    CurrentResourceGuard, current_device_resource, first_resource_by, per_device_resource,
    reset_current_device_resource, reset_per_device_resource, set_current_device_resource,
    set_per_device_resource, with_current_device_resource,
};
