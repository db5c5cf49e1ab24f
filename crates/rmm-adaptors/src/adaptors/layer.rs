//! Shared implementation of all adaptors: a handle to a layer over an upstream. The memory is the
//! upstream's.

use std::alloc::Layout;
use std::fmt::Debug;

use rmm_core::adaptor_support::Calls;
use rmm_core::siblings::LimitId;
use rmm_core::{Description, DevicePtr, Error, Query};

/// The behaviour of an adaptor: what it does before and after it calls upstream.
///
/// # Safety
/// The layer keeps the contract of `AdaptedResource`, which the macro `handle!` implements with
/// it.
pub(crate) unsafe trait Layer: Debug + Send + Sync {
    const NAME: &'static str;

    fn allocate(&self, upstream: &impl Calls, layout: Layout) -> Result<DevicePtr, Error>;

    /// # Safety
    /// As `AdaptedResource::free_through`.
    unsafe fn deallocate(&self, upstream: &impl Calls, pointer: DevicePtr, layout: Layout);

    /// The adaptor as something that refuses requests by a limit of its own, if it does.
    fn limit_id(&self) -> Option<LimitId> {
        None
    }

    /// Adds the fields of the adaptor to a description of the resource.
    fn describe(&self, _: &mut Description) {}

    /// Answers further queries that concern the adaptor.
    fn provide<'a>(&'a self, _: &mut Query<'a>) {}
}

/// The shared state behind all clones of an adaptor.
#[derive(Debug)]
pub(crate) struct Handle<U, L> {
    // Dropped before the upstream.
    pub(crate) layer: L,
    pub(crate) upstream: U,
}

/// The size of a layout, rounded up to a multiple of a power of two. Never overflows: sizes are at
/// most `isize::MAX`, so the result is at most `isize::MAX + 1`.
#[inline]
pub(crate) fn rounded_up(layout: Layout, alignment: usize) -> usize {
    (layout.size() + (alignment - 1)) & !(alignment - 1)
}

/// Defines a handle to a layer over an upstream. Clones share the layer and are equal.
macro_rules! handle {
    ($(#[$meta:meta])* $name:ident($layer:ty)) => {
        $(#[$meta])*
        pub struct $name<U> {
            inner: std::sync::Arc<$crate::adaptors::layer::Handle<U, $layer>>,
        }

        impl<U> $name<U> {
            fn over(upstream: U, layer: $layer) -> Self {
                Self { inner: std::sync::Arc::new($crate::adaptors::layer::Handle { layer, upstream }) }
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
        unsafe impl<U: rmm_core::SynchronousResource> rmm_core::adaptor_support::AdaptedResource for $name<U> {
            type Upstream = U;

            #[inline]
            fn below(&self) -> &U {
                &self.inner.upstream
            }

            #[inline]
            fn allocate_through<C: rmm_core::adaptor_support::Calls>(
                &self,
                calls: &C,
                layout: std::alloc::Layout,
            ) -> Result<rmm_core::DevicePtr, rmm_core::Error> {
                $crate::adaptors::layer::Layer::allocate(&self.inner.layer, calls, layout)
            }

            #[inline]
            unsafe fn free_through<C: rmm_core::adaptor_support::Calls>(
                &self,
                calls: &C,
                pointer: rmm_core::DevicePtr,
                layout: std::alloc::Layout,
            ) {
                // SAFETY: the caller's contract is the same.
                unsafe { $crate::adaptors::layer::Layer::deallocate(&self.inner.layer, calls, pointer, layout) }
            }

            fn adaptor_name(&self) -> &'static str {
                <$layer as $crate::adaptors::layer::Layer>::NAME
            }

            fn provide_more<'a>(&'a self, query: &mut rmm_core::Query<'a>) {
                let layer = &self.inner.layer;
                query.describe(|it| $crate::adaptors::layer::Layer::describe(layer, it));
                $crate::adaptors::layer::Layer::provide(layer, query);
                if let Some(limit) = $crate::adaptors::layer::Layer::limit_id(layer) {
                    query.value(|| limit);
                }
            }
        }

        rmm_core::__resource_of_adaptor!($name<U>, {
            rmm_core::__by_clone!(to_any_sync);
        }, {
            rmm_core::__by_clone!(to_any);
        });
    };
}

pub(crate) use handle;
