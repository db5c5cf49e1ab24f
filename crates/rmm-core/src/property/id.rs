//! Properties as values.

use std::any::TypeId;
use std::fmt;

use super::Property;

/// A property as a value. Displays as the property's name.
///
/// ```
/// use rmm_core::{DeviceAccessible, Introspect, PropertyId};
/// use rmm_resources::CudaMemoryResource;
///
/// let properties = CudaMemoryResource::new().property_list();
/// assert!(properties.contains(&PropertyId::of::<DeviceAccessible>()));
/// assert_eq!(properties[0].to_string(), "device-accessible");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct PropertyId {
    id: TypeId,
    name: &'static str,
}

impl PropertyId {
    /// The property `P`.
    pub fn of<P: Property>() -> Self {
        Self { id: TypeId::of::<P>(), name: P::NAME }
    }

    /// The property's name.
    pub fn name(self) -> &'static str {
        self.name
    }
}

impl PartialEq for PropertyId {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for PropertyId {}

impl fmt::Display for PropertyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
