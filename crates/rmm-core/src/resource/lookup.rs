//! The queries that the library makes, each as a function of the resource.

use std::any::TypeId;

use super::concept::{Structure, SynchronousResource};
use super::describe::Description;
use super::query::{Query, QueryKind};
use super::structure::resolve;

/// The description of a resource and of those that it takes memory from.
pub(super) fn description(resource: &(dyn SynchronousResource + 'static)) -> Description {
    let (resource, structure) = resolve(resource);
    let mut description = metrics(resource, Description::new(resource.name()));
    for (purpose, other) in structure.other_upstreams() {
        description.push_below(Some(purpose.to_string()), self::description(*other));
    }
    if let Some(upstream) = structure.upstream() {
        description.push_below(None, self::description(upstream));
    }
    description
}

/// A value of type `T` that the resource provides.
pub(crate) fn value<T: 'static>(resource: &(impl SynchronousResource + ?Sized)) -> Option<T> {
    let mut slot = None::<T>;
    resource.provide(&mut Query(QueryKind::Value(&mut slot)));
    slot
}

/// The value of type `T` that the resource is, or [provides a view](Query::view) of itself as.
pub(crate) fn downcast_or_view<'a, T: 'static>(
    resource: &'a (dyn SynchronousResource + 'static),
) -> Option<&'a T> {
    if let Some(found) = resource.as_any().downcast_ref() {
        return Some(found);
    }
    let mut query = Query(QueryKind::View { wanted: TypeId::of::<T>(), found: None });
    resource.provide(&mut query);
    let QueryKind::View { found, .. } = query.0 else { return None };
    found?.downcast_ref()
}

/// The first resource of type `T` in the tree that starts here: the stack, then what each of it
/// has beside its upstream, the lowest first.
pub(super) fn find<'a, T: 'static>(
    resource: &'a (dyn SynchronousResource + 'static),
) -> Option<&'a T> {
    if let Some(found) = downcast_or_view(resource) {
        return Some(found);
    }
    let Structure { pointee, upstream, others, .. } = resource.structure();
    if let Some(inner) = pointee {
        return find(inner);
    }
    let others = || others.into_iter().find_map(|(_, other)| find(other));
    upstream.and_then(find).or_else(others)
}

/// The resource's sizes and counters, added to `empty`.
fn metrics<R: SynchronousResource + ?Sized>(resource: &R, empty: Description) -> Description {
    let mut query = Query(QueryKind::Metrics(empty));
    resource.provide(&mut query);
    if let QueryKind::Metrics(description) = query.0 {
        description
    } else {
        unreachable!("a query keeps what it asks for")
    }
}
