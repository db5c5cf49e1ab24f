//! Elements that are not plain data.

use rmm_containers::DeviceUVector;
use rmm_core::{CudaStream, Error};

fn upload(stream: &CudaStream) -> Result<DeviceUVector<&'static str>, Error> {
    DeviceUVector::from_slice(&["text"], stream)
}

fn main() {
    let _compiled = upload as fn(_) -> _;
}
