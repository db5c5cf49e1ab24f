//! An exclusive slice is used twice.

use rmm_containers::{DeviceSliceMut, DeviceUVector};

fn twice(vector: &mut DeviceUVector<u32>) -> [DeviceSliceMut<'_, u32>; 2] {
    let slice = vector.as_slice_mut();
    [slice, slice]
}

fn main() {
    let _compiled = twice as fn(_) -> _;
}
