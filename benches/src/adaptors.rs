//! The adaptors that `protocol` times, over the pool and over a resource that does nothing.
//! `peers/adaptors.hpp` makes RMM's in the same way.

use rmm_adaptors::{
    AlignedResourceAdaptor, CallbackMemoryResource, FailureCallbackResourceAdaptor,
    FallbackMemoryResource, LimitingResourceAdaptor, LoggingResourceAdaptor, PoolMemoryResource,
    PrefetchResourceAdaptor, RecorderResourceAdaptor, StatisticsResourceAdaptor,
    TaggedResourceAdaptor, ThreadSafeResourceAdaptor, TrackingResourceAdaptor,
};
use rmm_core::{AnyResource, DeviceAccessible, HasProperty, Resource, StreamRef};
use rmm_resources::ManagedMemoryResource;

use crate::outcome::Outcome;
use crate::setup::POOL_BYTES;

/// What the adaptors are over.
pub type Pool = PoolMemoryResource;

/// An adaptor by its name in the rows.
#[derive(Debug)]
pub struct Adaptor<U> {
    /// The name.
    pub name: &'static str,
    /// Makes one.
    pub over: fn(U) -> Outcome<AnyResource>,
}

/// Every adaptor. RMM has those of the same names; the others are timed as well.
pub fn adaptors<U>() -> [Adaptor<U>; 13]
where
    U: Resource + HasProperty<DeviceAccessible> + PartialEq + Clone + 'static,
{
    let adaptor = |name, over| Adaptor { name, over };
    [
        adaptor("aligned_256", |up| Ok(AnyResource::new(AlignedResourceAdaptor::new(up, 256)?))),
        adaptor("aligned_4096", |up| Ok(AnyResource::new(AlignedResourceAdaptor::new(up, 4096)?))),
        adaptor("callback", |up| Ok(AnyResource::new(callback_to(up)))),
        adaptor("failure_callback", |up| {
            Ok(AnyResource::new(FailureCallbackResourceAdaptor::new(up, |_| false)))
        }),
        adaptor("fallback", |up| {
            let second = ManagedMemoryResource::new();
            Ok(AnyResource::new(FallbackMemoryResource::new(up, second)))
        }),
        adaptor("limiting", |up| {
            Ok(AnyResource::new(LimitingResourceAdaptor::new(up, POOL_BYTES)))
        }),
        adaptor("logging", |up| {
            Ok(AnyResource::new(LoggingResourceAdaptor::create(up, NULL_FILE)?))
        }),
        adaptor("prefetch", |up| Ok(AnyResource::new(PrefetchResourceAdaptor::new(up)))),
        adaptor("recorder", |up| Ok(AnyResource::new(RecorderResourceAdaptor::new(up)))),
        adaptor("statistics", |up| Ok(AnyResource::new(StatisticsResourceAdaptor::new(up)))),
        adaptor("tagged", |up| Ok(AnyResource::new(TaggedResourceAdaptor::new(up)))),
        adaptor("thread_safe", |up| Ok(AnyResource::new(ThreadSafeResourceAdaptor::new(up)))),
        adaptor("tracking", |up| Ok(AnyResource::new(TrackingResourceAdaptor::new(up)))),
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
