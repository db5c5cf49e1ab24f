//! `cudaMalloc` and `cudaFree`.

use std::alloc::Layout;

use rmm_core::driver_pools::describe_driver_pools;
use rmm_core::known_contexts::is_done;
use rmm_core::siblings::{MayBeWaitedFor, allocate_with, of_current_device};
use rmm_core::{
    DeviceAccessible, DevicePtr, Error, HasProperty, MemoryKind, Query, Resource, StreamRef,
    SynchronousResource, check, driver_for_drop,
};
use rmm_sys::{CuContext, CuPointerAttribute};

use crate::capability::{calls_for, calls_for_freeing, check_alignment, may_be_captured};
use crate::kind::known_kind;

/// Device memory from `cudaMalloc`, freed with `cudaFree`.
///
/// It has no state: all values are equal, and each frees the memory of any other. Any thread may
/// use it. Alignments above 256 are refused with
/// [`ErrorKind::InvalidArgument`](rmm_core::ErrorKind::InvalidArgument).
///
/// Allocating does not wait for the stream. Freeing waits for all work on the memory's device, and
/// before that for the stream if it belongs to another device; if synchronizing with that stream
/// fails, because its work has failed, the memory stays allocated. A pair takes about 100 us on an
/// H200, so put a pool over it.
///
/// Neither invalidates a capture, announced or not. Memory freed on a stream that is being captured
/// stays allocated, since the graph uses it at each launch.
///
/// The memory belongs to the device of the stream; to the current device for a synchronous call or
/// a default stream. If freeing fails, as it does after the device is lost, the memory stays
/// allocated.
///
/// ```
/// use std::alloc::Layout;
/// use rmm_core::SynchronousResource;
/// use rmm_resources::CudaMemoryResource;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let _machine = rmm_sim::enter();
/// let resource = CudaMemoryResource::new();
/// let layout = Layout::from_size_align(1 << 20, 256)?;
/// let pointer = resource.allocate_sync(layout)?;
/// assert_eq!(pointer.0 % 256, 0);
/// // SAFETY: allocated above with this layout, and not used.
/// unsafe { resource.deallocate_sync(pointer, layout) };
/// # Ok(())
/// # }
/// ```
#[doc(alias = "rmm::mr::cuda_memory_resource")]
#[doc(alias = "cuda::device_resource")]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct CudaMemoryResource;

impl CudaMemoryResource {
    /// Makes the resource, without a driver call.
    pub const fn new() -> Self {
        Self
    }
}

const NAME: &str = "cuda";

/// Allocates memory of the stream's device, or of the current one.
fn allocate(stream: Option<StreamRef<'_>>, layout: Layout) -> Result<DevicePtr, Error> {
    check_alignment(NAME, layout)?;
    let driver = calls_for(stream)?;
    let allocate = || {
        let mut pointer = DevicePtr::NULL;
        // SAFETY: `pointer` may be written to.
        let code = unsafe { driver.cuMemAlloc_v2(&raw mut pointer, layout.size()) };
        check("cuMemAlloc_v2", code).map_err(|error| error.with_layout(layout))?;
        Ok(pointer)
    };
    let others = || of_current_device(MemoryKind::Device);
    allocate_with(stream, layout.size() as u64, allocate, others)
}

// SAFETY: the driver's blocks are disjoint until they are freed, and aligned to at least 256 bytes;
// larger alignments are refused.
unsafe impl SynchronousResource for CudaMemoryResource {
    fn do_allocate_sync(&self, layout: Layout) -> Result<DevicePtr, Error> {
        allocate(None, layout)
    }

    unsafe fn do_deallocate_sync(&self, pointer: DevicePtr, _layout: Layout) {
        if let Some(driver) = calls_for_freeing() {
            // SAFETY: by the caller's contract the memory came from `cuMemAlloc_v2` and is not
            // freed yet. If the driver refuses, it stays allocated.
            let _ignored = unsafe { driver.cuMemFree_v2(pointer) };
        }
    }

    fn name(&self) -> &'static str {
        NAME
    }

    rmm_core::__by_clone!(to_any_sync);

    fn provide<'a>(&'a self, query: &mut Query<'a>) {
        query.value(|| MayBeWaitedFor).describe(describe_driver_pools);
        query.properties(self).has::<DeviceAccessible>().has_value::<MemoryKind>();
    }
}

/// Whether `cuMemFree_v2` waits for the stream by itself: it does for its memory's context, and not
/// for other devices.
fn free_waits_for(stream: StreamRef<'_>, pointer: DevicePtr) -> bool {
    let Some(driver) = driver_for_drop() else { return false };
    let (mut of_stream, mut of_memory) = (CuContext::NULL, CuContext::NULL);
    // SAFETY: `of_stream` may be written to, and the stream exists while it is borrowed.
    let asked = unsafe { driver.cuStreamGetCtx(stream.as_raw(), &raw mut of_stream) };
    let attribute = CuPointerAttribute::CONTEXT;
    // SAFETY: this attribute is a `CuContext`, which may be written to.
    let told =
        unsafe { driver.cuPointerGetAttribute((&raw mut of_memory).cast(), attribute, pointer) };
    asked.is_success() && told.is_success() && of_stream == of_memory
}

// SAFETY: memory that every stream may use at once is usable by later work, and memory is freed
// after the work that used it has completed.
unsafe impl Resource for CudaMemoryResource {
    fn do_allocate(&self, stream: StreamRef<'_>, layout: Layout) -> Result<DevicePtr, Error> {
        allocate(Some(stream), layout)
    }

    unsafe fn do_deallocate(&self, stream: StreamRef<'_>, pointer: DevicePtr, layout: Layout) {
        // The graph uses the memory at each launch, so it is not freed.
        let is_over = || free_waits_for(stream, pointer) || is_done(stream);
        if !may_be_captured(stream) && is_over() {
            // SAFETY: the caller's contract; the uses that are ordered before this place on the
            // stream have completed, or `cuMemFree_v2` waits for them.
            unsafe { self.do_deallocate_sync(pointer, layout) }
        }
    }

    rmm_core::__by_clone!(to_any);
}

// SAFETY: `cuMemAlloc_v2` returns device memory.
unsafe impl HasProperty<DeviceAccessible> for CudaMemoryResource {}

known_kind!(CudaMemoryResource, Device);
