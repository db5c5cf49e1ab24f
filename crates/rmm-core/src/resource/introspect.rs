//! Introspection of resources, through type erasure and stacks of adaptors.

use super::concept::{ExtendableResource, Structure, SynchronousResource};
use super::describe::Description;
use super::structure::resolve;
use super::trim::TrimmableResource;
use super::trim_stack::{TrimEffort, trim_stack};
use super::{lookup, properties};
use crate::{
    DeviceAccessible, HostAccessible, MemoryCaps, Property, PropertyId, PropertySet,
    PropertyWithValue, SatisfiedBy,
};

/// Queries that every resource answers, through type erasure and any stack of adaptors.
///
/// ```
/// use rmm_adaptors::{LoggingResourceAdaptor, PoolMemoryResource};
/// use rmm_core::{AnyResource, DeviceAccessible, HostAccessible, Introspect, MemoryKind};
/// use rmm_resources::CudaMemoryResource;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let _machine = rmm_sim::enter();
/// let pool = PoolMemoryResource::builder(CudaMemoryResource::new()).build()?;
/// let erased: AnyResource = AnyResource::new(pool);
/// let logged = LoggingResourceAdaptor::to_writer(erased, std::io::sink())?;
/// let logged: AnyResource = AnyResource::new(logged);
///
/// assert!(logged.has_property::<DeviceAccessible>());
/// assert!(!logged.has_property::<HostAccessible>());
/// assert_eq!(logged.try_property::<MemoryKind>(), Some(MemoryKind::Device));
/// let pool = logged.find::<PoolMemoryResource>().expect("it is in the stack");
/// assert_eq!(pool.statistics().allocations, 0);
/// let names: Vec<&str> = logged.stack().map(|resource| resource.name()).collect();
/// assert_eq!(names, ["logging", "pool", "cuda"]);
/// # Ok(())
/// # }
/// ```
pub trait Introspect: SynchronousResource {
    /// Whether the memory has the property `P`. Like every query here, it goes down the whole
    /// stack.
    #[doc(alias = "cuda::mr::try_get_property")]
    fn has_property<P: Property>(&self) -> bool {
        properties::has_property(self, PropertyId::of::<P>())
    }

    /// The value of the property `P`, if the memory has it.
    #[doc(alias = "cuda::mr::try_get_property")]
    fn try_property<P: PropertyWithValue>(&self) -> Option<P::Value> {
        properties::property_value::<P>(self)
    }

    /// Every property of the memory, each once.
    fn property_list(&self) -> Vec<PropertyId> {
        properties::property_list(self)
    }

    /// Whether host and device may read and write the memory: the bits
    /// [`HOST_ACCESSIBLE`](MemoryCaps::HOST_ACCESSIBLE) and
    /// [`DEVICE_ACCESSIBLE`](MemoryCaps::DEVICE_ACCESSIBLE).
    #[doc(alias = "cuda::mr::dynamic_accessibility_property")]
    fn accessibility(&self) -> MemoryCaps {
        let mut caps = MemoryCaps::empty();
        caps.set(MemoryCaps::HOST_ACCESSIBLE, self.has_property::<HostAccessible>());
        caps.set(MemoryCaps::DEVICE_ACCESSIBLE, self.has_property::<DeviceAccessible>());
        caps
    }

    /// Whether the memory has every property in the set `S`, as the resource provides them at run
    /// time.
    fn has_all<S: PropertySet>(&self) -> bool {
        let mut all = true;
        S::members(&mut |id| all = all && properties::has_property(self, id));
        all
    }

    /// Whether the resource provides at run time what its type declares: `true`, unless its
    /// [`provide`](SynchronousResource::provide) omits a property. For tests of resources.
    ///
    /// ```
    /// use rmm_core::{DeviceAccessible, Introspect, MemoryKind};
    /// use rmm_resources::CudaMemoryResource;
    ///
    /// let resource = CudaMemoryResource::new();
    /// assert!(resource.declares::<DeviceAccessible>() && resource.declares::<MemoryKind>());
    /// ```
    fn declares<S: SatisfiedBy<Self>>(&self) -> bool {
        self.has_all::<S>()
    }

    /// The first resource of type `T` among this one, its upstream and so on down, and then those
    /// that each of them has [beside its upstream](Self::other_upstreams), the lowest first.
    ///
    /// ```
    /// use rmm_adaptors::{FallbackMemoryResource, LimitingResourceAdaptor};
    /// use rmm_core::Introspect;
    /// use rmm_resources::{CudaMemoryResource, ManagedMemoryResource};
    ///
    /// let limited = LimitingResourceAdaptor::new(CudaMemoryResource::new(), 1 << 20);
    /// let resource = FallbackMemoryResource::new(limited, ManagedMemoryResource::new());
    /// assert!(resource.find::<CudaMemoryResource>().is_some());
    /// assert!(resource.find::<ManagedMemoryResource>().is_some());
    /// ```
    #[doc(alias = "cuda::mr::resource_cast")]
    fn find<T: 'static>(&self) -> Option<&T>
    where
        Self: 'static,
    {
        lookup::find(self.as_dyn())
    }

    /// This resource, its upstream, and so on down. Pointers are seen through.
    fn stack(&self) -> Stack<'_>
    where
        Self: 'static,
    {
        Stack(Some(self.as_dyn()))
    }

