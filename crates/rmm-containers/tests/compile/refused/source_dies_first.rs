//! RMM #2526: a local variable is the source of an asynchronous copy.

use rmm_containers::DeviceUVector;
use rmm_core::{CudaStream, Error};

fn upload(vector: &mut DeviceUVector<u32>, stream: &CudaStream) -> Result<(), Error> {
    let local = vec![1, 2, 3];
    vector.as_slice_mut().copy_from_static_on(&local, stream)
}

fn main() {
    let _compiled = upload as fn(_, _) -> _;
}
