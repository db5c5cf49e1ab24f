//! Typed requests: the one extension point of resources.

use std::any::{Any, TypeId};
use std::fmt;
use std::sync::Arc;

use super::concept::{ErasedSync, Query, Request, SyncResource};
use super::describe::Description;
use super::extendable::ExtendableResource;
use super::trim::TrimmableResource;
use crate::MemoryKind;
use crate::property::{
    HasProperty, HasPropertyValue, Property, PropertyId, PropertySet, PropertyWithValue,
    SatisfiedBy,
};

/// The value of a property, once it is found.
struct Slot<P: PropertyWithValue>(Option<P::Value>);

impl<'a> Request<'a> {
    /// The properties of this resource's memory: everything that its type declares with
    /// [`HasProperty`]. A property missing here cannot be recovered after type erasure;
    /// [`Introspect::declares`](crate::Introspect::declares) checks that none is.
    ///
    /// What the type does not declare cannot be provided:
    ///
    /// ```compile_fail,E0277
    /// use rmm_core::{HostAccessible, Request};
    /// use rmm_resources::CudaMemoryResource;
    ///
    /// fn provide(resource: &CudaMemoryResource, request: &mut Request<'_>) {
    ///     request.properties(resource).has::<HostAccessible>(); // it is not
    /// }
    /// ```
    #[doc(alias = "get_property")]
    pub fn properties<'r, R: ?Sized>(&'r mut self, resource: &'r R) -> PropertySink<'r, 'a, R> {
        PropertySink { request: self, resource }
    }

    /// The properties of another resource, whose memory this one allocates from.
    #[doc(alias = "forward_property")]
    pub fn properties_from<R: SyncResource + ?Sized>(&mut self, upstream: &'a R) -> &mut Self {
        if let Query::HasProperty { .. } | Query::PropertyValue(_) | Query::PropertyList(_) = self.0
        {
            upstream.provide(self);
        }
        self
    }

    /// The properties that all of these resources have, for a resource that allocates from each of
    /// them. Of the properties with a value it provides only [`MemoryKind`], if it is the same for
    /// all.
    pub fn common_properties<'r>(
        &mut self,
        resources: impl IntoIterator<Item = &'r dyn SyncResource>,
    ) -> &mut Self {
        let mut resources = resources.into_iter();
        match &mut self.0 {
            Query::PropertyValue(slot) => {
                if let Some(Slot(kind @ None)) = slot.downcast_mut::<Slot<MemoryKind>>() {
                    let mut kinds = resources.map(property_value::<MemoryKind>);
                    let first = kinds.next().flatten();
                    *kind = first.filter(|_| kinds.all(|kind| kind == first));
                }
            }
            Query::HasProperty { .. } | Query::PropertyList(_) => {
                let Some(first) = resources.next() else { return self };
                let mut common = property_list(first);
                for resource in resources {
                    common.retain(|&id| has_property(resource, id));
                }
                for id in common {
                    self.note(id);
                }
            }
            _ => {}
        }
        self
    }

    /// The resource that this one takes its memory from.
    #[doc(alias = "get_upstream_resource")]
    pub fn upstream<R: SyncResource + ?Sized>(&mut self, upstream: &'a R) -> &mut Self {
        if let Query::Upstream(answer @ None) = &mut self.0 {
            *answer = Some(upstream.as_dyn());
        }
        self
    }

    /// A resource that this one takes memory from beside its [upstream](Self::upstream), and its
    /// purpose: a bin, or a fallback for when the first is out of memory.
    pub fn other_upstream<R: SyncResource + ?Sized>(
        &mut self,
        purpose: impl fmt::Display,
        upstream: &'a R,
    ) -> &mut Self {
        if let Query::OtherUpstreams(answers) = &mut self.0 {
            answers.push((purpose.to_string(), upstream.as_dyn()));
        }
        self
    }

    /// The resource's sizes and counters, for people. The closure runs only if a description is
    /// requested.
    pub fn describe(&mut self, describe: impl FnOnce(&mut Description)) -> &mut Self {
        if let Query::Metrics(description) = &mut self.0 {
            describe(description);
        }
        self
    }

    /// The resource's in-place growth interface. An adaptor has none unless it passes its
    /// upstream's blocks through unchanged and tracks none of them.
    pub fn extendable(&mut self, extendable: &'a dyn ExtendableResource) -> &mut Self {
        if let Query::Extendable(answer @ None) = &mut self.0 {
            *answer = Some(extendable);
        }
        self
    }

    /// The resource's interface to return free memory that it holds itself. An adaptor has none: a
    /// [trim of the stack](crate::Introspect::trim_stack) goes on to its upstream.
    pub fn trimmable(&mut self, trimmable: &'a dyn TrimmableResource) -> &mut Self {
        if let Query::Trimmable(answer @ None) = &mut self.0 {
            *answer = Some(trimmable);
        }
        self
    }

    /// As [`handle`](Self::handle), for a handle that is shared already.
    pub(crate) fn shared_handle<R: ErasedSync + 'a>(
        &mut self,
        handle: impl FnOnce() -> Option<Arc<R>>,
    ) -> &mut Self {
        if let Query::Handle(answer @ None) = &mut self.0 {
            *answer = handle().map(|handle| handle as _);
        }
        self
    }

    /// The resource behind this one, if this one is only a pointer: a `Box`, or a type-erased
    /// resource.
    pub fn pointee<R: SyncResource + ?Sized>(&mut self, pointee: &'a R) -> &mut Self {
        if let Query::Pointee(answer @ None) = &mut self.0 {
            *answer = Some(pointee.as_dyn());
        }
        self
    }

    /// A value of any other type, for
    /// [`Introspect::request_value`](crate::Introspect::request_value).
    ///
    /// ```
    /// use rmm_core::{Introspect, Request, SyncResource};
    /// # use rmm_core::{DevicePtr, Error};
    /// # use std::alloc::Layout;
    ///
    /// /// A new ability of resources.
    /// struct NumaNode(u32);
    ///
    /// # #[derive(Debug)]
    /// # struct Near;
    /// # // SAFETY: it hands nothing out.
    /// # unsafe impl SyncResource for Near {
    /// #     fn do_allocate_sync(&self, _: Layout) -> Result<DevicePtr, Error> {
    /// #         Err(Error::out_of_memory("near"))
    /// #     }
    /// #     unsafe fn do_deallocate_sync(&self, _: DevicePtr, _: Layout) {}
    /// #     fn name(&self) -> &'static str {
    /// #         "near"
    /// #     }
    /// fn provide<'a>(&'a self, request: &mut Request<'a>) {
    ///     request.value(|| NumaNode(1));
    /// }
    /// # }
    /// let node = Near.request_value::<NumaNode>().expect("it is provided");
    /// assert_eq!(node.0, 1);
    /// ```
    pub fn value<T: 'static>(&mut self, value: impl FnOnce() -> T) -> &mut Self {
        if let Query::Value(slot) = &mut self.0
            && let Some(answer @ None) = slot.downcast_mut::<Option<T>>()
        {
            *answer = Some(value());
        }
        self
    }

    /// This resource as a value of another type, by which [`find`](crate::Introspect::find) and
    /// [`AnyResource::downcast_ref`](crate::AnyResource::downcast_ref) find it too: the same handle
    /// with another set of properties, for one. The closure runs only if `T` is looked for.
    pub fn view<T: 'static>(&mut self, view: impl FnOnce() -> Option<&'a T>) -> &mut Self {
        if let Query::View { wanted, found: found @ None } = &mut self.0
            && *wanted == TypeId::of::<T>()
        {
            *found = view().map(|view| view as &dyn Any);
        }
        self
    }

    /// Every property in the property set of a type-erased resource.
    pub(crate) fn members_of<S: PropertySet>(&mut self) {
        S::members(&mut |id| self.note(id));
    }

    fn note(&mut self, id: PropertyId) {
        match &mut self.0 {
            Query::HasProperty { wanted, found } => *found |= *wanted == id,
            Query::PropertyList(list) if !list.contains(&id) => list.push(id),
            _ => {}
        }
    }
}

