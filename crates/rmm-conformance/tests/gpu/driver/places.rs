//! The device of pool memory does not depend on the stream of the allocation.

use rmm_conformance::Failure;
use rmm_core::{CudaStream, Device, DevicePtr, check, driver_in_context};
use rmm_resources::CudaAsyncMemoryResource;

use super::answers;
use crate::pair::{device_of, in_every_pair, on, stream};

const BYTES: usize = 8;

/// Allocates from the pool of a resource, or from the current pool of the stream's device, and
/// frees in the same stream: the number of the device that the memory is of.
fn device_for(
    resource: Option<&CudaAsyncMemoryResource>,
    stream: &CudaStream,
) -> Result<usize, Failure> {
    let (driver, _) = driver_in_context()?;
    let mut pointer = DevicePtr::NULL;
    let stream = stream.as_raw();
    let code = match resource {
        // SAFETY: `pointer` may be written to, and the pool and the stream exist.
        Some(resource) => unsafe {
            driver.cuMemAllocFromPoolAsync(&raw mut pointer, BYTES, resource.as_raw(), stream)
        },
        // SAFETY: as above.
        None => unsafe { driver.cuMemAllocAsync(&raw mut pointer, BYTES, stream) },
    };
    check("allocating in stream order", code)?;
    let device = device_of(pointer)?;
    // SAFETY: allocated just now in this stream's order, and not used.
    check("cuMemFreeAsync", unsafe { driver.cuMemFreeAsync(pointer, stream) })?;
    Ok(device)
}

#[test]
fn the_pool_says_where_memory_is_and_the_stream_when() {
    in_every_pair(|pair| {
        let (resource, own) = (CudaAsyncMemoryResource::new()?, stream()?);
        let foreign = on(pair.other, || Ok(stream()?))?;
        let (home, other) = (pair.home.ordinal(), pair.other.ordinal());
        for current in pair.devices() {
            on(current, || {
                for stream in [&own, &foreign, &CudaStream::legacy(), &CudaStream::per_thread()] {
                    answers("of a named pool", &device_for(Some(&resource), stream)?, &home)?;
                    stream.synchronize()?;
                }
                answers("of no named pool, at home", &device_for(None, &own)?, &home)?;
                answers("of no named pool, elsewhere", &device_for(None, &foreign)?, &other)?;
                let of_default = device_for(None, &CudaStream::legacy())?;
                answers("for the default stream", &of_default, &current.ordinal())?;
                Ok(Device::synchronize_current()?)
            })?;
        }
        answers("bytes in use at the end", &resource.pool().used_bytes()?, &0)
    });
}
