//! The requests that the library makes, each as a function of the resource.

use std::any::TypeId;
use std::sync::Arc;

use super::concept::{ErasedSync, Query, Request, SyncResource};
use super::describe::Description;
use super::extendable::ExtendableResource;
use super::trim::TrimmableResource;

/// The description of a resource and of those that it takes memory from.
pub(super) fn description(resource: &(dyn SyncResource + 'static)) -> Description {
    let mut resource = resource;
    while let Some(inner) = pointee(resource) {
        resource = inner;
    }
    let mut description = metrics(resource, Description::new(resource.name()));
    for (purpose, other) in other_upstreams(resource) {
        description.push_below(Some(purpose), self::description(other));
    }
    if let Some(upstream) = upstream(resource) {
        description.push_below(None, self::description(upstream));
    }
    description
}

/// The resource's in-place growth interface.
pub(crate) fn extendable<R: SyncResource + ?Sized>(
    resource: &R,
) -> Option<&dyn ExtendableResource> {
    let mut request = Request(Query::Extendable(None));
    resource.provide(&mut request);
    if let Query::Extendable(answer) = request.0 { answer } else { None }
}

/// The resource's interface to return free memory.
pub(super) fn trimmable<R: SyncResource + ?Sized>(resource: &R) -> Option<&dyn TrimmableResource> {
    let mut request = Request(Query::Trimmable(None));
    resource.provide(&mut request);
    if let Query::Trimmable(answer) = request.0 { answer } else { None }
}

/// A value of type `T` that the resource provides.
pub(crate) fn value<T: 'static>(resource: &(impl SyncResource + ?Sized)) -> Option<T> {
    let mut slot = None::<T>;
    resource.provide(&mut Request(Query::Value(&mut slot)));
    slot
}

/// The value of type `T` that the resource is, or [provides a view](Request::view) of itself as.
pub(crate) fn itself<'a, T: 'static>(resource: &'a (dyn SyncResource + 'static)) -> Option<&'a T> {
    if let Some(found) = resource.as_any().downcast_ref() {
        return Some(found);
    }
    let mut request = Request(Query::View { wanted: TypeId::of::<T>(), found: None });
    resource.provide(&mut request);
    let Query::View { found, .. } = request.0 else { return None };
    found?.downcast_ref()
}

/// The resource's sizes and counters, added to `empty`.
fn metrics<R: SyncResource + ?Sized>(resource: &R, empty: Description) -> Description {
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

/// The resources beside the upstream that this one takes memory from, and the purpose of each.
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

/// Extends the lifetime of a resource's type to `'static`.
///
/// # Safety
/// A resource of a `'static` type provided it, so that its type is `'static` by the contract of
/// [`SyncResource`].
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
