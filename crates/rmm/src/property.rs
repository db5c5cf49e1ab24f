//! Properties: from where memory can be accessed, checked at compile time or, for type-erased
//! resources, at run time; and the kinds of memory.

pub use rmm_core::{
    DeviceAccessible, HasMemoryKind, HasProperty, HasPropertyValue, HostAccessible,
    HostDeviceAccessible, MemoryKind, Property, PropertyId, PropertyWithValue,
};
