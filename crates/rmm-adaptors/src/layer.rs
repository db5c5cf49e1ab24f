//! Shared implementation of all adaptors: a handle to a layer over an upstream, and a macro that
//! implements the resource traits for it. The memory is the upstream's.

use std::alloc::Layout;
use std::fmt::Debug;

use rmm_core::siblings::LimitId;
use rmm_core::{Description, DevicePtr, Error, Resource, StreamRef, SyncResource};

/// The upstream as seen by one call: synchronous, or in the order of a stream.
pub(crate) trait Upstream {
    /// The stream of the call; `None` if it is synchronous.
    fn stream(&self) -> Option<StreamRef<'_>>;

    fn allocate(&self, layout: Layout) -> Result<DevicePtr, Error>;

    /// # Safety
    /// As [`Resource::deallocate`] or [`SyncResource::deallocate_sync`].
    unsafe fn deallocate(&self, pointer: DevicePtr, layout: Layout);
}

/// The behaviour of an adaptor: what it does before and after it calls upstream.
///
/// # Safety
/// The layer keeps the contract of [`SyncResource`] and [`Resource`], which the `adaptor!` macro
/// implements with it, as long as the [`Upstream`] keeps it.
pub(crate) unsafe trait Layer: Debug + Send + Sync {
    const NAME: &'static str;

    fn allocate(&self, upstream: &impl Upstream, layout: Layout) -> Result<DevicePtr, Error>;

    /// # Safety
    /// As [`Resource::deallocate`] or [`SyncResource::deallocate_sync`]. `upstream` is ordered on
    /// the same stream as the call, or synchronous if the call is.
    unsafe fn deallocate(&self, upstream: &impl Upstream, pointer: DevicePtr, layout: Layout);

    /// The adaptor as something that refuses requests by a limit of its own, if it does.
    fn limit_id(&self) -> Option<LimitId> {
        None
    }

    /// Adds the fields of the adaptor to a description of the resource.
    fn describe(&self, _: &mut Description) {}
}

/// The shared state behind all clones of an adaptor.
#[derive(Debug)]
pub(crate) struct Handle<U, L> {
    // Dropped before the upstream.
    pub(crate) layer: L,
    pub(crate) upstream: U,
}

pub(crate) struct SyncUpstream<'a, U>(pub(crate) &'a U);

pub(crate) struct StreamUpstream<'a, U>(pub(crate) &'a U, pub(crate) StreamRef<'a>);

impl<U: SyncResource> Upstream for SyncUpstream<'_, U> {
    fn stream(&self) -> Option<StreamRef<'_>> {
        None
    }

    #[inline]
    fn allocate(&self, layout: Layout) -> Result<DevicePtr, Error> {
        self.0.do_allocate_sync(layout)
    }

    #[inline]
    unsafe fn deallocate(&self, pointer: DevicePtr, layout: Layout) {
        // SAFETY: the caller's contract is the same.
        unsafe { self.0.do_deallocate_sync(pointer, layout) }
    }
}

impl<U: Resource> Upstream for StreamUpstream<'_, U> {
    fn stream(&self) -> Option<StreamRef<'_>> {
        Some(self.1)
    }

    #[inline]
    fn allocate(&self, layout: Layout) -> Result<DevicePtr, Error> {
        self.0.do_allocate(self.1, layout)
    }

    #[inline]
    unsafe fn deallocate(&self, pointer: DevicePtr, layout: Layout) {
        // SAFETY: the caller's contract is the same.
        unsafe { self.0.do_deallocate(self.1, pointer, layout) }
    }
}

/// The size of a layout, rounded up to a multiple of a power of two. Never overflows: sizes are at
/// most `isize::MAX`, so the result is at most `isize::MAX + 1`.
#[inline]
pub(crate) fn rounded_up(layout: Layout, alignment: usize) -> usize {
    (layout.size() + (alignment - 1)) & !(alignment - 1)
}

/// Implements the property traits for an adaptor by forwarding to its upstream.
macro_rules! memory_of_upstream {
    ($name:ident) => {
        // SAFETY: the memory is the upstream's.
        unsafe impl<P: rmm_core::Property, U: rmm_core::HasProperty<P>> rmm_core::HasProperty<P>
            for $name<U>
        {
        }

        impl<P: rmm_core::PropertyWithValue, U: rmm_core::HasPropertyValue<P>>
            rmm_core::HasPropertyValue<P> for $name<U>
        {
            fn property_value(&self) -> P::Value {
                self.upstream().property_value()
            }
        }

        // SAFETY: the memory is the upstream's.
        unsafe impl<U: rmm_core::HasMemoryKind> rmm_core::HasMemoryKind for $name<U> {
            const KIND: rmm_core::MemoryKind = U::KIND;
            const CAPS: rmm_core::MemoryCaps = U::CAPS;
        }
    };
}

