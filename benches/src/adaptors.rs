//! The adaptors that `protocol` times, over the pool and over a resource that does nothing.
//! `peers/adaptors.hpp` makes RMM's in the same way.

use rmm_adaptors::{
    AlignedResourceAdaptor, CallbackMemoryResource, FailureCallbackResourceAdaptor,
    FallbackMemoryResource, LimitingResourceAdaptor, LoggingResourceAdaptor, PoolMemoryResource,
    PrefetchResourceAdaptor, StatisticsResourceAdaptor, TaggedResourceAdaptor,
    ThreadSafeResourceAdaptor, TrackingResourceAdaptor,
};
use rmm_core::{AnyResource, DeviceAccessible, HasProperty, Resource, StreamRef};
use rmm_resources::{CudaMemoryResource, ManagedMemoryResource};

use crate::outcome::Outcome;
use crate::setup::POOL_BYTES;

/// What the adaptors are over.
pub type Pool = PoolMemoryResource<CudaMemoryResource>;

/// An adaptor by its name in the rows.
#[derive(Debug)]
pub struct Adaptor<U> {
    /// The name.
    pub name: &'static str,
    /// Makes one.
    pub over: fn(U) -> Outcome<AnyResource>,
}

/// Every adaptor. RMM has those of the same names; the others are timed as well.
pub fn adaptors<U>() -> [Adaptor<U>; 12]
where
    U: Resource + HasProperty<DeviceAccessible> + PartialEq + Clone + 'static,
{
    [
        Adaptor {
            name: "aligned_256",
            over: |up| Ok(AnyResource::new(AlignedResourceAdaptor::new(up, 256)?)),
        },
        Adaptor {
            name: "aligned_4096",
            over: |up| Ok(AnyResource::new(AlignedResourceAdaptor::new(up, 4096)?)),
        },
        Adaptor { name: "callback", over: |up| Ok(AnyResource::new(callback_to(up))) },
        Adaptor {
            name: "failure_callback",
            over: |up| Ok(AnyResource::new(FailureCallbackResourceAdaptor::new(up, |_| false))),
        },
        Adaptor {
            name: "fallback",
            over: |up| {
                let second = ManagedMemoryResource::new();
                Ok(AnyResource::new(FallbackMemoryResource::new(up, second)))
            },
        },
        Adaptor {
            name: "limiting",
            over: |up| Ok(AnyResource::new(LimitingResourceAdaptor::new(up, POOL_BYTES as u64))),
        },
        Adaptor {
            name: "logging",
            over: |up| Ok(AnyResource::new(LoggingResourceAdaptor::create(up, NULL_FILE)?)),
        },
        Adaptor {
            name: "prefetch",
            over: |up| Ok(AnyResource::new(PrefetchResourceAdaptor::new(up))),
        },
        Adaptor {
            name: "statistics",
            over: |up| Ok(AnyResource::new(StatisticsResourceAdaptor::new(up))),
        },
        Adaptor { name: "tagged", over: |up| Ok(AnyResource::new(TaggedResourceAdaptor::new(up))) },
        Adaptor {
            name: "thread_safe",
            over: |up| Ok(AnyResource::new(ThreadSafeResourceAdaptor::new(up))),
        },
        Adaptor {
            name: "tracking",
            over: |up| Ok(AnyResource::new(TrackingResourceAdaptor::new(up))),
        },
    ]
}

/// A file that keeps nothing, so that a log costs the adaptor's work and the calls of the system.
const NULL_FILE: &str = if cfg!(windows) { "NUL" } else { "/dev/null" };

fn callback_to(up: impl Resource + Clone + 'static) -> CallbackMemoryResource {
    let same = up.clone();
    let allocate = move |stream: StreamRef<'_>, layout| up.allocate(stream, layout);
    let free = move |stream: StreamRef<'_>, pointer, layout| {
        // SAFETY: it was allocated by the other function, with this layout.
        unsafe { same.deallocate(stream, pointer, layout) }
    };
    // SAFETY: the functions are those of a resource.
    unsafe { CallbackMemoryResource::new(allocate, free) }
}
