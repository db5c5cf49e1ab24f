//! Properties of a resource's memory, as it provides them at run time.

use std::fmt;

use super::concept::SynchronousResource;
use super::query::{Query, QueryKind};
use crate::MemoryKind;
use crate::property::{
    HasProperty, HasPropertyValue, Property, PropertyId, PropertyWithValue, SatisfiedBy,
};

/// The value of a property, once it is found.
struct Slot<P: PropertyWithValue>(Option<P::Value>);

impl<'a> Query<'a> {
    /// The properties of this resource's memory: everything that its type declares with
    /// [`HasProperty`]. A property missing here cannot be recovered after type erasure;
    /// [`Introspect::declares`](crate::Introspect::declares) checks that none is.
    ///
    /// What the type does not declare cannot be provided. `resource` is the resource itself, or a
    /// value whose type declares what this one's memory has:
    ///
    /// ```compile_fail,E0277
    /// use rmm_core::{HostAccessible, Query};
    /// use rmm_resources::CudaMemoryResource;
    ///
    /// fn provide(resource: &CudaMemoryResource, query: &mut Query<'_>) {
    ///     query.properties(resource).has::<HostAccessible>(); // it is not
    /// }
    /// ```
    #[doc(alias = "get_property")]
    pub fn properties<'r, R: ?Sized>(&'r mut self, resource: &'r R) -> PropertySink<'r, 'a, R> {
        PropertySink { query: self, resource }
    }

    /// The properties of another resource, whose memory this one allocates from.
    #[doc(alias = "forward_property")]
    pub fn properties_from<R: SynchronousResource + ?Sized>(
        &mut self,
        upstream: &'a R,
    ) -> &mut Self {
        if let QueryKind::HasProperty { .. }
        | QueryKind::PropertyValue(_)
        | QueryKind::PropertyList(_) = self.0
        {
            upstream.provide(self);
        }
        self
    }

    /// The properties that all of these resources have, for a resource that allocates from each of
    /// them. Of their values it provides only the [`MemoryKind`], if it is the same for all.
    pub fn common_properties<'r>(
        &mut self,
        resources: impl IntoIterator<Item = &'r dyn SynchronousResource>,
    ) -> &mut Self {
        let mut resources = resources.into_iter();
        match &mut self.0 {
            QueryKind::PropertyValue(slot) => {
                if let Some(Slot(kind @ None)) = slot.downcast_mut::<Slot<MemoryKind>>() {
                    let mut kinds = resources.map(property_value::<MemoryKind>);
                    let first = kinds.next().flatten();
                    *kind = first.filter(|_| kinds.all(|kind| kind == first));
                }
            }
            QueryKind::HasProperty { .. } | QueryKind::PropertyList(_) => {
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
}

/// Receives the properties of one resource's memory, see [`Query::properties`].
pub struct PropertySink<'r, 'a, R: ?Sized> {
    query: &'r mut Query<'a>,
    resource: &'r R,
}

impl<R: ?Sized> PropertySink<'_, '_, R> {
    /// The memory has the property `P`.
    #[expect(clippy::return_self_not_must_use, reason = "the end of a chain is dropped")]
    pub fn has<P: Property>(self) -> Self
    where
        R: HasProperty<P>,
    {
        self.query.note(PropertyId::of::<P>());
        self
    }

    /// The memory has every property of the set `S`.
    #[expect(clippy::return_self_not_must_use, reason = "the end of a chain is dropped")]
    pub fn has_all<S: SatisfiedBy<R>>(self) -> Self {
        self.query.members_of::<S>();
        self
    }

    /// The memory has the property `P`, and the resource knows its value.
    #[expect(clippy::return_self_not_must_use, reason = "the end of a chain is dropped")]
    pub fn has_value<P: PropertyWithValue>(self) -> Self
    where
        R: HasPropertyValue<P>,
    {
        self.query.note(PropertyId::of::<P>());
        if let QueryKind::PropertyValue(slot) = &mut self.query.0
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
pub(crate) fn has_property<R: SynchronousResource + ?Sized>(
    resource: &R,
    wanted: PropertyId,
) -> bool {
    let mut query = Query(QueryKind::HasProperty { wanted, found: false });
    resource.provide(&mut query);
    matches!(query.0, QueryKind::HasProperty { found: true, .. })
}

/// The value of a property of the resource's memory.
pub(crate) fn property_value<P: PropertyWithValue>(
    resource: &(impl SynchronousResource + ?Sized),
) -> Option<P::Value> {
    let mut slot = Slot::<P>(None);
    resource.provide(&mut Query(QueryKind::PropertyValue(&mut slot)));
    slot.0
}

/// Every property of the resource's memory, each once.
pub(crate) fn property_list<R: SynchronousResource + ?Sized>(resource: &R) -> Vec<PropertyId> {
    let mut query = Query(QueryKind::PropertyList(Vec::new()));
    resource.provide(&mut query);
    if let QueryKind::PropertyList(list) = query.0 { list } else { Vec::new() }
}
