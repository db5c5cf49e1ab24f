//! The host reads pinned memory that a device is told to write.

use rmm_containers::{DeviceUVector, PinnedVec};
use rmm_core::{CudaStream, Error};

fn race(
    pinned: &mut PinnedVec<u32>,
    vector: &DeviceUVector<u32>,
    stream: &CudaStream,
) -> Result<u32, Error> {
    let host = pinned.as_slice()?;
    pinned.copy_from_device(vector.as_slice(), stream)?;
    Ok(host[0])
}

fn main() {
    let _compiled = race as fn(_, _, _) -> _;
}
