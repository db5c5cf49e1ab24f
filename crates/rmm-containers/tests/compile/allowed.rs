//! What the refused programs do, in the ways that are sound: compiled, not run.

use rmm_containers::{DeviceScalar, DeviceUVector, PinnedVec};
use rmm_core::{CudaStream, Error};

static TABLE: [u32; 4] = [1, 2, 3, 4];

fn sources(stream: &CudaStream, vector: &mut DeviceUVector<u32>) -> Result<(), Error> {
    vector.as_slice_mut().copy_from_static(&TABLE, stream)?;
    vector.copy_from_slice(&[1, 2, 3, 4])?;
    let pinned = PinnedVec::from_slice(&[1, 2, 3, 4])?;
    vector.copy_from(pinned.device_slice())?;
    drop(pinned); // waits for the copy
    let mut scalar = DeviceScalar::new(1.5, stream)?;
    scalar.set_value_async(2.5)
}

fn halves(vector: &mut DeviceUVector<u32>, streams: [CudaStream; 2]) -> Result<(), Error> {
    let (left, right) = vector.as_slice_mut().split_at(2)?;
    std::thread::scope(|scope| {
        let [first, second] = &streams;
        let one = scope.spawn(move || { left }.fill(1, first));
        let two = scope.spawn(move || { right }.fill(2, second));
        [one, two].into_iter().try_for_each(|half| half.join().expect("it does not panic"))
    })
}

fn readers(vector: &DeviceUVector<u32>, a: &CudaStream, b: &CudaStream) -> Result<(), Error> {
    let (one, two) = (vector.use_on(a)?, vector.use_on(b)?);
    assert_eq!(one.as_ptr(), two.as_ptr());
    Ok(())
}

fn main() {
    let _compiled = (sources as fn(_, _) -> _, halves as fn(_, _) -> _, readers as fn(_, _, _) -> _);
}
