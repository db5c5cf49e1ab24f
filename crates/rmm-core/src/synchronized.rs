//! Stream order for synchronous resources.

use std::alloc::Layout;

use crate::siblings::MayBeWaitedFor;
use crate::{
    DevicePtr, Error, Query, Resource, StreamRef, Structure, SynchronousResource,
    process_is_exiting,
};

/// Makes a [`Resource`] of any [`SynchronousResource`]: it synchronizes with the stream before it
/// frees.
///
/// It makes synchronous calls of a resource in stream order as well, such as a pool, which then
/// waits at each free: hand such a resource over as it is. (CCCL's adapter passes the calls of one
/// through.)
///
/// Memory freed on a stream with which it cannot synchronize, because the stream is being captured
/// or its context is lost, stays allocated: the device may still use it. So does memory freed while
/// the process exits. Two are equal if their upstreams are.
///
/// ```
/// use std::alloc::Layout;
/// use rmm_core::{AnySynchronousResource, CudaStream, Resource, Synchronized};
/// use rmm_resources::CudaMemoryResource;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let _machine = rmm_sim::enter();
/// let plain: AnySynchronousResource = AnySynchronousResource::new(CudaMemoryResource::new()); // no stream order
/// let ordered = Synchronized::new(plain);
/// let stream = CudaStream::new()?;
/// let layout = Layout::from_size_align(1000, 256)?;
/// let pointer = ordered.allocate(&stream, layout)?;
/// // SAFETY: allocated above with this layout; its only stream is the one it is freed on.
/// unsafe { ordered.deallocate(&stream, pointer, layout) };
/// # Ok(())
/// # }
/// ```
#[doc(alias = "cuda::mr::synchronous_resource_adapter")]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Synchronized<R> {
    resource: R,
}

impl<R> Synchronized<R> {
    /// Takes the resource in.
    pub const fn new(resource: R) -> Self {
        Self { resource }
    }

    /// The synchronous resource.
    #[doc(alias = "upstream_resource")]
    pub const fn upstream(&self) -> &R {
        &self.resource
    }
}

// SAFETY: every call goes to the upstream, which keeps the contract.
unsafe impl<R: SynchronousResource> SynchronousResource for Synchronized<R> {
    fn do_allocate_sync(&self, layout: Layout) -> Result<DevicePtr, Error> {
        self.resource.do_allocate_sync(layout)
    }

    unsafe fn do_deallocate_sync(&self, pointer: DevicePtr, layout: Layout) {
        // SAFETY: the caller's contract is the same.
        unsafe { self.resource.do_deallocate_sync(pointer, layout) }
    }

    fn name(&self) -> &'static str {
        "synchronized"
    }

    fn structure(&self) -> Structure<'_>
    where
        Self: 'static,
    {
        Structure::over(&self.resource)
    }

    fn provide<'a>(&'a self, query: &mut Query<'a>) {
        query.properties_from(&self.resource).value(|| MayBeWaitedFor);
    }
}

// SAFETY: memory that every stream may use may be used by one, and it is freed only when the stream
// has done all that is ordered before the free.
unsafe impl<R: SynchronousResource> Resource for Synchronized<R> {
    fn do_allocate(&self, _stream: StreamRef<'_>, layout: Layout) -> Result<DevicePtr, Error> {
        self.resource.do_allocate_sync(layout)
    }

    unsafe fn do_deallocate(&self, stream: StreamRef<'_>, pointer: DevicePtr, layout: Layout) {
        let is_done = || !process_is_exiting() && stream.synchronize().is_ok();
        if is_done() {
            // SAFETY: the caller's contract, and all uses, which are ordered before this place on
            // the stream, have completed.
            unsafe { self.resource.do_deallocate_sync(pointer, layout) }
        }
    }
}

// The memory is the upstream's.
crate::__properties_of!([R: Sized] Synchronized<R>, |this| &this.resource);
