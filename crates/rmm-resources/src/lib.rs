//! The resources that ask the driver for memory.
//!
//! | resource | memory | stream order |
//! |---|---|---|
//! | [`CudaMemoryResource`] | device | no: `cudaMalloc` and `cudaFree`, which waits for the device |
//! | [`CudaAsyncMemoryResource`] | device | the driver's own pool, `cudaMallocAsync` |
//!
//! And the resource that each device uses where a program names none: [`current_device_resource`],
//! [`set_current_device_resource`]. Resources that divide memory up are in `rmm-adaptors`.

mod cuda;
mod cuda_async;
mod current;

pub use cuda::CudaMemoryResource;
pub use cuda_async::{CudaAsyncMemoryResource, CudaAsyncMemoryResourceBuilder};
pub use current::{
    current_device_resource, per_device_resource, reset_current_device_resource,
    reset_per_device_resource, set_current_device_resource, set_per_device_resource,
};

use std::alloc::Layout;

use rmm_core::{CUDA_ALLOCATION_ALIGNMENT, Error, current_driver, driver_in_context};
use rmm_sys::Driver;

/// The driver aligns everything to 256 bytes; more can not be asked of it.
fn check_alignment(resource: &'static str, layout: Layout) -> Result<(), Error> {
    if layout.align() <= CUDA_ALLOCATION_ALIGNMENT {
        return Ok(());
    }
    let message =
        format!("alignment {} is above the driver's {CUDA_ALLOCATION_ALIGNMENT}", layout.align());
    Err(Error::invalid_argument(resource, message).with_layout(layout))
}

/// The driver, for freeing: an address and a stream's handle say themselves which device they mean, so memory is not lost because
/// no context could be made current.
fn driver_for_freeing() -> Result<&'static Driver, Error> {
    driver_in_context().map(|(driver, _)| driver).or_else(|_| current_driver())
}
