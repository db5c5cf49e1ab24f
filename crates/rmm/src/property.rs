//! Properties: from where memory can be accessed, checked at compile time or, for type-erased
//! resources, at run time.

pub use rmm_core::{
    DeviceAccessible, HasProperty, HasPropertyValue, HostAccessible, HostDeviceAccessible,
    Property, PropertyId, PropertyWithValue,
};
