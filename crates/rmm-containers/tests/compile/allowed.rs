//! Sound counterparts of the refused programs: compiled, not run.

use rmm_adaptors::PoolMemoryResource;
use rmm_containers::{DeviceScalar, DeviceUVector, HostVec, PinnedVec};
use rmm_core::{CudaStream, Error, HostDeviceAccessible};
use rmm_resources::PinnedHostMemoryResource;

static TABLE: [u32; 4] = [1, 2, 3, 4];

fn sources(stream: &CudaStream, vector: &mut DeviceUVector<u32>) -> Result<(), Error> {
    vector.as_slice_mut().copy_from_static_on(&TABLE, stream)?;
    vector.copy_from_slice(&[1, 2, 3, 4])?;
    let pinned = PinnedVec::from_slice(&[1, 2, 3, 4])?;
    vector.copy_from(pinned.device_slice())?;
    drop(pinned); // waits for the copy
    let mut scalar = DeviceScalar::new(1.5, stream)?;
    scalar.set_value_async(2.5)
}

fn halves(vector: &mut DeviceUVector<u32>, streams: &[CudaStream; 2]) -> Result<(), Error> {
    let (left, right) = vector.as_slice_mut().split_at(2)?;
    std::thread::scope(|scope| {
        let [first, second] = streams;
        let one = scope.spawn(move || { left }.fill_on(1, first));
        let two = scope.spawn(move || { right }.fill_on(2, second));
        [one, two].into_iter().try_for_each(|half| half.join().expect("it does not panic"))
    })
}

fn readers(vector: &DeviceUVector<u32>, a: &CudaStream, b: &CudaStream) -> Result<(), Error> {
    let (one, two) = (vector.use_on(a)?, vector.use_on(b)?);
    assert_eq!(one.as_ptr(), two.as_ptr());
    Ok(())
}

fn owned_and_borrowed_resources(stream: &CudaStream) -> Result<(), Error> {
    let pool = PoolMemoryResource::<HostDeviceAccessible>::builder_with_properties(
        PinnedHostMemoryResource::new(),
    )
    .build()?;
    let mut of_host = HostVec::<u32, _>::zeroed_in(4, &pool)?;
    of_host.as_mut_slice()?.fill(7); // no device uses it
    let mut of_both = HostVec::<u32, _>::zeroed_in(4, pool.clone())?;
    of_both.device_slice_mut().fill_on(7, stream)?;
    let _leaked = std::mem::ManuallyDrop::new(of_both); // and its pool
    Ok(())
}

pub(crate) fn program() {
    std::hint::black_box((
        sources as fn(_, _) -> _,
        halves as fn(_, _) -> _,
        readers as fn(_, _, _) -> _,
        owned_and_borrowed_resources as fn(_) -> _,
    ));
}
