//! The kinds of stream, the resources and the adaptors that the conformance suite runs over. This
//! is the only list of them: `xtask` compiles this file, too, and so runs each on a GPU.
//!
//! An entry is the name for `RMM_TEST_STREAM` or `RMM_TEST_RESOURCE`, the variant, and its
//! documentation.

/// Calls a macro with the kinds of stream.
macro_rules! every_stream {
    ($use:ident) => {
        $use! {
            "legacy": Legacy, "The legacy default stream.",
            "per-thread": PerThread, "The per-thread default stream.",
            "non-blocking": NonBlocking, "A stream of this library that does not order itself with the legacy one.",
        }
    };
}

/// Calls a macro with the resources that are no adaptors.
macro_rules! every_resource {
    ($use:ident) => {
        $use! {
            "pool": Pool, "`PoolMemoryResource` over `CudaMemoryResource`.",
            "binning": Binning, "`BinningMemoryResource` over a pool: blocks of one size for what is small, the pool for the rest.",
            "arena": Arena, "`ArenaMemoryResource` over `CudaMemoryResource`.",
            "cuda-async": CudaAsync, "`CudaAsyncMemoryResource`.",
            "cuda": Cuda, "`CudaMemoryResource`.",
            "virtual": Virtual, "`VirtualMemoryResource`.",
            "pool-virtual": PoolVirtual, "`PoolMemoryResource` over `VirtualMemoryResource`.",
            "cuda-async-view": CudaAsyncView, "`CudaAsyncViewMemoryResource` over the device's default pool.",
            "cuda-async-managed": CudaAsyncManaged, "`CudaAsyncManagedMemoryResource`.",
            "cuda-async-pinned": CudaAsyncPinned, "`CudaAsyncPinnedMemoryResource`.",
            "managed": Managed, "`ManagedMemoryResource`.",
            "pinned": Pinned, "`PinnedHostMemoryResource`.",
            "system": System, "`SystemMemoryResource`.",
            "sam-headroom": SamHeadroom, "`SamHeadroomMemoryResource`.",
        }
    };
}

/// Calls a macro with the adaptors, each of which is run over a pool.
macro_rules! every_adaptor {
    ($use:ident) => {
        $use! {
            "aligned": Aligned, "`AlignedResourceAdaptor`, to 4 KiB.",
            "callback": Callback, "`CallbackMemoryResource`.",
            "failure-callback": FailureCallback, "`FailureCallbackResourceAdaptor`, which tries twice.",
            "fallback": Fallback, "`FallbackMemoryResource`, over a small pool and a large one.",
            "limiting": Limiting, "`LimitingResourceAdaptor`.",
            "logging": Logging, "`LoggingResourceAdaptor`.",
            "prefetch": Prefetch, "`PrefetchResourceAdaptor`.",
            "statistics": Statistics, "`StatisticsResourceAdaptor`.",
            "tagged": Tagged, "`TaggedResourceAdaptor`.",
            "thread-safe": ThreadSafe, "`ThreadSafeResourceAdaptor`.",
            "tracking": Tracking, "`TrackingResourceAdaptor`.",
        }
    };
}