/// Defines an adaptor: a handle to a layer over an upstream. Clones share the layer and are equal.
macro_rules! adaptor {
    ($(#[$meta:meta])* $name:ident($layer:ty)) => {
        $(#[$meta])*
        pub struct $name<U> {
            inner: std::sync::Arc<$crate::layer::Handle<U, $layer>>,
        }

        impl<U> $name<U> {
            fn over(upstream: U, layer: $layer) -> Self {
                Self { inner: std::sync::Arc::new($crate::layer::Handle { layer, upstream }) }
            }

            /// The upstream resource.
            #[doc(alias = "get_upstream_resource")]
            pub fn upstream(&self) -> &U {
                &self.inner.upstream
            }
        }

        impl<U> Clone for $name<U> {
            fn clone(&self) -> Self {
                Self { inner: std::sync::Arc::clone(&self.inner) }
            }
        }

        impl<U> PartialEq for $name<U> {
            /// Whether both are handles to the same adaptor.
            fn eq(&self, other: &Self) -> bool {
                std::sync::Arc::ptr_eq(&self.inner, &other.inner)
            }
        }

        impl<U> Eq for $name<U> {}

        impl<U: std::fmt::Debug> std::fmt::Debug for $name<U> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let inner = &*self.inner;
                let mut fields = f.debug_struct(stringify!($name));
                fields.field("layer", &inner.layer).field("upstream", &inner.upstream).finish()
            }
        }

        // SAFETY: the layer keeps the contract, by its own.
        unsafe impl<U: rmm_core::SyncResource> rmm_core::SyncResource for $name<U> {
            fn do_allocate_sync(
                &self,
                layout: std::alloc::Layout,
            ) -> Result<rmm_core::DevicePtr, rmm_core::Error> {
                rmm_core::fork::check()?;
                let upstream = $crate::layer::SyncUpstream(&self.inner.upstream);
                $crate::layer::Layer::allocate(&self.inner.layer, &upstream, layout)
            }

            unsafe fn do_deallocate_sync(
                &self,
                pointer: rmm_core::DevicePtr,
                layout: std::alloc::Layout,
            ) {
                if rmm_core::fork::is_child() {
                    return;
                }
                let upstream = $crate::layer::SyncUpstream(&self.inner.upstream);
                // SAFETY: the caller's contract is the same.
                unsafe { $crate::layer::Layer::deallocate(&self.inner.layer, &upstream, pointer, layout) }
            }

            fn name(&self) -> &'static str {
                <$layer as $crate::layer::Layer>::NAME
            }

            fn structure(&self) -> rmm_core::Structure<'_>
            where
                Self: 'static,
            {
                rmm_core::Structure::over(&self.inner.upstream)
            }

            fn to_any_sync(&self) -> Option<rmm_core::AnySyncResource<()>>
            where
                Self: 'static,
            {
                Some(rmm_core::AnySyncResource::of(self))
            }

            fn provide<'a>(&'a self, query: &mut rmm_core::Query<'a>) {
                query.value(|| rmm_core::siblings::MayBeWaitedFor);
                query.properties_from(&self.inner.upstream).describe(|description| {
                    $crate::layer::Layer::describe(&self.inner.layer, description);
                });
                if let Some(limit) = $crate::layer::Layer::limit_id(&self.inner.layer) {
                    query.value(|| limit);
                }
            }
        }

        // SAFETY: the layer keeps the contract, by its own.
        unsafe impl<U: rmm_core::Resource> rmm_core::Resource for $name<U> {
            #[inline]
            fn do_allocate(
                &self,
                stream: rmm_core::StreamRef<'_>,
                layout: std::alloc::Layout,
            ) -> Result<rmm_core::DevicePtr, rmm_core::Error> {
                rmm_core::fork::check()?;
                let upstream = $crate::layer::StreamUpstream(&self.inner.upstream, stream);
                $crate::layer::Layer::allocate(&self.inner.layer, &upstream, layout)
            }

            #[inline]
            unsafe fn do_deallocate(
                &self,
                stream: rmm_core::StreamRef<'_>,
                pointer: rmm_core::DevicePtr,
                layout: std::alloc::Layout,
            ) {
                if rmm_core::fork::is_child() {
                    return;
                }
                let upstream = $crate::layer::StreamUpstream(&self.inner.upstream, stream);
                // SAFETY: the caller's contract is the same.
                unsafe { $crate::layer::Layer::deallocate(&self.inner.layer, &upstream, pointer, layout) }
            }

            fn to_any(&self) -> Option<rmm_core::AnyResource<()>>
            where
                Self: 'static,
            {
                Some(rmm_core::AnyResource::of(self))
            }
        }

        $crate::layer::memory_of_upstream!($name);
    };
}

pub(crate) use {adaptor, memory_of_upstream};
