//! The adaptors that `protocol` times, over the pool: `peers/adaptors.hpp` makes RMM's in the same way.

use rmm_adaptors::{
    AlignedResourceAdaptor, CallbackMemoryResource, FailureCallbackResourceAdaptor,
    FallbackMemoryResource, LimitingResourceAdaptor, LoggingResourceAdaptor, PoolMemoryResource,
    PrefetchResourceAdaptor, StatisticsResourceAdaptor, TaggedResourceAdaptor,
    ThreadSafeResourceAdaptor, TrackingResourceAdaptor,
};
use rmm_core::{AnyResource, Resource as _, StreamRef};
use rmm_resources::{CudaMemoryResource, ManagedMemoryResource};

use crate::setup::POOL_BYTES;
use crate::workloads::Outcome;

/// What the adaptors are over.
pub type Pool = PoolMemoryResource<CudaMemoryResource>;

/// An adaptor by its name in the rows.
#[derive(Debug)]
pub struct Adaptor {
    /// The name.
    pub name: &'static str,
    /// Makes one.
    pub over: fn(Pool) -> Outcome<AnyResource>,
}

/// Every adaptor. RMM has those of the same names; the others are timed as well.
pub const ADAPTORS: &[Adaptor] = &[
    Adaptor {
        name: "aligned_256",
        over: |pool| Ok(AnyResource::new(AlignedResourceAdaptor::new(pool, 256)?)),
    },
    Adaptor {
        name: "aligned_4096",
        over: |pool| Ok(AnyResource::new(AlignedResourceAdaptor::new(pool, 4096)?)),
    },
    Adaptor { name: "callback", over: |pool| Ok(AnyResource::new(callback_to(pool))) },
    Adaptor {
        name: "failure_callback",
        over: |pool| Ok(AnyResource::new(FailureCallbackResourceAdaptor::new(pool, |_| false))),
    },
    Adaptor {
        name: "fallback",
        over: |pool| {
            let second = ManagedMemoryResource::new();
            Ok(AnyResource::new(FallbackMemoryResource::new(pool, second)))
        },
    },
    Adaptor {
        name: "limiting",
        over: |pool| Ok(AnyResource::new(LimitingResourceAdaptor::new(pool, POOL_BYTES as u64))),
    },
    Adaptor {
        name: "logging",
        over: |pool| Ok(AnyResource::new(LoggingResourceAdaptor::create(pool, NULL_FILE)?)),
    },
    Adaptor {
        name: "prefetch",
        over: |pool| Ok(AnyResource::new(PrefetchResourceAdaptor::new(pool))),
    },
    Adaptor {
        name: "statistics",
        over: |pool| Ok(AnyResource::new(StatisticsResourceAdaptor::new(pool))),
    },
    Adaptor { name: "tagged", over: |pool| Ok(AnyResource::new(TaggedResourceAdaptor::new(pool))) },
    Adaptor {
        name: "thread_safe",
        over: |pool| Ok(AnyResource::new(ThreadSafeResourceAdaptor::new(pool))),
    },
    Adaptor {
        name: "tracking",
        over: |pool| Ok(AnyResource::new(TrackingResourceAdaptor::new(pool))),
    },
];

/// A file that keeps nothing, so that a log costs the adaptor's work and the calls of the system.
const NULL_FILE: &str = if cfg!(windows) { "NUL" } else { "/dev/null" };

fn callback_to(pool: Pool) -> CallbackMemoryResource {
    let same_pool = pool.clone();
    let allocate = move |stream: StreamRef<'_>, layout| pool.allocate(stream, layout);
    let free = move |stream: StreamRef<'_>, pointer, layout| {
        // SAFETY: it was allocated by the other function, with this layout.
        unsafe { same_pool.deallocate(stream, pointer, layout) }
    };
    // SAFETY: the functions are those of a resource.
    unsafe { CallbackMemoryResource::new(allocate, free) }
}
