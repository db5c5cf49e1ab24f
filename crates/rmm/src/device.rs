//! Devices, their capabilities, and their free memory.

pub use rmm_core::{
    Capabilities, Device, DeviceGuard, DevicePtr, MemoryInfo, PrefetchTarget, prefetch,
    process_is_exiting,
};
pub use rmm_resources::grant_access;
