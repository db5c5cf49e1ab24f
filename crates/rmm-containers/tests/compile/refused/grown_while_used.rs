//! A container grows, and moves, while its address is passed to a kernel.

use rmm_containers::DeviceUVector;
use rmm_core::{CudaStream, Error};

fn late(vector: &mut DeviceUVector<u32>, stream: &CudaStream) -> Result<u64, Error> {
    let used = vector.use_on_mut(stream)?;
    vector.reserve(1000)?;
    Ok(used.as_ptr().0)
}

fn main() {
    let _compiled = late as fn(_, _) -> _;
}
