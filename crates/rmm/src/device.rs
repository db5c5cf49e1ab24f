//! Devices: which there are, what they can do, and how much memory is free.

pub use rmm_core::{
    Capabilities, Device, DeviceGuard, DevicePtr, MemoryInfo, PrefetchTarget, prefetch,
    process_is_exiting,
};
