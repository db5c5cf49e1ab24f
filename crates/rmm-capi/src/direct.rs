//! The pool behind a handle, called without the indirection of a type-erased resource.
//!
//! Most handles of programs are pools, and a pair of allocation and free that hits the thread's
//! cache takes so few nanoseconds that two calls through function pointers show.

use std::alloc::Layout;

use rmm_adaptors::PoolMemoryResource;
use rmm_core::{AnyResource, DevicePtr, Error, Resource as StreamOrdered, StreamRef};
use rmm_resources::{CudaMemoryResource, VirtualMemoryResource};

/// A pool of one of the types that this crate and specifications make.
#[derive(Debug)]
pub(crate) enum Direct {
    OverAny(PoolMemoryResource<AnyResource>),
    OverCuda(PoolMemoryResource<CudaMemoryResource>),
    OverVirtual(PoolMemoryResource<VirtualMemoryResource>),
    /// Another resource, which is called through its type-erased handle.
    Not,
}

/// Evaluates `$call` for the pool, or for the erased resource.
macro_rules! call {
    ($direct:expr, $any:expr, |$resource:ident| $call:expr) => {
        match $direct {
            Direct::OverAny($resource) => $call,
            Direct::OverCuda($resource) => $call,
            Direct::OverVirtual($resource) => $call,
            Direct::Not => {
                let $resource = $any;
                $call
            }
        }
    };
}

impl Direct {
    pub(crate) fn of(any: &AnyResource<()>) -> Self {
        if let Some(pool) = any.downcast_ref::<PoolMemoryResource<AnyResource>>() {
            Self::OverAny(pool.clone())
        } else if let Some(pool) = any.downcast_ref::<PoolMemoryResource<CudaMemoryResource>>() {
            Self::OverCuda(pool.clone())
        } else if let Some(pool) = any.downcast_ref::<PoolMemoryResource<VirtualMemoryResource>>() {
            Self::OverVirtual(pool.clone())
        } else {
            Self::Not
        }
    }

    /// Allocates from the pool, or from `any`, which is the same resource.
    #[inline]
    pub(crate) fn allocate(
        &self,
        any: &AnyResource<()>,
        stream: StreamRef<'_>,
        layout: Layout,
    ) -> Result<DevicePtr, Error> {
        call!(self, any, |resource| resource.allocate(stream, layout))
    }

    /// Frees what [`allocate`](Self::allocate) returned.
    ///
    /// # Safety
    /// As for [`rmm_core::Resource::deallocate`].
    #[inline]
    pub(crate) unsafe fn deallocate(
        &self,
        any: &AnyResource<()>,
        stream: StreamRef<'_>,
        pointer: DevicePtr,
        layout: Layout,
    ) {
        // SAFETY: the caller's contract is the same.
        call!(self, any, |resource| unsafe { resource.deallocate(stream, pointer, layout) });
    }
}
