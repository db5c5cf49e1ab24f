//! Staging memory from a pool of pinned memory: uploads that only enqueue, and a source that cannot
//! be gone too early.

#![expect(clippy::print_stdout, reason = "an example tells what it does")]

mod device;

use rmm::PinnedHostMemoryResource;
use rmm::containers::HostVec;
use rmm::prelude::*;

fn main() -> Result<(), rmm::Error> {
    let _device = device::open();
    let stream = CudaStream::new()?;
    // To pin memory takes the system long: a pool does it once.
    let pinned = PoolMemoryResource::builder(PinnedHostMemoryResource::new())
        .initial_size(4 << 20)
        .build()?;

    let mut table = DeviceUVector::from_slice(&[0.0f32; 4096], &stream)?;
    for part in 0..4u8 {
        let start = 1024 * usize::from(part);
        let rows: Vec<f32> = (0..1024u16).map(|row| f32::from(row) + f32::from(part)).collect();
        let staging = HostVec::from_slice_in(&rows, pinned.clone())?;
        let mut target = table.as_slice_mut().slice(start..start + 1024)?;
        target.copy_from_on(staging.device_slice(), &stream)?;
        // Dropped here, it waits for its own copy before it goes back to the pool.
    }
    let found = table.to_vec()?;
    assert_eq!((found[0], found[1024], found[4095]), (0.0, 1.0, 1026.0));

    let mut back = HostVec::zeroed_in(4096, pinned.clone())?;
    back.copy_from_device(table.as_slice(), &stream)?; // only enqueues
    assert_eq!(back.as_slice()?, found); // waits
    drop(back);

    let statistics = pinned.statistics();
    println!("{statistics:?}");
    assert_eq!(statistics.allocations, statistics.frees);
    Ok(())
}

#[test]
fn it_runs() {
    main().expect("it runs");
}
