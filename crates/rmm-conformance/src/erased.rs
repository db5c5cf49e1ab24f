//! Every adaptor over a pool.

use std::alloc::Layout;

use rmm_adaptors::{
    AlignedResourceAdaptor, CallbackMemoryResource, FailureCallbackResourceAdaptor,
    FallbackMemoryResource, LimitingResourceAdaptor, LoggingResourceAdaptor, PoolMemoryResource,
    PrefetchResourceAdaptor, StatisticsResourceAdaptor, TaggedResourceAdaptor,
    ThreadSafeResourceAdaptor, TrackingResourceAdaptor,
};
use rmm_core::{
    AnyResource, Claims, DeviceAccessible, DevicePtr, Error, HasProperty, Resource, StreamRef,
    SyncResource,
};
use rmm_resources::CudaMemoryResource;

macro_rules! define {
    ($($name:literal: $variant:ident, $doc:literal,)*) => {
        /// An adaptor that ships.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Adapted {
            $(#[doc = $doc] $variant,)*
        }

        impl Adapted {
            /// All of them, by the names that the environment knows.
            pub(crate) const ALL: &[(&'static str, Self)] = &[$(($name, Self::$variant)),*];
        }
    };
}
every_adaptor!(define);

/// An adaptor over a pool, of one type whichever it is: so that each check is compiled once for all
/// of them.
#[derive(Clone, PartialEq, Debug)]
pub struct AdaptedResource(AnyResource);

/// Bytes of the pool that the fallback's second one is for.
const SMALL: usize = 64 << 10;

impl Adapted {
    /// The adaptor over a pool of at most `capacity` bytes.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn make(self, capacity: usize) -> Result<AdaptedResource, Error> {
        let pool = || PoolMemoryResource::builder(CudaMemoryResource::new());
        let over = match self.capacity(capacity) {
            Some(capacity) => pool().maximum_size(capacity).build()?,
            None => pool().build()?,
        };
        let adapted = match self {
            Self::Aligned => AnyResource::new(AlignedResourceAdaptor::new(over, 4096)?),
            Self::Callback => {
                let same = over.clone();
                let allocate = move |stream: StreamRef<'_>, layout| over.allocate(stream, layout);
                let free = move |stream: StreamRef<'_>, pointer, layout| {
                    // SAFETY: it came from the other function, with this layout.
                    unsafe { same.deallocate(stream, pointer, layout) }
                };
                // SAFETY: the functions are a resource's.
                AnyResource::new(unsafe { CallbackMemoryResource::new(allocate, free) })
            }
            Self::FailureCallback => {
                let builder = FailureCallbackResourceAdaptor::builder(over).max_retries(1);
                AnyResource::new(builder.build(|_| true))
            }
            Self::Fallback => {
                let small = pool().maximum_size(SMALL).build()?;
                AnyResource::new(FallbackMemoryResource::new(small, over))
            }
            Self::Limiting => AnyResource::new(LimitingResourceAdaptor::new(over, capacity as u64)),
            Self::Logging => {
                let logging = LoggingResourceAdaptor::to_writer(over, std::io::sink());
                AnyResource::new(logging.map_err(|error| {
                    Error::invalid_argument("logging", "it takes no line").with_source(error)
                })?)
            }
            Self::Prefetch => AnyResource::new(PrefetchResourceAdaptor::new(over)),
            Self::Statistics => AnyResource::new(StatisticsResourceAdaptor::new(over)),
            Self::Tagged => AnyResource::new(TaggedResourceAdaptor::new(over)),
            Self::ThreadSafe => AnyResource::new(ThreadSafeResourceAdaptor::new(over)),
            Self::Tracking => AnyResource::new(TrackingResourceAdaptor::new(over)),
        };
        Ok(AdaptedResource(adapted))
    }

    /// The bytes that it can hand out at once over a pool of `capacity`, if every one of them can
    /// be had whatever the sizes.
    pub fn capacity(self, capacity: usize) -> Option<usize> {
        // Aligned blocks take more of the pool than their size, and those of two pools never merge.
        (!matches!(self, Self::Aligned | Self::Fallback)).then_some(capacity)
    }
}

// SAFETY: every call goes to the resource inside, which keeps the contract.
unsafe impl SyncResource for AdaptedResource {
    fn allocate_sync(&self, layout: Layout) -> Result<DevicePtr, Error> {
        self.0.allocate_sync(layout)
    }

    unsafe fn deallocate_sync(&self, pointer: DevicePtr, layout: Layout) {
        // SAFETY: the caller's contract is the same.
        unsafe { self.0.deallocate_sync(pointer, layout) }
    }

    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn properties(&self, claims: &mut Claims<'_>) {
        self.0.properties(claims);
    }

    fn upstream_resource(&self) -> Option<&(dyn SyncResource + 'static)>
    where
        Self: 'static,
    {
        self.0.upstream_resource()
    }
}

// SAFETY: as above.
unsafe impl Resource for AdaptedResource {
    fn allocate(&self, stream: StreamRef<'_>, layout: Layout) -> Result<DevicePtr, Error> {
        self.0.allocate(stream, layout)
    }

    unsafe fn deallocate(&self, stream: StreamRef<'_>, pointer: DevicePtr, layout: Layout) {
        // SAFETY: the caller's contract is the same.
        unsafe { self.0.deallocate(stream, pointer, layout) }
    }
}

// SAFETY: what is inside has it.
unsafe impl HasProperty<DeviceAccessible> for AdaptedResource {}
