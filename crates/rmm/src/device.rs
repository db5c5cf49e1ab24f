//! Devices, their capabilities, and their free memory.

pub use rmm_core::{
    Capabilities, Device, DeviceGuard, DevicePtr, MemoryInfo, PrefetchTarget, prefetch,
    process_is_exiting,
};
