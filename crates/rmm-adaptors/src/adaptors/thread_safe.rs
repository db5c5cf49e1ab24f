//! A mutex around a resource.

use std::alloc::Layout;
use std::fmt;

use rmm_core::adaptor_support::Calls;
use rmm_core::siblings::{allocate_in_program, in_library, not_waited_for};
use rmm_core::{DevicePtr, Error};

use super::layer::{Layer, handle};
use crate::sync::biased_mutex::BiasedMutex;

handle! {
    /// Serializes calls to another resource with a mutex.
    ///
    /// Every resource is thread-safe without this adaptor. It is for a resource that is slower
    /// under concurrent calls than under serialized ones, such as a foreign allocator behind a
    /// [`CallbackMemoryResource`](crate::CallbackMemoryResource). Upstream is called while the lock
    /// is held, so it must not call this resource, nor wait for a thread that does. Other pools are
    /// asked for memory only after it is released. While only one thread calls, the lock costs next
    /// to nothing.
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
    /// Serializes the calls to `upstream`.
    pub fn new(upstream: U) -> Self {
        Self::over(upstream, Serialized::default())
    }
}

// SAFETY: every call goes to the upstream unchanged.
unsafe impl Layer for Serialized {
    const NAME: &'static str = "thread-safe";

    #[inline]
    fn allocate(&self, upstream: &impl Calls, layout: Layout) -> Result<DevicePtr, Error> {
        let allocate = move || in_library(|| upstream.allocate(layout));
        allocate_in_program(upstream.stream(), move || self.0.with(|()| allocate()))
    }

    #[inline]
    unsafe fn deallocate(&self, upstream: &impl Calls, pointer: DevicePtr, layout: Layout) {
        // SAFETY: the caller's contract is the same.
        let free = || in_library(|| unsafe { upstream.deallocate(pointer, layout) });
        not_waited_for(|| self.0.with(|()| free()));
    }
}
