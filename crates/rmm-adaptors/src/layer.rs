//! What adaptors share: a handle to an upstream and a layer over it, whose memory is the
//! upstream's.

use std::alloc::Layout;
use std::fmt::Debug;

use rmm_core::{Description, DevicePtr, Error, Resource, StreamRef, SyncResource};

/// The upstream as one call sees it: in a stream's order, or for anybody at once.
pub(crate) trait Below: Copy {
    /// The stream, unless the call is synchronous.
    fn stream(&self) -> Option<StreamRef<'_>>;

    fn allocate(self, layout: Layout) -> Result<DevicePtr, Error>;

    /// # Safety
    /// As [`Resource::deallocate`] or [`SyncResource::deallocate_sync`].
    unsafe fn deallocate(self, pointer: DevicePtr, layout: Layout);
}

/// What an adaptor does with a call.
///
/// # Safety
/// Through [`Below`] as its upstream, the layer keeps the contract of [`SyncResource`] and
/// [`Resource`], which are implemented by it.
pub(crate) unsafe trait Layer: Debug + Send + Sync {
    const NAME: &'static str;

    fn allocate(&self, below: impl Below, layout: Layout) -> Result<DevicePtr, Error>;

    /// # Safety
    /// As [`Resource::deallocate`] or [`SyncResource::deallocate_sync`]; `below` is in the same
    /// order.
    unsafe fn deallocate(&self, below: impl Below, pointer: DevicePtr, layout: Layout);

    /// As [`Request::describe`].
    fn tell(&self, description: &mut Description);
}

/// What the handles to an adaptor share.
#[derive(Debug)]
pub(crate) struct Layered<U, L> {
    // Ends before what is below it.
    pub(crate) layer: L,
    pub(crate) upstream: U,
}

pub(crate) struct Synchronously<'a, U>(pub(crate) &'a U);

pub(crate) struct OnStream<'a, U>(pub(crate) &'a U, pub(crate) StreamRef<'a>);

impl<U> Clone for Synchronously<'_, U> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<U> Copy for Synchronously<'_, U> {}

impl<U> Clone for OnStream<'_, U> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<U> Copy for OnStream<'_, U> {}

impl<U: SyncResource> Below for Synchronously<'_, U> {
    fn stream(&self) -> Option<StreamRef<'_>> {
        None
    }

    #[inline]
    fn allocate(self, layout: Layout) -> Result<DevicePtr, Error> {
        self.0.allocate_sync(layout)
    }

    #[inline]
    unsafe fn deallocate(self, pointer: DevicePtr, layout: Layout) {
        // SAFETY: the caller's contract is the same.
        unsafe { self.0.deallocate_sync(pointer, layout) }
    }
}

impl<U: Resource> Below for OnStream<'_, U> {
    fn stream(&self) -> Option<StreamRef<'_>> {
        Some(self.1)
    }

    #[inline]
    fn allocate(self, layout: Layout) -> Result<DevicePtr, Error> {
        self.0.allocate(self.1, layout)
    }

    #[inline]
    unsafe fn deallocate(self, pointer: DevicePtr, layout: Layout) {
        // SAFETY: the caller's contract is the same.
        unsafe { self.0.deallocate(self.1, pointer, layout) }
    }
}

/// A layout's size, rounded up to a multiple of a power of two. It always fits: a size is at most
/// `isize::MAX`, so that this is at most one more.
#[inline]
pub(crate) fn rounded_up(layout: Layout, alignment: usize) -> usize {
    (layout.size() + (alignment - 1)) & !(alignment - 1)
}

/// Forwards to the upstream what an adaptor's memory can do.
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

/// Defines an adaptor: a handle to a layer over an upstream, that is equal to its clones.
macro_rules! adaptor {
    ($(#[$meta:meta])* $name:ident($layer:ty)) => {
        $(#[$meta])*
        pub struct $name<U> {
            inner: std::sync::Arc<$crate::layer::Layered<U, $layer>>,
        }

        impl<U> $name<U> {
            fn over(upstream: U, layer: $layer) -> Self {
                Self { inner: std::sync::Arc::new($crate::layer::Layered { layer, upstream }) }
            }

            /// The resource that the memory is taken from.
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
            /// Whether both are handles to one adaptor.
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

        // SAFETY: the layer keeps the contract.
        unsafe impl<U: rmm_core::SyncResource> rmm_core::SyncResource for $name<U> {
            fn allocate_sync(
                &self,
                layout: std::alloc::Layout,
            ) -> Result<rmm_core::DevicePtr, rmm_core::Error> {
                let below = $crate::layer::Synchronously(&self.inner.upstream);
                $crate::layer::Layer::allocate(&self.inner.layer, below, layout)
            }

            unsafe fn deallocate_sync(
                &self,
                pointer: rmm_core::DevicePtr,
                layout: std::alloc::Layout,
            ) {
                let below = $crate::layer::Synchronously(&self.inner.upstream);
                // SAFETY: the caller's contract is the same.
                unsafe { $crate::layer::Layer::deallocate(&self.inner.layer, below, pointer, layout) }
            }

            fn name(&self) -> &'static str {
                <$layer as $crate::layer::Layer>::NAME
            }

            fn provide<'a>(&'a self, request: &mut rmm_core::Request<'a>) {
                let upstream = &self.inner.upstream;
                request.handle(self).upstream(upstream).properties_from(upstream).describe(
                    |description| $crate::layer::Layer::tell(&self.inner.layer, description),
                );
            }
        }

        // SAFETY: as above.
        unsafe impl<U: rmm_core::Resource> rmm_core::Resource for $name<U> {
            #[inline]
            fn do_allocate(
                &self,
                stream: rmm_core::StreamRef<'_>,
                layout: std::alloc::Layout,
            ) -> Result<rmm_core::DevicePtr, rmm_core::Error> {
                let below = $crate::layer::OnStream(&self.inner.upstream, stream);
                $crate::layer::Layer::allocate(&self.inner.layer, below, layout)
            }

            #[inline]
            unsafe fn do_deallocate(
                &self,
                stream: rmm_core::StreamRef<'_>,
                pointer: rmm_core::DevicePtr,
                layout: std::alloc::Layout,
            ) {
                let below = $crate::layer::OnStream(&self.inner.upstream, stream);
                // SAFETY: the caller's contract is the same.
                unsafe { $crate::layer::Layer::deallocate(&self.inner.layer, below, pointer, layout) }
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
