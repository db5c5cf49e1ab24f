//! A borrowed pool is dropped under device work, since the vector that would wait is leaked.

use rmm_adaptors::PoolMemoryResource;
use rmm_containers::HostVec;
use rmm_core::{CudaStream, Error, HostDeviceAccessible};
use rmm_resources::PinnedHostMemoryResource;

fn forgotten(stream: &CudaStream) -> Result<(), Error> {
    let pool = PoolMemoryResource::<HostDeviceAccessible>::builder_with_properties(PinnedHostMemoryResource::new()).build()?;
    let mut vector = HostVec::<u32, _>::zeroed_in(1024, &pool)?;
    vector.device_slice_mut().fill_on(7, stream)?;
    std::mem::forget(vector);
    drop(pool);
    Ok(())
}

fn main() {
    let _compiled = forgotten as fn(_) -> _;
}
