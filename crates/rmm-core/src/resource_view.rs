//! The resource view of the CUDA `<memory_resource>` proposal.

use std::alloc::Layout;
use std::fmt;

use crate::{
    DevicePtr, Error, HasMemoryKind, Introspect, MemoryCaps, MemoryKind, Query, Structure,
    SyncResource,
};

/// A borrowed resource whose memory has the capabilities `CAPS`, which are bits of [`MemoryCaps`]:
/// the view of the CUDA `<memory_resource>` proposal.
///
/// Unlike the property set of [`SyncResourceRef`](crate::SyncResourceRef), `CAPS` is a number, so
/// that libraries can compute with it. A view converts to one with fewer capabilities, checked at
/// compile time:
///
/// ```
/// use rmm_core::{MemoryCaps, ResourceView};
/// use rmm_resources::CudaMemoryResource;
///
/// const DEVICE: u32 = MemoryCaps::DEVICE_ACCESSIBLE.bits();
/// const FIXED: u32 = DEVICE | MemoryCaps::RESIDENT.bits();
///
/// let resource = CudaMemoryResource::new();
/// let fixed = ResourceView::<FIXED>::new(&resource);
/// let device: ResourceView<'_, DEVICE> = fixed.narrow();
/// assert_eq!(device.caps(), MemoryCaps::DEVICE_ACCESSIBLE);
/// ```
///
/// The opposite does not compile, nor does a view with a capability that the resource's memory
/// lacks:
///
/// ```compile_fail,E0080
/// # use rmm_core::{MemoryCaps, ResourceView};
/// # use rmm_resources::CudaMemoryResource;
/// let resource = CudaMemoryResource::new();
/// let view = ResourceView::<{ MemoryCaps::HOST_ACCESSIBLE.bits() }>::new(&resource);
/// ```
#[doc(alias = "cuda::resource_view")]
#[derive(Clone, Copy)]
pub struct ResourceView<'a, const CAPS: u32> {
    /// # Invariant
    /// Its memory has the capabilities `CAPS`.
    resource: &'a dyn SyncResource,
}

impl<'a, const CAPS: u32> ResourceView<'a, CAPS> {
    /// Views a resource. A capability that its kind of memory lacks is refused at compile time.
    pub fn new<R: SyncResource + HasMemoryKind>(resource: &'a R) -> Self {
        const {
            assert!(
                R::CAPS.bits() & CAPS == CAPS,
                "the resource's kind of memory lacks a capability of the view"
            );
        }
        Self { resource }
    }

    /// Views a resource whose type does not determine its capabilities, if it has `CAPS` at run
    /// time: by its [kind](MemoryKind), or, if it has none, by its
    /// [accessibility](Introspect::accessibility).
    ///
    /// ```
    /// use rmm_core::{AnyResource, MemoryCaps, ResourceView};
    /// use rmm_resources::CudaMemoryResource;
    ///
    /// let resource: AnyResource = AnyResource::new(CudaMemoryResource::new());
    /// assert!(ResourceView::<{ MemoryCaps::RESIDENT.bits() }>::try_new(&resource).is_some());
    /// const HOST: u32 = MemoryCaps::HOST_ACCESSIBLE.bits();
    /// assert!(ResourceView::<HOST>::try_new(&resource).is_none());
    /// ```
    pub fn try_new(resource: &'a dyn SyncResource) -> Option<Self> {
        let kind = resource.try_property::<MemoryKind>();
        let caps = kind.map_or_else(|| resource.accessibility(), MemoryKind::caps);
        (caps.bits() & CAPS == CAPS).then_some(Self { resource })
    }

    /// A view with fewer capabilities. More are refused at compile time:
    ///
    /// ```compile_fail,E0080
    /// # use rmm_core::{MemoryCaps, ResourceView};
    /// # use rmm_resources::CudaMemoryResource;
    /// const DEVICE: u32 = MemoryCaps::DEVICE_ACCESSIBLE.bits();
    /// # let resource = CudaMemoryResource::new();
    /// let view = ResourceView::<DEVICE>::new(&resource);
    /// let more = view.narrow::<{ DEVICE | MemoryCaps::HOST_ACCESSIBLE.bits() }>();
    /// ```
    #[must_use]
    pub fn narrow<const LESS: u32>(self) -> ResourceView<'a, LESS> {
        const {
            assert!(LESS & CAPS == LESS, "a view cannot promise more than the one it is made from");
        }
        ResourceView { resource: self.resource }
    }

    /// The capabilities.
    pub const fn caps(self) -> MemoryCaps {
        MemoryCaps::from_bits_retain(CAPS)
    }
}

impl<const CAPS: u32> fmt::Debug for ResourceView<'_, CAPS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ResourceView").field(&self.caps()).field(&self.resource).finish()
    }
}

// SAFETY: every call goes to the one resource behind the reference, which keeps the contract.
unsafe impl<const CAPS: u32> SyncResource for ResourceView<'_, CAPS> {
    fn do_allocate_sync(&self, layout: Layout) -> Result<DevicePtr, Error> {
        self.resource.do_allocate_sync(layout)
    }

    unsafe fn do_deallocate_sync(&self, pointer: DevicePtr, layout: Layout) {
        // SAFETY: the caller's contract is the same.
        unsafe { self.resource.do_deallocate_sync(pointer, layout) }
    }

    fn name(&self) -> &'static str {
        self.resource.name()
    }

    fn structure(&self) -> Structure<'_>
    where
        Self: 'static,
    {
        Structure::pointer_to(self.resource)
    }

    fn provide<'a>(&'a self, query: &mut Query<'a>) {
        self.resource.provide(query);
    }
}