    /// The upstream: the resource that this one takes its memory from, if there is one.
    #[doc(alias = "get_upstream_resource")]
    fn upstream_resource(&self) -> Option<&(dyn SynchronousResource + 'static)>
    where
        Self: 'static,
    {
        Structure::of(self.as_dyn()).upstream()
    }

    /// The resources that this one takes memory from beside its
    /// [upstream](Self::upstream_resource): bins, or a fallback for when the first is out of
    /// memory.
    fn other_upstreams(&self) -> Vec<&(dyn SynchronousResource + 'static)>
    where
        Self: 'static,
    {
        Structure::of(self.as_dyn()).others.into_iter().map(|(_, other)| other).collect()
    }

    /// The resource's in-place growth interface, if it supports in-place growth.
    fn as_extendable(&self) -> Option<&(dyn ExtendableResource + 'static)>
    where
        Self: 'static,
    {
        Structure::of(self.as_dyn()).extendable()
    }

    /// The resource's interface to return free memory, if it holds any itself; not that of its
    /// upstream.
    ///
    /// ```
    /// use rmm_adaptors::{LimitingResourceAdaptor, PoolMemoryResource};
    /// use rmm_core::Introspect;
    /// use rmm_resources::CudaMemoryResource;
    ///
    /// # let _machine = rmm_sim::enter();
    /// let builder = PoolMemoryResource::builder(CudaMemoryResource::new());
    /// let limited = LimitingResourceAdaptor::new(builder.initial_size(1 << 20).build()?, 1 << 20);
    /// assert!(limited.as_trimmable().is_none(), "it holds no memory");
    /// let pool = limited.upstream().as_trimmable().expect("it holds some");
    /// assert_eq!(pool.usage().free_bytes(), 1 << 20);
    /// # Ok::<(), rmm_core::Error>(())
    /// ```
    fn as_trimmable(&self) -> Option<&(dyn TrimmableResource + 'static)>
    where
        Self: 'static,
    {
        Structure::of(self.as_dyn()).trimmable()
    }

    /// Returns free memory of every suballocator in the stack, the topmost first, until each has no
    /// more than `keep` bytes reserved or no more can be returned. Returns the bytes that left the
    /// stack: those that the lowest suballocators returned. Does not wait for work of the device,
    /// except as a resource below does.
    ///
    /// ```
    /// use rmm_adaptors::{LimitingResourceAdaptor, PoolMemoryResource};
    /// use rmm_core::Introspect;
    /// use rmm_resources::CudaMemoryResource;
    ///
    /// # let _machine = rmm_sim::enter();
    /// let lower = PoolMemoryResource::builder(CudaMemoryResource::new()).build()?;
    /// let upper = PoolMemoryResource::builder(lower.clone()).initial_size(4 << 20).build()?;
    /// let limited = LimitingResourceAdaptor::new(upper, 1 << 30);
    /// assert_eq!(limited.trim_stack(0), 4 << 20); // through both pools
    /// assert_eq!(lower.reserved_bytes(), 0);
    /// # Ok::<(), rmm_core::Error>(())
    /// ```
    #[doc(alias = "cudaMemPoolTrimTo")]
    fn trim_stack(&self, keep: u64) -> u64
    where
        Self: 'static,
    {
        trim_stack(self.as_dyn(), keep, TrimEffort::Idle).unwrap_or(0)
    }

    /// Returns free memory of every suballocator in the stack, as [`trim_stack`](Self::trim_stack)
    /// does, after a wait on this thread for the work that comes before frees, where some of it is
    /// pending. A suballocator does not wait while that would invalidate a capture.
    ///
    /// ```
    /// use std::alloc::Layout;
    /// use rmm_adaptors::PoolMemoryResource;
    /// use rmm_core::{CudaStream, Introspect, Resource};
    /// use rmm_resources::CudaMemoryResource;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let _machine = rmm_sim::Machine::builder().schedule(rmm_sim::Schedule::Lazy).enter();
    /// let pool = PoolMemoryResource::builder(CudaMemoryResource::new()).build()?;
    /// let (stream, layout) = (CudaStream::new()?, Layout::from_size_align(8 << 20, 256)?);
    /// let block = pool.allocate(&stream, layout)?;
    /// # // SAFETY: the block is allocated, and the stream exists.
    /// # unsafe { rmm_core::current_driver()?.cuMemsetD8Async(block, 0, 1, stream.as_raw()) };
    /// // ... enqueue work on `stream` that uses the block ...
    /// // SAFETY: allocated above with this layout; its only stream is the one it is freed on.
    /// unsafe { pool.deallocate(&stream, block, layout) };
    /// assert_eq!(pool.trim_stack(0), 0); // the work may still run
    /// assert_eq!(pool.trim_stack_blocking(0), 8 << 20);
    /// # Ok(())
    /// # }
    /// ```
    fn trim_stack_blocking(&self, keep: u64) -> u64
    where
        Self: 'static,
    {
        trim_stack(self.as_dyn(), keep, TrimEffort::Wait).unwrap_or(0)
    }

    /// A value of type `T` that the resource [provides](crate::Query::value).
    fn try_value<T: 'static>(&self) -> Option<T> {
        lookup::value(self)
    }

    /// A description of the stack, with the sizes and counters of each resource; a tree where a
    /// resource has several upstreams.
    fn describe(&self) -> Description
    where
        Self: 'static,
    {
        lookup::description(self.as_dyn())
    }
}

impl<R: SynchronousResource + ?Sized> Introspect for R {}

/// The resources of a stack, from the top, see [`Introspect::stack`].
#[derive(Clone, Debug)]
pub struct Stack<'a>(Option<&'a (dyn SynchronousResource + 'static)>);

impl<'a> Iterator for Stack<'a> {
    type Item = &'a (dyn SynchronousResource + 'static);

    fn next(&mut self) -> Option<Self::Item> {
        let (resource, structure) = resolve(self.0?);
        self.0 = structure.upstream();
        Some(resource)
    }
}

impl std::iter::FusedIterator for Stack<'_> {}
