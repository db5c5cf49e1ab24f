//! Typed requests: the one extension point of resources.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use super::{Description, ExtendableResource, SyncResource};
use crate::MemoryKind;
use crate::erased::{ErasedSync, Held};
use crate::property::{
    HasProperty, HasPropertyValue, Members, Property, PropertyId, PropertySet, PropertyWithValue,
    SatisfiedBy,
};

/// A typed question to a resource, in the manner of [`std::error::Error::provide`].
///
/// [`SyncResource::provide`] answers it: it names everything that the resource can provide, and the
/// request keeps what it asks for. Of several answers to a question that has one answer the first
/// counts, so that a resource may provide its own and then let another resource answer the rest.
///
/// ```
/// use rmm_core::{DeviceAccessible, HasProperty, Introspect, Request, SyncResource};
/// # use rmm_core::{DevicePtr, Error};
/// # use std::alloc::Layout;
/// use rmm_resources::CudaMemoryResource;
///
/// #[derive(Debug)]
/// struct Halves<R> {
///     upstream: R,
/// }
/// # // SAFETY: every call goes to the upstream, which keeps the contract.
/// # unsafe impl<R: SyncResource> SyncResource for Halves<R> {
/// #     fn allocate_sync(&self, layout: Layout) -> Result<DevicePtr, Error> {
/// #         self.upstream.allocate_sync(layout)
/// #     }
/// #     unsafe fn deallocate_sync(&self, pointer: DevicePtr, layout: Layout) {
/// #         // SAFETY: the caller's contract is the same.
/// #         unsafe { self.upstream.deallocate_sync(pointer, layout) }
/// #     }
/// #     fn name(&self) -> &'static str {
/// #         "halves"
/// #     }
/// // in its implementation of `SyncResource`:
/// fn provide<'a>(&'a self, request: &mut Request<'a>) {
///     request
///         .upstream(&self.upstream)
///         .properties_from(&self.upstream)
///         .describe(|description| drop(description.count("halves", 2)));
/// }
/// # }
///
/// let halves = Halves { upstream: CudaMemoryResource::new() };
/// assert!(halves.has_property::<DeviceAccessible>());
/// assert_eq!(halves.describe().to_string(), "halves: halves 2\n└─ cuda");
/// ```
pub struct Request<'a>(Query<'a>);

/// What is asked for, and the answer so far.
enum Query<'a> {
    HasProperty {
        wanted: PropertyId,
        found: bool,
    },
    /// A [`Slot`] of the wanted property.
    PropertyValue(&'a mut dyn Any),
    PropertyList(Vec<PropertyId>),
    Pointee(Option<&'a (dyn SyncResource + 'a)>),
    Upstream(Option<&'a (dyn SyncResource + 'a)>),
    OtherUpstreams(Vec<(String, &'a (dyn SyncResource + 'a))>),
    Metrics(Description),
    Extendable(Option<&'a dyn ExtendableResource>),
    Handle(Option<Arc<dyn ErasedSync + 'a>>),
    /// An `Option` of the wanted type.
    Value(&'a mut dyn Any),
}

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

    /// The properties of another resource, whose memory this one hands out.
    #[doc(alias = "forward_property")]
    pub fn properties_from<R: SyncResource + ?Sized>(&mut self, upstream: &'a R) -> &mut Self {
        if let Query::HasProperty { .. } | Query::PropertyValue(_) | Query::PropertyList(_) = self.0
        {
            upstream.provide(self);
        }
        self
    }

    /// The properties that all of these resources have, for a resource that hands out memory of
    /// each of them. Of properties with a value there is [`MemoryKind`] alone, if it is the same
    /// for all.
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

    /// A resource that this one takes memory from beside its [upstream](Self::upstream), and what
    /// it is for: a bin, or a second resource for when the first is out of memory.
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

    /// What the resource is set to and has done, for people: sizes and counters. The closure runs
    /// only if a description is asked for.
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

    /// An owned handle to this resource, if its type is a handle: a clone is the same resource, and
    /// equal to it. A reference to such a resource can be made an owned resource again. If it has
    /// stream order, implement [`Resource::to_any`](crate::Resource::to_any) too.
    pub fn handle<R: SyncResource + Clone + PartialEq>(&mut self, resource: &'a R) -> &mut Self {
        self.shared_handle(|| Some(Held::new(resource.clone())))
    }

    /// As [`handle`](Self::handle), of one that is shared already.
    pub(crate) fn shared_handle<R: ErasedSync + 'a>(
        &mut self,
        handle: impl FnOnce() -> Option<Arc<R>>,
    ) -> &mut Self {
        if let Query::Handle(answer @ None) = &mut self.0 {
            *answer = handle().map(|handle| handle as _);
        }
        self
    }

    /// The resource that this one is, if it is only a pointer to it: a `Box`, or a type-erased
    /// resource.
    pub fn pointee<R: SyncResource + ?Sized>(&mut self, pointee: &'a R) -> &mut Self {
        if let Query::Pointee(answer @ None) = &mut self.0 {
            *answer = Some(pointee.as_dyn());
        }
        self
    }

    /// A value of any other type, for [`Introspect::request_value`](crate::Introspect::request_value).
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
    /// #     fn allocate_sync(&self, _: Layout) -> Result<DevicePtr, Error> {
    /// #         Err(Error::out_of_memory("near"))
    /// #     }
    /// #     unsafe fn deallocate_sync(&self, _: DevicePtr, _: Layout) {}
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

    /// Every property in the set that a type-erased resource was made with.
    pub(crate) fn members_of<S: PropertySet>(&mut self) {
        S::members(&mut Members::new(&mut |id| self.note(id)));
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

/// Takes the properties of one resource's memory, see [`Request::properties`].
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

/// The resource's in-place growth interface.
pub(crate) fn extendable<R: SyncResource + ?Sized>(
    resource: &R,
) -> Option<&dyn ExtendableResource> {
    let mut request = Request(Query::Extendable(None));
    resource.provide(&mut request);
    if let Query::Extendable(answer) = request.0 { answer } else { None }
}

/// A value of type `T` that the resource provides.
pub(crate) fn value<T: 'static>(resource: &(impl SyncResource + ?Sized)) -> Option<T> {
    let mut slot = None::<T>;
    resource.provide(&mut Request(Query::Value(&mut slot)));
    slot
}

/// The resource's name, and what it tells of itself.
pub(crate) fn metrics<R: SyncResource + ?Sized>(resource: &R, empty: Description) -> Description {
    let mut request = Request(Query::Metrics(empty));
    resource.provide(&mut request);
    if let Query::Metrics(description) = request.0 {
        description
    } else {
        unreachable!("a request keeps its query")
    }
}

/// The resource that this one is a pointer to.
pub(crate) fn pointee<'a>(
    resource: &'a (dyn SyncResource + 'static),
) -> Option<&'a (dyn SyncResource + 'static)> {
    let mut request = Request(Query::Pointee(None));
    resource.provide(&mut request);
    let Query::Pointee(answer) = request.0 else { return None };
    // SAFETY: a resource of a `'static` type provided it.
    answer.map(|answer| unsafe { assume_static(answer) })
}

