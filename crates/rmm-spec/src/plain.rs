//! The resources and adaptors without options: what each is called, and how it is made.

use rmm_adaptors::{
    PrefetchResourceAdaptor, StatisticsResourceAdaptor, TaggedResourceAdaptor,
    ThreadSafeResourceAdaptor,
};
use rmm_core::{AnyResource, Device, Error};
use rmm_resources::{
    CudaAsyncManagedMemoryResource, CudaAsyncPinnedMemoryResource, CudaAsyncViewMemoryResource,
    CudaMemoryResource, ManagedMemoryResource, PinnedHostMemoryResource,
    RegisteredHostMemoryResource, SystemMemoryResource,
};

/// Defines a type with a value for each row.
macro_rules! without_options {
    (
        $(#[$doc:meta])*
        $type:ident($($upstream:ident)?) -> $made:ty;
        $($name:literal $variant:ident => $make:expr;)*
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(crate) enum $type {
            $($variant,)*
        }

        impl $type {
            pub(crate) const ALL: &[(&str, Self)] = &[$(($name, Self::$variant)),*];

            pub(crate) fn build(self $(, $upstream: AnyResource)?) -> $made {
                match self {
                    $(Self::$variant => $make,)*
                }
            }
        }
    };
}

without_options! {
    /// A resource over nothing.
    Base() -> Result<AnyResource, Error>;
    "backing" DefaultDeviceMemory => rmm_resources::DefaultDeviceMemory::of_device();
    "cuda" Cuda => Ok(AnyResource::new(CudaMemoryResource::new()));
    "cuda-async-view" CudaAsyncView => {
        let view = CudaAsyncViewMemoryResource::of_default_pool(Device::current()?);
        view.map(AnyResource::new)
    };
    "cuda-async-managed" CudaAsyncManaged => CudaAsyncManagedMemoryResource::new().map(AnyResource::new);
    "cuda-async-pinned" CudaAsyncPinned => CudaAsyncPinnedMemoryResource::new().map(AnyResource::new);
    "managed" Managed => Ok(AnyResource::new(ManagedMemoryResource::new()));
    "pinned" Pinned => Ok(AnyResource::new(PinnedHostMemoryResource::new()));
    "registered" Registered => Ok(AnyResource::new(RegisteredHostMemoryResource::new()));
    "system" System => SystemMemoryResource::new().map(AnyResource::new);
}

without_options! {
    /// An adaptor of one upstream.
    Adaptor(upstream) -> AnyResource;
    "statistics" Statistics => AnyResource::new(StatisticsResourceAdaptor::new(upstream));
    "tagged" Tagged => AnyResource::new(TaggedResourceAdaptor::new(upstream));
    "prefetch" Prefetch => AnyResource::new(PrefetchResourceAdaptor::new(upstream));
    "thread-safe" ThreadSafe => AnyResource::new(ThreadSafeResourceAdaptor::new(upstream));
}
