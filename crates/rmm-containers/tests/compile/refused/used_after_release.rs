//! A vector is used after its memory was moved out.

use rmm_containers::{DeviceBuffer, DeviceUVector};

fn released(vector: DeviceUVector<u32>) -> (DeviceBuffer, usize) {
    let buffer = vector.into_buffer();
    (buffer, vector.len())
}

fn main() {
    let _compiled = released as fn(_) -> _;
}
