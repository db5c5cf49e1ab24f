//! Equality and casts of type-erased resources.

use crate::resource::{
    ComparableResource, ComparableSynchronousResource, behind_pointers, downcast_or_view, pointee,
};
use crate::{Error, Resource, SynchronousResource};

impl<R: SynchronousResource + PartialEq> ComparableSynchronousResource for R {
    fn inner(&self) -> &(dyn SynchronousResource + 'static)
    where
        Self: 'static,
    {
        self
    }

    fn equals(&self, other: &(dyn SynchronousResource + 'static)) -> bool
    where
        Self: 'static,
    {
        downcast_or_view::<R>(other).is_some_and(|other| self == other)
    }
}

impl<R: Resource + PartialEq> ComparableResource for R {}

/// The value of type `T` that `resource` is, or is a pointer to.
pub(super) fn downcast<'a, T: 'static>(
    resource: &'a (dyn SynchronousResource + 'static),
) -> Option<&'a T> {
    let mut next = Some(resource);
    while let Some(inner) = next {
        if let Some(found) = downcast_or_view(inner) {
            return Some(found);
        }
        next = pointee(inner);
    }
    None
}

/// Whether memory from one may be freed by the other: they are one object, or of one type and
/// equal. Pointers are seen through.
///
/// A pointer's own type cannot compare what is behind it, so both sides are asked. Two pointers of
/// different types to two objects compare unequal; [`AnyResource::new`] therefore unwraps a pointer
/// whose target is a handle.
pub(super) fn is_same(
    one: &(dyn ComparableSynchronousResource + 'static),
    other: &(dyn ComparableSynchronousResource + 'static),
) -> bool {
    let (first, second) = (behind_pointers(one.as_dyn()), behind_pointers(other.as_dyn()));
    is_one_object(first, second)
        || one.equals(second)
        || other.equals(first)
        || one.equals(other.inner())
}

/// Whether both are references to one object. Never for zero-sized types, whose addresses mean
/// nothing.
fn is_one_object(
    one: &(dyn SynchronousResource + 'static),
    other: &(dyn SynchronousResource + 'static),
) -> bool {
    size_of_val(one) > 0
        && std::ptr::addr_eq(one, other)
        && one.as_any().type_id() == other.as_any().type_id()
}

/// The error of a reference from which no owned resource can be made.
pub(super) fn not_a_handle(resource: &dyn SynchronousResource) -> Error {
    let message = format!(
        "a reference to `{}` cannot become an owned resource, because its type is not a handle: pass the resource \
         itself, or borrow it from an `AnyResource`",
        resource.name()
    );
    Error::invalid_argument("resource reference", message)
}
