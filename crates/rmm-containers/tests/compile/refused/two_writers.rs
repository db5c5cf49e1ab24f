//! Two streams write the same elements.

use rmm_containers::DeviceUVector;
use rmm_core::{CudaStream, Error};

fn race(vector: &mut DeviceUVector<u32>, a: &CudaStream, b: &CudaStream) -> Result<(), Error> {
    let one = vector.use_on_mut(a)?;
    let two = vector.use_on_mut(b)?;
    assert_eq!(one.as_ptr(), two.as_ptr());
    Ok(())
}

fn main() {
    let _compiled = race as fn(_, _, _) -> _;
}
