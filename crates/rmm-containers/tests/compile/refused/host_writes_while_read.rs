//! The host writes pinned memory that a device is told to read.

use rmm_containers::{DeviceUVector, PinnedVec};
use rmm_core::Error;

fn race(pinned: &mut PinnedVec<u32>, vector: &mut DeviceUVector<u32>) -> Result<(), Error> {
    let host = pinned.as_mut_slice()?;
    vector.copy_from(pinned.device_slice())?;
    host[0] = 1;
    Ok(())
}

fn main() {
    let _compiled = race as fn(_, _) -> _;
}
