//! A borrowed host slice is the source of an asynchronous copy.

use rmm_containers::DeviceUVector;
use rmm_core::Error;

fn upload(vector: &mut DeviceUVector<u32>, host: &[u32]) -> Result<(), Error> {
    vector.copy_from(host)
}

fn main() {
    let _compiled = upload as fn(_, _) -> _;
}
