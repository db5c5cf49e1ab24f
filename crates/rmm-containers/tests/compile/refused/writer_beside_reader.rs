//! One stream writes elements while another reads them.

use rmm_containers::DeviceUVector;
use rmm_core::{CudaStream, Error};

fn race(vector: &mut DeviceUVector<u32>, a: &CudaStream) -> Result<u64, Error> {
    let read = vector.use_on(a)?;
    vector.fill(0)?;
    Ok(read.as_ptr().0)
}

fn main() {
    let _compiled = race as fn(_, _) -> _;
}
