//! Typed queries: what a resource says of its memory and of itself.

use std::any::{Any, TypeId};
use std::fmt;

use super::describe::Description;
use crate::property::{PropertyId, PropertySet};

/// A typed query to a resource, in the manner of [`std::error::Error::provide`].
///
/// [`SynchronousResource::provide`](crate::SynchronousResource::provide) answers it: it provides
/// everything that the resource has, and the query keeps what it asks for, so that nothing else is
/// computed. Where one answer is asked for, the first one counts, so that an adaptor may provide
/// its own and then its upstream's [properties](Self::properties_from). Only a
/// [pointer](crate::Structure::pointer_to) passes the whole query on: all other answers are of one
/// resource.
///
/// ```
/// use rmm_core::{DeviceAccessible, HasProperty, Introspect, Query, Structure, SynchronousResource};
/// # use rmm_core::{DevicePtr, Error};
/// # use std::alloc::Layout;
/// use rmm_resources::CudaMemoryResource;
///
/// #[derive(Debug)]
/// struct Halves<R> {
///     upstream: R,
/// }
/// # // SAFETY: every call goes to the upstream, which keeps the contract.
/// # unsafe impl<R: SynchronousResource> SynchronousResource for Halves<R> {
/// #     fn do_allocate_sync(&self, layout: Layout) -> Result<DevicePtr, Error> {
/// #         self.upstream.allocate_sync(layout)
/// #     }
/// #     unsafe fn do_deallocate_sync(&self, pointer: DevicePtr, layout: Layout) {
/// #         // SAFETY: the caller's contract is the same.
/// #         unsafe { self.upstream.deallocate_sync(pointer, layout) }
/// #     }
/// #     fn name(&self) -> &'static str {
/// #         "halves"
/// #     }
/// // in its implementation of `SynchronousResource`:
/// fn structure(&self) -> Structure<'_>
/// where
///     Self: 'static,
/// {
///     Structure::over(&self.upstream)
/// }
///
/// fn provide<'a>(&'a self, query: &mut Query<'a>) {
///     query
///         .properties_from(&self.upstream)
///         .describe(|description| drop(description.count("halves", 2)));
/// }
/// # }
///
/// let halves = Halves { upstream: CudaMemoryResource::new() };
/// assert!(halves.has_property::<DeviceAccessible>());
/// assert_eq!(halves.describe().to_string(), "halves: halves 2\n└─ cuda");
/// ```
#[doc(alias = "get_property")]
pub struct Query<'a>(pub(super) QueryKind<'a>);

/// What a query asks for, and the answer so far.
pub(super) enum QueryKind<'a> {
    HasProperty {
        wanted: PropertyId,
        found: bool,
    },
    /// A slot of the wanted property.
    PropertyValue(&'a mut dyn Any),
    PropertyList(Vec<PropertyId>),
    Metrics(Description),
    /// An `Option` of the wanted type.
    Value(&'a mut dyn Any),
    View {
        wanted: TypeId,
        found: Option<&'a dyn Any>,
    },
}

impl<'a> Query<'a> {
    /// The resource's sizes and counters, for people. The closure runs only if a description is
    /// requested.
    pub fn describe(&mut self, describe: impl FnOnce(&mut Description)) -> &mut Self {
        if let QueryKind::Metrics(description) = &mut self.0 {
            describe(description);
        }
        self
    }

    /// A value of any other type, for
    /// [`Introspect::try_value`](crate::Introspect::try_value).
    ///
    /// ```
    /// use rmm_core::{Introspect, Query, SynchronousResource};
    /// # use rmm_core::{DevicePtr, Error};
    /// # use std::alloc::Layout;
    ///
    /// /// A new ability of resources.
    /// struct NumaNode(u32);
    ///
    /// # #[derive(Debug)]
    /// # struct Near;
    /// # // SAFETY: it hands nothing out.
    /// # unsafe impl SynchronousResource for Near {
    /// #     fn do_allocate_sync(&self, _: Layout) -> Result<DevicePtr, Error> {
    /// #         Err(Error::out_of_memory("near"))
    /// #     }
    /// #     unsafe fn do_deallocate_sync(&self, _: DevicePtr, _: Layout) {}
    /// #     fn name(&self) -> &'static str {
    /// #         "near"
    /// #     }
    /// fn provide<'a>(&'a self, query: &mut Query<'a>) {
    ///     query.value(|| NumaNode(1));
    /// }
    /// # }
    /// let node = Near.try_value::<NumaNode>().expect("it is provided");
    /// assert_eq!(node.0, 1);
    /// ```
    pub fn value<T: 'static>(&mut self, value: impl FnOnce() -> T) -> &mut Self {
        if let QueryKind::Value(slot) = &mut self.0
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
        if let QueryKind::View { wanted, found: found @ None } = &mut self.0
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

    pub(super) fn note(&mut self, id: PropertyId) {
        match &mut self.0 {
            QueryKind::HasProperty { wanted, found } => *found |= *wanted == id,
            QueryKind::PropertyList(list) if !list.contains(&id) => list.push(id),
            _ => {}
        }
    }
}

impl fmt::Debug for Query<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Query").finish_non_exhaustive()
    }
}
