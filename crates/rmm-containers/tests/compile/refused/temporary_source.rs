//! RMM #2526: a temporary is the source of an asynchronous copy.

use rmm_containers::DeviceUVector;
use rmm_core::{CudaStream, Error};

fn upload(vector: &mut DeviceUVector<u32>, stream: &CudaStream, seed: u32) -> Result<(), Error> {
    vector.as_slice_mut().copy_from_static_on(&[seed, seed + 1], stream)
}

fn main() {
    let _compiled = upload as fn(_, _, _) -> _;
}
