//! Memory that another library has freed in the driver's default pool, without a wait: our pools
//! get it.
//!
//! On a GPU nothing else may hold its memory meanwhile, so there the check runs only where
//! `RMM_WHOLE_DEVICE` is set, as that of [`siblings`](crate::siblings).

use std::alloc::Layout;

use rmm_adaptors::{PoolMemoryResource, default_pool};
use rmm_conformance::{CheckResult, ensure};
use rmm_core::{CudaStream, Device, DevicePtr, StreamFlags, SynchronousResource, current_driver};
use rmm_resources::CudaMemoryResource;

use crate::run::in_every_environment;
use crate::siblings::may_fill_the_device;

/// Allocates and frees memory of the default pool, as `cudaMallocAsync` and `cudaFreeAsync` do.
fn leave_in_default_pool(bytes: usize, waits: bool) -> CheckResult {
    let stream = CudaStream::with_flags(StreamFlags::NON_BLOCKING, 0)?;
    let (driver, mut pointer) = (current_driver()?, DevicePtr::NULL);
    // SAFETY: `pointer` may be written to, and the stream exists.
    unsafe { driver.cuMemAllocAsync(&raw mut pointer, bytes, stream.as_raw()) }.result()?;
    stream.synchronize()?;
    // SAFETY: allocated above, and not used.
    unsafe { driver.cuMemFreeAsync(pointer, stream.as_raw()) }.result()?;
    if waits {
        stream.synchronize()?;
    }
    Ok(())
}

/// Takes memory of this layout from a resource, and frees it.
fn takes(what: &str, resource: &impl SynchronousResource, layout: Layout) -> CheckResult {
    let taken = resource.allocate_sync(layout);
    ensure(taken.is_ok(), || format!("{what}: {taken:?}"))?;
    if let Ok(block) = taken {
        // SAFETY: allocated above with this layout, and not used.
        unsafe { resource.deallocate_sync(block, layout) };
    }
    Ok(())
}

#[test]
fn what_others_freed_in_the_default_pool_is_had() {
    in_every_environment(|_| {
        if !may_fill_the_device()? {
            return Ok(());
        }
        let free = usize::try_from(Device::memory_info()?.free).unwrap_or(usize::MAX);
        let (left, wanted) = (free / 10 * 7, free / 10 * 6);
        let layout = Layout::from_size_align(wanted, 256).map_err(rmm_conformance::Failure::new)?;
        for waits in [false, true] {
            leave_in_default_pool(left, waits)?;
            takes(&format!("the default pool, waited: {waits}"), &default_pool()?, layout)?;
            leave_in_default_pool(left, waits)?;
            let pool = PoolMemoryResource::builder(CudaMemoryResource::new()).build()?;
            takes(&format!("a pool over cudaMalloc, waited: {waits}"), &pool, layout)?;
            drop(pool);
            leave_in_default_pool(left, waits)?;
            takes(&format!("cudaMalloc, waited: {waits}"), &CudaMemoryResource::new(), layout)?;
        }
        Ok(())
    });
}
