//! A mutex around a resource.

use std::alloc::Layout;
use std::fmt;

use rmm_core::{Description, DevicePtr, Error};

use crate::layer::{Below, Layer, adaptor};
use crate::sync::biased_mutex::BiasedMutex;

adaptor! {
    /// Lets one thread at a time call another resource.
    ///
    /// Every resource here may be called from several threads, so this is for one that answers
    /// several callers worse than one after the other, such as a foreign allocator behind a
    /// [`CallbackMemoryResource`](crate::CallbackMemoryResource). Upstream is called while the lock
    /// is held, so it must not call this resource. As long as one thread alone calls, the lock
    /// costs next to nothing.
    ///
    /// ```
    /// use rmm_adaptors::ThreadSafeResourceAdaptor;
    /// use rmm_core::Introspect;
    /// use rmm_resources::CudaMemoryResource;
    ///
    /// let resource = ThreadSafeResourceAdaptor::new(CudaMemoryResource::new());
    /// assert!(resource.stack().map(|resource| resource.name()).eq(["thread-safe", "cuda"]));
    /// ```
    #[doc(alias = "rmm::mr::thread_safe_resource_adaptor")]
    ThreadSafeResourceAdaptor(Serialized)
}

#[derive(Default)]
struct Serialized(BiasedMutex<()>);

impl fmt::Debug for Serialized {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Serialized")
    }
}

impl<U> ThreadSafeResourceAdaptor<U> {
    /// Takes the resource in.
    pub fn new(upstream: U) -> Self {
        Self::over(upstream, Serialized::default())
    }
}

// SAFETY: every call goes to the upstream as it is.
unsafe impl Layer for Serialized {
    const NAME: &'static str = "thread-safe";

    #[inline]
    fn allocate(&self, below: impl Below, layout: Layout) -> Result<DevicePtr, Error> {
        self.0.with(|()| below.allocate(layout))
    }

    #[inline]
    unsafe fn deallocate(&self, below: impl Below, pointer: DevicePtr, layout: Layout) {
        // SAFETY: the caller's contract is the same.
        self.0.with(|()| unsafe { below.deallocate(pointer, layout) });
    }

    fn tell(&self, _: &mut Description) {}
}