/// The resource that this one takes its memory from.
pub(crate) fn upstream<'a>(
    resource: &'a (dyn SyncResource + 'static),
) -> Option<&'a (dyn SyncResource + 'static)> {
    let mut request = Request(Query::Upstream(None));
    resource.provide(&mut request);
    let Query::Upstream(answer) = request.0 else { return None };
    // SAFETY: a resource of a `'static` type provided it.
    answer.map(|answer| unsafe { assume_static(answer) })
}

/// The resources that this one takes memory from beside its upstream, and what each is for.
pub(crate) fn other_upstreams<'a>(
    resource: &'a (dyn SyncResource + 'static),
) -> Vec<(String, &'a (dyn SyncResource + 'static))> {
    let mut request = Request(Query::OtherUpstreams(Vec::new()));
    resource.provide(&mut request);
    let Query::OtherUpstreams(answers) = request.0 else { return Vec::new() };
    answers
        .into_iter()
        // SAFETY: a resource of a `'static` type provided it.
        .map(|(purpose, answer)| (purpose, unsafe { assume_static(answer) }))
        .collect()
}

/// An owned handle to the resource.
pub(crate) fn handle(resource: &(dyn SyncResource + 'static)) -> Option<Arc<dyn ErasedSync>> {
    let mut request = Request(Query::Handle(None));
    resource.provide(&mut request);
    let Query::Handle(answer) = request.0 else { return None };
    // SAFETY: `SyncResource` demands that a resource of a `'static` type provides nothing but
    // resources of such types, so the handle's type borrows nothing, and outlives 'static.
    answer.map(|answer| unsafe {
        std::mem::transmute::<Arc<dyn ErasedSync + '_>, Arc<dyn ErasedSync + 'static>>(answer)
    })
}

/// The resource, known to be of a type that borrows nothing.
///
/// # Safety
/// A resource of a `'static` type provided it. (`SyncResource` demands that such a resource
/// provides nothing but resources of `'static` types.)
unsafe fn assume_static<'a>(
    resource: &'a (dyn SyncResource + 'a),
) -> &'a (dyn SyncResource + 'static) {
    // SAFETY: by the caller's contract the type outlives 'static; the reference keeps its lifetime.
    unsafe {
        std::mem::transmute::<&'a (dyn SyncResource + 'a), &'a (dyn SyncResource + 'static)>(
            resource,
        )
    }
}
