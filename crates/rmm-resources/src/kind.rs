//! Resources whose memory is of one kind.

/// Has a resource tell its [`MemoryKind`](rmm_core::MemoryKind), in its type and when it is asked.
///
/// It is for resources all of whose memory is of that kind: its user vouches for that.
macro_rules! known_kind {
    ($resource:ty, $kind:ident) => {
        // SAFETY: all its memory is of this kind, as the place that uses this macro says.
        unsafe impl rmm_core::HasProperty<rmm_core::MemoryKind> for $resource {}

        impl rmm_core::HasPropertyValue<rmm_core::MemoryKind> for $resource {
            fn property_value(&self) -> rmm_core::MemoryKind {
                <Self as rmm_core::HasMemoryKind>::KIND
            }
        }

        // SAFETY: as above.
        unsafe impl rmm_core::HasMemoryKind for $resource {
            const KIND: rmm_core::MemoryKind = rmm_core::MemoryKind::$kind;
        }
    };
}
pub(crate) use known_kind;
