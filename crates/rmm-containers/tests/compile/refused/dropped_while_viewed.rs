//! A container is dropped while a slice of it is in use.

use rmm_containers::DeviceUVector;
use rmm_core::{CudaStream, Error};

fn late(vector: DeviceUVector<u32>, stream: &CudaStream) -> Result<Vec<u32>, Error> {
    let view = vector.as_slice();
    drop(vector);
    view.to_vec_on(stream)
}

fn main() {
    let _compiled = late as fn(_, _) -> _;
}
