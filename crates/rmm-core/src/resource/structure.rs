//! The structure of a resource: its upstreams and interfaces.

use std::borrow::Cow;
use std::fmt;

use super::concept::{ExtendableResource, Structure, SynchronousResource};
use super::trim::TrimmableResource;

impl<'a> Structure<'a> {
    /// That of a resource which takes its memory from `upstream`.
    #[doc(alias = "get_upstream_resource")]
    pub fn over<R: SynchronousResource + ?Sized + 'static>(upstream: &'a R) -> Self {
        Self { upstream: Some(upstream.as_dyn()), ..Self::default() }
    }

    /// That of a resource which is only a pointer to another: a `Box`, or a type-erased resource.
    /// Whatever else there is, is the other's.
    pub fn pointer_to<R: SynchronousResource + ?Sized + 'static>(pointee: &'a R) -> Self {
        Self { pointee: Some(pointee.as_dyn()), ..Self::default() }
    }

    /// Adds a resource that this one takes memory from beside its [upstream](Self::over), and its
    /// purpose: a bin, or a fallback for when the first is out of memory.
    #[must_use]
    pub fn and<R: SynchronousResource + ?Sized + 'static>(
        mut self,
        purpose: impl Into<Cow<'static, str>>,
        upstream: &'a R,
    ) -> Self {
        self.others.push((purpose.into(), upstream.as_dyn()));
        self
    }

    /// Adds the resource's in-place growth interface. An adaptor has none unless it passes its
    /// upstream's blocks through unchanged and tracks none of them.
    #[must_use]
    pub fn with_extendable(self, extendable: &'a (dyn ExtendableResource + 'static)) -> Self {
        Self { extendable: Some(extendable), ..self }
    }

    /// Adds the resource's interface to return free memory that it holds itself. An adaptor has
    /// none: a [trim of the stack](crate::Introspect::trim_stack) goes on to its upstream.
    #[must_use]
    pub fn with_trimmable(self, trimmable: &'a (dyn TrimmableResource + 'static)) -> Self {
        Self { trimmable: Some(trimmable), ..self }
    }

    /// The resource that this one takes its memory from.
    pub fn upstream(&self) -> Option<&'a (dyn SynchronousResource + 'static)> {
        self.upstream
    }

    /// The resources that this one takes memory from beside its upstream, and the purpose of each.
    pub fn other_upstreams(
        &self,
    ) -> &[(Cow<'static, str>, &'a (dyn SynchronousResource + 'static))] {
        &self.others
    }

    /// Every resource that this one takes memory from, the upstream last: bins come before the
    /// upstream that they may share.
    pub fn upstreams(
        &self,
    ) -> impl Iterator<Item = &'a (dyn SynchronousResource + 'static)> + use<'_, 'a> {
        self.others.iter().map(|&(_, other)| other).chain(self.upstream)
    }

    /// The resource's in-place growth interface.
    pub fn extendable(&self) -> Option<&'a (dyn ExtendableResource + 'static)> {
        self.extendable
    }

    /// The resource's interface to return free memory.
    pub fn trimmable(&self) -> Option<&'a (dyn TrimmableResource + 'static)> {
        self.trimmable
    }

    /// The structure of the resource behind all pointers.
    pub(crate) fn of(resource: &'a (dyn SynchronousResource + 'static)) -> Self {
        resolve(resource).1
    }
}

impl fmt::Debug for Structure<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let others: Vec<&str> = self.others.iter().map(|(purpose, _)| &**purpose).collect();
        f.debug_struct("Structure")
            .field("pointee", &self.pointee.map(SynchronousResource::name))
            .field("upstream", &self.upstream.map(SynchronousResource::name))
            .field("other_upstreams", &others)
            .field("extendable", &self.extendable.is_some())
            .field("trimmable", &self.trimmable.is_some())
            .finish()
    }
}

/// The resource that this one is a pointer to.
pub(crate) fn pointee<'a>(
    resource: &'a (dyn SynchronousResource + 'static),
) -> Option<&'a (dyn SynchronousResource + 'static)> {
    resource.structure().pointee
}

/// The resource behind all pointers, and its structure.
pub(super) fn resolve<'a>(
    resource: &'a (dyn SynchronousResource + 'static),
) -> (&'a (dyn SynchronousResource + 'static), Structure<'a>) {
    let mut resource = resource;
    loop {
        let structure = resource.structure();
        let Some(inner) = structure.pointee else { return (resource, structure) };
        resource = inner;
    }
}

/// The resource behind all pointers.
pub(crate) fn behind_pointers<'a>(
    resource: &'a (dyn SynchronousResource + 'static),
) -> &'a (dyn SynchronousResource + 'static) {
    resolve(resource).0
}
