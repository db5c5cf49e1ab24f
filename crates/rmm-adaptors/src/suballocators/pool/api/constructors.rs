//! Constructors of a pool.

use rmm_core::{AnyResource, DeviceAccessible, HasProperty, PropertySet, Resource, SatisfiedBy};

use super::builder::PoolMemoryResourceBuilder;
use super::pool::PoolMemoryResource;

impl PoolMemoryResource {
    /// Options for a pool over `upstream`, whose memory the device may use. The pool keeps it: an
    /// upstream is an owned resource, such as an [`AnyResource`] or another handle.
    /// [`Synchronized`](rmm_core::Synchronized) makes one of a resource without stream order.
    pub fn builder<U>(upstream: U) -> PoolMemoryResourceBuilder
    where
        U: Resource + HasProperty<DeviceAccessible> + PartialEq + 'static,
    {
        Self::builder_with_properties(upstream)
    }
}

impl<S: PropertySet> PoolMemoryResource<S> {
    /// Options for a pool over memory that has every property in `S`.
    ///
    /// ```
    /// use rmm_adaptors::PoolMemoryResource;
    /// use rmm_core::{HostDeviceAccessible, HostResourceRef, Introspect};
    /// use rmm_resources::PinnedHostMemoryResource;
    ///
    /// # fn main() -> Result<(), rmm_core::Error> {
    /// # let _machine = rmm_sim::enter();
    /// let upstream = PinnedHostMemoryResource::new();
    /// let pool = PoolMemoryResource::<HostDeviceAccessible>::builder_with_properties(upstream).build()?;
    /// let for_the_host = HostResourceRef::new(&pool);
    /// assert!(for_the_host.find::<PoolMemoryResource>().is_some());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The host cannot use a pool of device memory:
    ///
    /// ```compile_fail,E0277
    /// use rmm_adaptors::PoolMemoryResource;
    /// use rmm_core::HostResourceRef;
    ///
    /// fn lend(pool: &PoolMemoryResource) -> HostResourceRef<'_> {
    ///     HostResourceRef::new(pool)
    /// }
    /// ```
    pub fn builder_with_properties<U>(upstream: U) -> PoolMemoryResourceBuilder<S>
    where
        U: Resource + PartialEq + 'static,
        S: SatisfiedBy<U>,
    {
        PoolMemoryResourceBuilder::new(AnyResource::new(upstream))
    }
}
