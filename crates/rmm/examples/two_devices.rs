//! A pool for each device, found by whoever works there, on any thread.

#![expect(clippy::print_stdout, reason = "an example tells what it does")]

use rmm::Device;
use rmm::mr::{per_device_resource, set_per_device_resource};
use rmm::prelude::*;

type Pool = PoolMemoryResource<CudaMemoryResource>;

/// Knows nothing of pools: it uses the resource of the device that is current.
fn work(device: Device) -> Result<Vec<u32>, rmm::Error> {
    let _current = device.make_current()?;
    let stream = CudaStream::new()?;
    let mut vector = DeviceUVector::from_slice(&[0u32; 1000], &stream)?;
    vector.fill(7)?;
    vector.to_vec()
}

fn main() -> Result<(), rmm::Error> {
    // Two devices, which few machines have: always the software device.
    println!("on two software devices");
    let machine = rmm_sim::Machine::builder().devices(2).build();
    let _entered = machine.enter();

    let mut pools: Vec<Pool> = Vec::new();
    for device in Device::all()? {
        let _current = device.make_current()?;
        let pool = Pool::builder(CudaMemoryResource::new()).initial_size(1 << 20).build()?;
        set_per_device_resource(device, &pool)?;
        pools.push(pool);
    }
    std::thread::scope(|scope| {
        for device in Device::all()? {
            let machine = &machine;
            scope.spawn(move || {
                let _entered = machine.enter();
                assert_eq!(work(device).expect("there is memory"), [7; 1000]);
            });
        }
        Ok::<(), rmm::Error>(())
    })?;
    for (device, pool) in Device::all()?.zip(&pools) {
        println!("device {}: {:?}", device.ordinal(), pool.statistics());
        assert_eq!(pool.statistics().allocations, 1);
        assert!(per_device_resource(device)?.is_equal(pool));
        rmm::mr::reset_per_device_resource(device)?;
    }
    Ok(())
}

#[test]
fn it_runs() {
    main().expect("it runs");
}
