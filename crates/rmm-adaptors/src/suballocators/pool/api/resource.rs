//! The pool as a resource.

use std::alloc::Layout;

use rmm_core::siblings::MayBeWaitedFor;
use rmm_core::{
    AnyResource, AnySynchronousResource, Contains, DevicePtr, Effort, Error, HasProperty, Property,
    PropertySet, Query, Resource, StreamRef, Structure, SynchronousResource,
};
#[cfg(unix)]
use rmm_core::{HasPropertyValue, Introspect as _};
#[cfg(unix)]
use rmm_resources::Export;

use super::pool::PoolMemoryResource;
use super::source::PoolSource;
use crate::shared::with_properties::{WithProperties, provide_views};

// SAFETY: the heap's blocks tile the memory from upstream, each is allocated to one owner until it
// is freed, and only idle blocks, which no work uses, are allocated here. The address is rounded up
// to the alignment inside a block with room for it.
unsafe impl<S: PropertySet> SynchronousResource for PoolMemoryResource<S> {
    fn do_allocate_sync(&self, layout: Layout) -> Result<DevicePtr, Error> {
        self.inner.allocate(None, layout)
    }

    unsafe fn do_deallocate_sync(&self, pointer: DevicePtr, layout: Layout) {
        self.inner.core.deallocate(None, pointer, layout);
        self.inner.core.release_if_due(&self.inner.upstream);
    }

    fn name(&self) -> &'static str {
        self.inner.core.name
    }

    fn structure(&self) -> Structure<'_>
    where
        Self: 'static,
    {
        Structure::over(&self.inner.upstream).with_trimmable(&*self.inner)
    }

    fn to_any_sync(&self) -> Option<AnySynchronousResource<()>>
    where
        Self: 'static,
    {
        Some(AnySynchronousResource::of(self))
    }

    fn provide<'a>(&'a self, query: &mut Query<'a>) {
        provide_views(self, query);
        self.provide_state(query);
    }
}

impl<S: PropertySet> PoolMemoryResource<S> {
    /// Allocates with limited [effort](Effort): a request that no free block serves is refused
    /// before the steps that the effort leaves out. A scope of [`effort`](rmm_core::effort()) does
    /// so for all requests of a thread, of every resource.
    ///
    /// ```
    /// use rmm_adaptors::PoolMemoryResource;
    /// use rmm_core::{CudaStream, Effort};
    /// use rmm_resources::CudaMemoryResource;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let _machine = rmm_sim::enter();
    /// let pool = PoolMemoryResource::builder(CudaMemoryResource::new()).build()?;
    /// let (stream, layout) = (CudaStream::new()?, std::alloc::Layout::new::<[u8; 4096]>());
    /// let error = pool.allocate_with(&stream, layout, Effort::NoGrowth).unwrap_err();
    /// assert!(error.to_string().contains("limited effort"), "the pool holds nothing yet");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The errors of [`Resource::allocate`]; out of memory also where a greater effort would serve
    /// the request, which the error's [remedies](Error::remedies) say.
    pub fn allocate_with<'s>(
        &self,
        stream: impl Into<StreamRef<'s>>,
        layout: Layout,
        effort: Effort,
    ) -> Result<DevicePtr, Error> {
        let _scope = rmm_core::effort(effort);
        self.allocate(stream, layout)
    }
}

impl<S: PropertySet> PoolMemoryResource<S> {
    /// What a suballocator that is built on the pool provides as its own.
    pub(crate) fn provide_state<'a>(&'a self, query: &mut Query<'a>) {
        #[cfg(unix)]
        if self.inner.core.growth.extends
            && let Some(export) = self.inner.upstream.try_property::<Export>()
        {
            // The first answer counts.
            let spanning = Spanning(export.of_several_handles());
            query.properties(&spanning).has_value::<Export>();
        }
        query.properties_from(self.upstream());
        query.describe(|description| {
            self.statistics().describe(self.maximum_size(), description);
            let registered = self.inner.core.segments.registered_bytes();
            if registered > 0 {
                description.bytes("registered", registered);
            }
            if self.inner.core.growth.is_pinned {
                description.bytes("pinned", self.reserved_bytes());
            }
        });
        // Whose default streams it serves, and what has refused if the pool is full.
        query
            .value(|| self.context())
            .value(|| self.limit_id())
            .value(|| MayBeWaitedFor)
            .value(|| self.statistics())
            .value(|| self.blocks())
            .value(|| PoolSource::of(self));
    }
}

// SAFETY: the heap's blocks tile the memory from upstream, and each is allocated to one owner until
// it is freed. A block that was freed on one stream goes to another only as `Timeline::visible_to`
// allows: when the work before the free is known to be complete, or the other stream is ordered
// after it.
unsafe impl<S: PropertySet> Resource for PoolMemoryResource<S> {
    fn do_allocate(&self, stream: StreamRef<'_>, layout: Layout) -> Result<DevicePtr, Error> {
        self.inner.allocate(Some(stream), layout)
    }

    unsafe fn do_deallocate(&self, stream: StreamRef<'_>, pointer: DevicePtr, layout: Layout) {
        self.inner.core.deallocate(Some(stream), pointer, layout);
        self.inner.core.release_if_due(&self.inner.upstream);
    }

    fn to_any(&self) -> Option<AnyResource<()>>
    where
        Self: 'static,
    {
        Some(AnyResource::of(self))
    }
}

// SAFETY: the invariant of `inner`.
unsafe impl<S: Contains<P>, P: Property> HasProperty<P> for PoolMemoryResource<S> {}

// SAFETY: the type is transparent over `inner`, whose type does not depend on the set; the marker
// of the set is of size zero. Only the invariant of `inner` depends on the set.
unsafe impl<S: PropertySet> WithProperties for PoolMemoryResource<S> {
    type With<T: PropertySet> = PoolMemoryResource<T>;
}

/// How memory can be exported of which blocks span several handles.
#[cfg(unix)]
struct Spanning(Export);

// SAFETY: it is said of the memory of a pool whose upstream has the property.
#[cfg(unix)]
unsafe impl HasProperty<Export> for Spanning {}

#[cfg(unix)]
impl HasPropertyValue<Export> for Spanning {
    fn property_value(&self) -> Export {
        self.0
    }
}
