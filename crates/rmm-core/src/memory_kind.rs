//! What kind of memory it is, and what follows from that.

use bitflags::bitflags;

use crate::{Property, PropertyWithValue};

bitflags! {
    /// What memory can do: the bits of the CUDA `<memory_resource>` proposal, which also names them
    /// so.
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
        /// Other devices than the one that it was allocated for may read and write it.
        const CROSS_DEVICE_ACCESSIBLE = 0x04;
        /// There may be more of it than the system has memory.
        const OVERSUBSCRIBABLE = 0x08;
        /// It never moves.
        const RESIDENT = 0x10;
        /// It may lie in the host's memory.
        const HAS_HOST_STORAGE = 0x20;
        /// It may lie in a device's memory.
        const HAS_DEVICE_STORAGE = 0x40;
    }
}

/// A kind of memory.
///
/// It is also the property by which a resource that knows its kind tells of it, whatever its type:
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
    /// The device's own (`cudaMalloc`).
    Device,
    /// Moves between host and device by itself (`cudaMallocManaged`).
    #[doc(alias = "unified")]
    Managed,
    /// The host's, locked, which the device may use (`cudaMallocHost`).
    Pinned,
    /// The host's.
    Host,
}

impl MemoryKind {
    /// What memory of this kind can do.
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

/// A resource whose memory is of one kind, which its type says.
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
/// All memory that the type hands out is of this kind.
#[doc(alias = "cuda::memory_resource_traits")]
#[diagnostic::on_unimplemented(
    message = "the type `{Self}` does not say what kind of memory it hands out",
    note = "a resource says so by implementing `HasMemoryKind`"
)]
pub unsafe trait HasMemoryKind {
    /// The kind.
    const KIND: MemoryKind;

    /// What the memory can do.
    const CAPS: MemoryCaps = Self::KIND.caps();
}

/// Forwards the kind through pointers to a resource.
macro_rules! forward {
    ($($pointer:ty),*) => {$(
        // SAFETY: it is the same resource, and so the same memory.
        unsafe impl<R: HasMemoryKind + ?Sized> HasMemoryKind for $pointer {
            const KIND: MemoryKind = R::KIND;
            const CAPS: MemoryCaps = R::CAPS;
        }
    )*};
}

forward!(&R, Box<R>, std::sync::Arc<R>);

// The numbers are the proposal's.
const _: () = {
    assert!(MemoryKind::Host.caps().bits() == 0x29);
    assert!(MemoryKind::Pinned.caps().bits() == 0x33);
    assert!(MemoryKind::Device.caps().bits() == 0x52);
    assert!(MemoryKind::Managed.caps().bits() == 0x6b);
    assert!(MemoryCaps::all().bits() == 0x7f);
};