impl fmt::Debug for Request<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request").finish_non_exhaustive()
    }
}

/// Receives the properties of one resource's memory, see [`Request::properties`].
pub struct PropertySink<'r, 'a, R: ?Sized> {
    request: &'r mut Request<'a>,
    resource: &'r R,
}

impl<R: ?Sized> PropertySink<'_, '_, R> {
    /// The memory has the property `P`.
    #[expect(clippy::return_self_not_must_use, reason = "the end of a chain is dropped")]
    pub fn has<P: Property>(self) -> Self
    where
        R: HasProperty<P>,
    {
        self.request.note(PropertyId::of::<P>());
        self
    }

    /// The memory has every property of the set `S`.
    #[expect(clippy::return_self_not_must_use, reason = "the end of a chain is dropped")]
    pub fn has_all<S: SatisfiedBy<R>>(self) -> Self {
        self.request.members_of::<S>();
        self
    }

    /// The memory has the property `P`, and the resource knows its value.
    #[expect(clippy::return_self_not_must_use, reason = "the end of a chain is dropped")]
    pub fn has_value<P: PropertyWithValue>(self) -> Self
    where
        R: HasPropertyValue<P>,
    {
        self.request.note(PropertyId::of::<P>());
        if let Query::PropertyValue(slot) = &mut self.request.0
            && let Some(Slot(value @ None)) = slot.downcast_mut::<Slot<P>>()
        {
            *value = Some(self.resource.property_value());
        }
        self
    }
}

impl<R: ?Sized> fmt::Debug for PropertySink<'_, '_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PropertySink").finish_non_exhaustive()
    }
}

/// Whether the resource's memory has the property.
pub(crate) fn has_property<R: SyncResource + ?Sized>(resource: &R, wanted: PropertyId) -> bool {
    let mut request = Request(Query::HasProperty { wanted, found: false });
    resource.provide(&mut request);
    matches!(request.0, Query::HasProperty { found: true, .. })
}

/// The value of a property of the resource's memory.
pub(crate) fn property_value<P: PropertyWithValue>(
    resource: &(impl SyncResource + ?Sized),
) -> Option<P::Value> {
    let mut slot = Slot::<P>(None);
    resource.provide(&mut Request(Query::PropertyValue(&mut slot)));
    slot.0
}

/// Every property of the resource's memory, each once.
pub(crate) fn property_list<R: SyncResource + ?Sized>(resource: &R) -> Vec<PropertyId> {
    let mut request = Request(Query::PropertyList(Vec::new()));
    resource.provide(&mut request);
    if let Query::PropertyList(list) = request.0 { list } else { Vec::new() }
}
