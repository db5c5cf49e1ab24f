//! A macro for resources whose memory is of one kind.

/// Declares a resource's [`MemoryKind`](rmm_core::MemoryKind), in its type and as a property.
///
/// # Safety
/// All memory of the resource must be of that kind: each use of the macro promises it.
macro_rules! known_kind {
    ($resource:ty, $kind:ident) => {
        // SAFETY: each use of the macro promises that all memory of the resource is of this kind.
        unsafe impl rmm_core::HasProperty<rmm_core::MemoryKind> for $resource {}

        impl rmm_core::HasPropertyValue<rmm_core::MemoryKind> for $resource {
            fn property_value(&self) -> rmm_core::MemoryKind {
                <Self as rmm_core::HasMemoryKind>::KIND
            }
        }

        // SAFETY: each use of the macro promises that all memory of the resource is of this kind.
        unsafe impl rmm_core::HasMemoryKind for $resource {
            const KIND: rmm_core::MemoryKind = rmm_core::MemoryKind::$kind;
        }
    };
}
pub(crate) use known_kind;
