//! The pool behind a handle, called without the indirection of a type-erased resource.
//!
//! Most handles of programs are pools, and a pair of allocation and free that hits the thread's
//! cache takes so few nanoseconds that two calls through function pointers show.

use std::alloc::Layout;

use rmm_adaptors::{PoolMemoryResource, PoolStatistics};
use rmm_core::{
    AnyResource, DevicePtr, Error, Introspect as _, Resource as StreamOrdered, StreamRef,
};
use rmm_resources::{BackingMemoryResource, CudaMemoryResource, VirtualMemoryResource};

use crate::library::RMM_RS_UNKNOWN;

/// A pool of one of the types that this crate and specifications make.
#[derive(Debug)]
pub(crate) enum Direct {
    OverAny(PoolMemoryResource<AnyResource>),
    OverBacking(PoolMemoryResource<BackingMemoryResource>),
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
            Direct::OverBacking($resource) => $call,
            Direct::OverCuda($resource) => $call,
            Direct::OverVirtual($resource) => $call,
            Direct::Not => {
                let $resource = $any;
                $call
            }
        }
    };
}

/// Evaluates `$call` for the pool, if there is one.
macro_rules! on_pool {
    ($direct:expr, |$pool:ident| $call:expr) => {
        match $direct {
            Direct::OverAny($pool) => Some($call),
            Direct::OverBacking($pool) => Some($call),
            Direct::OverCuda($pool) => Some($call),
            Direct::OverVirtual($pool) => Some($call),
            Direct::Not => None,
        }
    };
}

/// The first pool among the types that `$find` looks for.
macro_rules! first_pool {
    ($any:expr, $find:ident) => {
        if let Some(pool) = $any.$find::<PoolMemoryResource<AnyResource>>() {
            Direct::OverAny(pool.clone())
        } else if let Some(pool) = $any.$find::<PoolMemoryResource<BackingMemoryResource>>() {
            Direct::OverBacking(pool.clone())
        } else if let Some(pool) = $any.$find::<PoolMemoryResource<CudaMemoryResource>>() {
            Direct::OverCuda(pool.clone())
        } else if let Some(pool) = $any.$find::<PoolMemoryResource<VirtualMemoryResource>>() {
            Direct::OverVirtual(pool.clone())
        } else {
            Direct::Not
        }
    };
}

impl Direct {
    /// The resource itself.
    pub(crate) fn of(any: &AnyResource<()>) -> Self {
        first_pool!(any, downcast_ref)
    }

    /// The first pool of its stack.
    pub(crate) fn in_stack(any: &AnyResource<()>) -> Self {
        first_pool!(any, find)
    }

    pub(crate) fn statistics(&self) -> Option<PoolStatistics> {
        on_pool!(self, |pool| pool.statistics())
    }

    pub(crate) fn reserved_bytes(&self) -> Option<u64> {
        on_pool!(self, |pool| pool.reserved_bytes())
    }

    /// The most bytes that the pool may reserve, [`RMM_RS_UNKNOWN`] without a limit.
    pub(crate) fn maximum_size(&self) -> Option<u64> {
        on_pool!(self, |pool| pool.maximum_size().unwrap_or(RMM_RS_UNKNOWN))
    }

    /// [`RMM_RS_UNKNOWN`] lifts the limit.
    pub(crate) fn set_maximum_size(&self, bytes: u64) -> Option<Result<(), Error>> {
        let most = Some(bytes).filter(|&bytes| bytes != RMM_RS_UNKNOWN);
        on_pool!(self, |pool| pool.set_maximum_size(most))
    }

    pub(crate) fn trim(&self, keep: u64) -> Option<u64> {
        on_pool!(self, |pool| pool.trim(keep))
    }

    pub(crate) fn release_unused(&self) -> Option<u64> {
        on_pool!(self, |pool| pool.release_unused())
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
