//! What memory can do, told at run time.

use std::any::{Any, TypeId};
use std::fmt;

use super::{
    HasProperty, HasPropertyValue, Members, Property, PropertySet, PropertyWithValue, SatisfiedBy,
};
use crate::{MemoryKind, SyncResource};

/// Which property, as a value. Displays as the property's name.
///
/// ```
/// use rmm_core::{DeviceAccessible, Introspect, PropertyId};
/// use rmm_resources::CudaMemoryResource;
///
/// let properties = CudaMemoryResource::new().property_list();
/// assert!(properties.contains(&PropertyId::of::<DeviceAccessible>()));
/// assert_eq!(properties[0].to_string(), "device-accessible");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct PropertyId {
    id: TypeId,
    name: &'static str,
}

impl PropertyId {
    /// The property `P`.
    pub fn of<P: Property>() -> Self {
        Self { id: TypeId::of::<P>(), name: P::NAME }
    }

    /// The property's name.
    pub fn name(self) -> &'static str {
        self.name
    }
}

impl PartialEq for PropertyId {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for PropertyId {}

impl fmt::Display for PropertyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Takes what a resource tells of its memory, in
/// [`SyncResource::properties`](crate::SyncResource::properties).
///
/// Only what the resource's type claims can be told:
///
/// ```compile_fail,E0277
/// use rmm_core::{Claims, HostAccessible};
/// use rmm_resources::CudaMemoryResource;
///
/// fn properties(resource: &CudaMemoryResource, claims: &mut Claims<'_>) {
///     claims.of(resource).has::<HostAccessible>(); // it is not
/// }
/// ```
#[derive(Debug)]
pub struct Claims<'q>(Query<'q>);

/// The property and, when found, its value.
struct Slot<P: PropertyWithValue>(Option<P::Value>);

#[derive(Debug)]
enum Query<'q> {
    Has {
        wanted: PropertyId,
        found: &'q mut bool,
    },
    /// A [`Slot`] of the wanted property.
    Value(&'q mut dyn Any),
    List(&'q mut Vec<PropertyId>),
}

impl Claims<'_> {
    /// What is told from here on is about `resource`.
    pub fn of<'c, R: ?Sized>(&'c mut self, resource: &'c R) -> ClaimsOf<'c, R>
    where
        Self: 'c,
    {
        ClaimsOf { query: self.0.reborrow(), resource }
    }

    /// Tells of the properties that every one of some resources has: for a resource that hands out
    /// memory of each of them. Of their values a [`MemoryKind`] is told that is the same for all.
    pub fn common_to<'r>(&mut self, resources: impl IntoIterator<Item = &'r dyn SyncResource>) {
        let mut resources = resources.into_iter();
        if let Query::Value(_) = self.0 {
            return self.common_kind(resources);
        }
        let Some(first) = resources.next() else { return };
        let mut common = list(|claims| first.properties(claims));
        for resource in resources {
            common.retain(|&id| has(id, |claims| resource.properties(claims)));
        }
        for id in common {
            self.0.note(id);
        }
    }

    /// The kind of some resources' memory, if it is asked for and all have the same.
    fn common_kind<'r>(&mut self, resources: impl Iterator<Item = &'r dyn SyncResource>) {
        if let Query::Value(slot) = &mut self.0
            && let Some(Slot(kind)) = slot.downcast_mut::<Slot<MemoryKind>>()
        {
            let mut kinds =
                resources.map(|resource| value::<MemoryKind>(|claims| resource.properties(claims)));
            let first = kinds.next().flatten();
            *kind = first.filter(|_| kinds.all(|kind| kind == first));
        }
    }

    /// Tells of every property in a set that the type of an erased resource still knows.
    pub(crate) fn every_one_of<S: PropertySet>(&mut self) {
        S::members(&mut Members::new(&mut |id| self.0.note(id)));
    }
}

impl Query<'_> {
    fn reborrow(&mut self) -> Query<'_> {
        match self {
            Self::Has { wanted, found } => Query::Has { wanted: *wanted, found },
            Self::Value(slot) => Query::Value(*slot),
            Self::List(list) => Query::List(list),
        }
    }

    fn note(&mut self, id: PropertyId) {
        match self {
            Self::Has { wanted, found } => **found |= *wanted == id,
            Self::List(list) if !list.contains(&id) => list.push(id),
            Self::List(_) | Self::Value(_) => {}
        }
    }
}

/// Takes what is told of one resource, see [`Claims::of`].
#[derive(Debug)]
pub struct ClaimsOf<'c, R: ?Sized> {
    query: Query<'c>,
    resource: &'c R,
}

impl<R: ?Sized> ClaimsOf<'_, R> {
    /// The resource's memory has the property `P`.
    #[expect(clippy::return_self_not_must_use, reason = "the end of a chain of claims is dropped")]
    pub fn has<P: Property>(mut self) -> Self
    where
        R: HasProperty<P>,
    {
        self.query.note(PropertyId::of::<P>());
        self
    }

    /// The resource's memory has every property of the set `S`.
    #[expect(clippy::return_self_not_must_use, reason = "the end of a chain of claims is dropped")]
    pub fn has_all<S: SatisfiedBy<R>>(mut self) -> Self {
        S::members(&mut Members::new(&mut |id| self.query.note(id)));
        self
    }

    /// The resource's memory has the property `P`, and the resource knows its value.
    #[expect(clippy::return_self_not_must_use, reason = "the end of a chain of claims is dropped")]
    pub fn knows<P: PropertyWithValue>(mut self) -> Self
    where
        R: HasPropertyValue<P>,
    {
        self.query.note(PropertyId::of::<P>());
        if let Query::Value(slot) = &mut self.query
            && let Some(Slot(value)) = slot.downcast_mut::<Slot<P>>()
        {
            *value = Some(self.resource.property_value());
        }
        self
    }
}

/// Whether a resource, which tells in `tell`, has the property.
pub(crate) fn has(wanted: PropertyId, tell: impl FnOnce(&mut Claims<'_>)) -> bool {
    let mut found = false;
    tell(&mut Claims(Query::Has { wanted, found: &mut found }));
    found
}

/// The value of a property that a resource, which tells in `tell`, has.
pub(crate) fn value<P: PropertyWithValue>(tell: impl FnOnce(&mut Claims<'_>)) -> Option<P::Value> {
    let mut slot = Slot::<P>(None);
    tell(&mut Claims(Query::Value(&mut slot)));
    slot.0
}

/// Everything that a resource tells in `tell`.
pub(crate) fn list(tell: impl FnOnce(&mut Claims<'_>)) -> Vec<PropertyId> {
    let mut list = Vec::new();
    tell(&mut Claims(Query::List(&mut list)));
    list
}
