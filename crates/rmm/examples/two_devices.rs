//! Two devices with a pool each: `cargo run -p rmm-rs --example two_devices`.
//!
//! A container is on the device of its stream, and takes that device's current resource, whichever
//! device is current for the thread.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use rmm::Device;
use rmm::mr::current::{per_device_resource, reset_per_device_resource, set_per_device_resource};
use rmm::prelude::*;

type Pool = PoolMemoryResource;

fn main() -> rmm::Result<()> {
    // Few machines have two devices: always on the software device.
    println!("on two software devices");
    let machine = rmm_sim::Machine::builder().devices(2).build();
    let _entered = machine.enter_all_threads();

    let mut streams = Vec::new();
    let mut pools = Vec::new();
    for device in Device::all()? {
        let _current = device.make_current()?;
        let pool = Pool::builder(CudaMemoryResource::new()).initial_size(1 << 20).build()?;
        set_per_device_resource(device, &pool)?;
        pools.push(pool);
        streams.push(CudaStream::new()?);
    }

    // One thread per device. Device 0 is current on both.
    let sums = std::thread::scope(|scope| {
        let work = |ordinal, stream| -> rmm::Result<u32> {
            let x = DeviceUVector::filled(7u32, 1000, stream)?;
            assert_eq!(x.device()?.ordinal(), ordinal);
            Ok(x.to_vec()?.iter().sum())
        };
        let spawn = |(ordinal, stream)| scope.spawn(move || work(ordinal, stream));
        let threads: Vec<_> = streams.iter().enumerate().map(spawn).collect();
        let sums = threads.into_iter().map(|thread| thread.join().expect("no thread panics"));
        sums.collect::<rmm::Result<Vec<_>>>()
    })?;
    assert_eq!(sums, [7000, 7000]);

    // A copy from one device to the other waits for the work of both streams.
    let x = DeviceUVector::from_slice(&[1, 2, 3], &streams[0])?;
    let y = x.as_slice().to_device(&streams[1])?;
    assert_eq!((y.device()?.ordinal(), y.to_vec()?), (1, vec![1, 2, 3]));
    drop((x, y));

    for (device, pool) in Device::all()?.zip(&pools) {
        println!("device {}: {:?}", device.ordinal(), pool.statistics());
        assert_eq!((pool.statistics().allocations, pool.statistics().frees), (2, 2));
        assert!(per_device_resource(device)?.is_equal(pool));
        reset_per_device_resource(device)?;
    }
    machine.assert_no_violations();
    Ok(())
}

#[test]
fn it_runs() {
    main().expect("it runs");
}
