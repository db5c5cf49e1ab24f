//! Access of other devices to the memory of a whole stack.

use rmm_core::{Device, Error, Introspect as _, SynchronousResource};
use rmm_sys::CuResult;

use crate::{
    CudaAsyncMemoryResource, CudaAsyncViewMemoryResource, DriverPool, VirtualMemoryResource,
};

/// Grants a device read and write access to all device memory of a resource and of those below it,
/// now and later: to virtual memory and to driver pools. Nothing happens to other memory: that of
/// `cudaMalloc` is accessible once the program has called `cudaDeviceEnablePeerAccess`, which does
/// nothing for virtual memory and driver pools.
///
/// ```
/// use rmm_core::{AnyResource, Device};
/// use rmm_resources::{CudaAsyncMemoryResource, grant_access};
/// use rmm_sys::CuMemAccessFlags;
///
/// # fn main() -> Result<(), rmm_core::Error> {
/// # let _machine = rmm_sim::Machine::builder().devices(2).enter();
/// let (resource, other) = (CudaAsyncMemoryResource::new()?, Device::new(1)?);
/// let erased: AnyResource = AnyResource::new(resource.clone());
/// grant_access(&erased, other)?;
/// assert_eq!(resource.pool().access(other)?, CuMemAccessFlags::READ_WRITE);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`ErrorKind::Unsupported`](rmm_core::ErrorKind::Unsupported) if the device is not a peer, and
/// what the driver refuses. Resources that were granted before stay so.
#[doc(alias = "cuMemSetAccess")]
#[doc(alias = "cudaMemPoolSetAccess")]
#[doc(alias = "cudaDeviceEnablePeerAccess")]
pub fn grant_access(
    resource: &(dyn SynchronousResource + 'static),
    device: Device,
) -> Result<(), Error> {
    for resource in resource.stack() {
        let any = resource.as_any();
        if let Some(mapped) = any.downcast_ref::<VirtualMemoryResource>() {
            mapped.grant_access(device)?;
        } else if let Some(pool) = any.downcast_ref::<CudaAsyncMemoryResource>() {
            grant_to_pool(pool.pool(), device)?;
        } else if let Some(view) = any.downcast_ref::<CudaAsyncViewMemoryResource>() {
            grant_to_pool(view.pool(), device)?;
        }
        for other in resource.other_upstreams() {
            grant_access(other, device)?;
        }
    }
    Ok(())
}

fn grant_to_pool(pool: &DriverPool, device: Device) -> Result<(), Error> {
    pool.grant_access(&[device]).map_err(|error| match error.code() {
        // So the driver says that they are not peers: the device itself exists.
        Some(CuResult::INVALID_DEVICE | CuResult::PEER_ACCESS_UNSUPPORTED) => {
            let message = format!("device {} cannot access the pool's memory", device.ordinal());
            Error::unsupported("grant_access", message).with_source(error)
        }
        _ => error,
    })
}
