//! Kinds of memory and their capabilities, as in the CUDA `<memory_resource>` proposal.

use bitflags::bitflags;

use crate::{Property, PropertyWithValue};

bitflags! {
    /// Capabilities of memory, with the names and bits of the CUDA `<memory_resource>` proposal.
    ///
    /// ```
    /// use rmm_core::{MemoryCaps, MemoryKind};
    ///
    /// let pinned = MemoryKind::Pinned.caps();
    /// assert!(pinned.contains(MemoryCaps::HOST_ACCESSIBLE | MemoryCaps::DEVICE_ACCESSIBLE));
    /// assert!(!pinned.contains(MemoryCaps::HAS_DEVICE_STORAGE));
    /// ```
    #[doc(alias = "cuda::memory_caps")]
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
    pub struct MemoryCaps: u32 {
        /// The host may read and write it.
        const HOST_ACCESSIBLE = 0x01;
        /// A device may read and write it.
        const DEVICE_ACCESSIBLE = 0x02;
        /// Devices other than the one that it was allocated for may read and write it.
        const CROSS_DEVICE_ACCESSIBLE = 0x04;
        /// It may be oversubscribed.
        const OVERSUBSCRIBABLE = 0x08;
        /// It is resident: it is never paged out or migrated.
        const RESIDENT = 0x10;
        /// It may lie in the host's memory.
        const HAS_HOST_STORAGE = 0x20;
        /// It may lie in a device's memory.
        const HAS_DEVICE_STORAGE = 0x40;
    }
}

/// A kind of memory.
///
/// It is also a property, so that its value survives type erasure:
///
/// ```
/// use rmm_core::{AnyResource, Introspect, MemoryCaps, MemoryKind};
/// use rmm_resources::CudaMemoryResource;
///
/// let resource: AnyResource = AnyResource::new(CudaMemoryResource::new());
/// let kind = resource.try_property::<MemoryKind>().expect("it knows");
/// assert_eq!(kind, MemoryKind::Device);
/// assert!(!kind.caps().contains(MemoryCaps::HOST_ACCESSIBLE));
/// ```
#[doc(alias = "cuda::memory_kind")]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum MemoryKind {
    /// Device memory (`cudaMalloc`).
    Device,
    /// Managed memory, which migrates between host and device (`cudaMallocManaged`).
    #[doc(alias = "unified")]
    Managed,
    /// Pinned host memory (`cudaMallocHost`).
    Pinned,
    /// Pageable host memory.
    Host,
}

impl MemoryKind {
    /// The capabilities of this kind of memory.
    #[doc(alias = "cuda::memory_kind_caps")]
    pub const fn caps(self) -> MemoryCaps {
        let caps = match self {
            Self::Host => &[
                MemoryCaps::HOST_ACCESSIBLE,
                MemoryCaps::OVERSUBSCRIBABLE,
                MemoryCaps::HAS_HOST_STORAGE,
            ] as &[MemoryCaps],
            Self::Pinned => &[
                MemoryCaps::HOST_ACCESSIBLE,
                MemoryCaps::DEVICE_ACCESSIBLE,
                MemoryCaps::RESIDENT,
                MemoryCaps::HAS_HOST_STORAGE,
            ],
            Self::Device => &[
                MemoryCaps::DEVICE_ACCESSIBLE,
                MemoryCaps::RESIDENT,
                MemoryCaps::HAS_DEVICE_STORAGE,
            ],
            Self::Managed => &[
                MemoryCaps::HOST_ACCESSIBLE,
                MemoryCaps::DEVICE_ACCESSIBLE,
                MemoryCaps::OVERSUBSCRIBABLE,
                MemoryCaps::HAS_HOST_STORAGE,
                MemoryCaps::HAS_DEVICE_STORAGE,
            ],
        };
        let mut all = MemoryCaps::empty();
        let mut next = 0;
        while next < caps.len() {
            all = all.union(caps[next]);
            next += 1;
        }
        all
    }
}

impl Property for MemoryKind {
    const NAME: &'static str = "memory-kind";
}

impl PropertyWithValue for MemoryKind {
    type Value = Self;
}

/// A resource whose type determines the kind of its memory.
///
/// ```
/// use rmm_core::{HasMemoryKind, MemoryCaps, MemoryKind};
/// use rmm_resources::CudaMemoryResource;
///
/// const CAPS: MemoryCaps = <CudaMemoryResource as HasMemoryKind>::CAPS;
/// assert_eq!(CudaMemoryResource::KIND, MemoryKind::Device);
/// assert!(CAPS.contains(MemoryCaps::RESIDENT));
/// ```
///
/// # Safety
/// All memory that the type allocates is of this kind.
#[doc(alias = "cuda::memory_resource_traits")]
#[diagnostic::on_unimplemented(
    message = "the kind of the memory that `{Self}` allocates is not known at compile time",
    note = "a resource declares it by implementing `HasMemoryKind`"
)]
pub unsafe trait HasMemoryKind {
    /// The kind.
    const KIND: MemoryKind;

    /// The capabilities of the memory: those of its kind, not for overriding.
    const CAPS: MemoryCaps = Self::KIND.caps();
}

/// Declares for a type what is known at compile time of the memory of `$inner`, an expression of
/// the value `$this` and of type `$of`: its properties, their values, and its kind. Each use
/// promises that the memory is the same.
#[doc(hidden)]
#[macro_export]
macro_rules! __properties_of {
    ([$of:ident: $($bound:tt)+] $type:ty, |$this:ident| $inner:expr) => {
        // SAFETY: each use promises that the memory is the same.
        unsafe impl<__P: $crate::Property, $of: $crate::HasProperty<__P> + $($bound)+>
            $crate::HasProperty<__P> for $type
        {
        }

        impl<__P, $of> $crate::HasPropertyValue<__P> for $type
        where
            __P: $crate::PropertyWithValue,
            $of: $crate::HasPropertyValue<__P> + $($bound)+,
        {
            fn property_value(&self) -> __P::Value {
                let $this = self;
                $crate::HasPropertyValue::<__P>::property_value($inner)
            }
        }

        // SAFETY: each use promises that the memory is the same.
        unsafe impl<$of: $crate::HasMemoryKind + $($bound)+> $crate::HasMemoryKind for $type {
            const KIND: $crate::MemoryKind = $of::KIND;
        }
    };
}

// A pointer to a resource is the resource.
__properties_of!([R: ?Sized] &R, |this| &**this);
__properties_of!([R: ?Sized] Box<R>, |this| &**this);
__properties_of!([R: ?Sized] std::sync::Arc<R>, |this| &**this);

// The numbers are the proposal's.
const _: () = {
    assert!(MemoryKind::Host.caps().bits() == 0x29);
    assert!(MemoryKind::Pinned.caps().bits() == 0x33);
    assert!(MemoryKind::Device.caps().bits() == 0x52);
    assert!(MemoryKind::Managed.caps().bits() == 0x6b);
    assert!(MemoryCaps::all().bits() == 0x7f);
};
