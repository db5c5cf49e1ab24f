//! The default pool as the current resource:
//! `cargo run -p rmm-rs --example pool_quickstart`.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

mod device;

use rmm::prelude::*;

fn main() -> Result<(), rmm::Error> {
    let _device = device::open();
    // Over virtual memory, or over `cudaMalloc` where the device has none.
    let pool = PoolMemoryResource::default_builder()?
        .initial_size(64 << 20)
        .maximum_size(256 << 20)
        .build()?;
    let former = rmm::set_current_device_resource(&pool)?;
    println!("the current resource is\n{}\nand was\n{}", pool.describe(), former.describe());

    let stream = CudaStream::new()?;
    for round in 0..100u32 {
        // From the pool: after the first round, allocation makes no driver call.
        let mut vector = DeviceUVector::from_slice(&vec![round; 10_000], &stream)?;
        vector.set_element_async(0, round + 1)?;
        assert_eq!(vector.element(0)?, round + 1);
        assert_eq!(vector.back_element()?, round);
    }
    let statistics = pool.statistics();
    println!("{statistics:?}");
    assert_eq!((statistics.allocations, statistics.frees), (100, 100));

    // An out-of-memory error explains itself.
    let error = DeviceBuffer::uninit_in(1 << 30, &stream, &pool).expect_err("the pool has a limit");
    println!("{error}");
    assert!(error.is_out_of_memory());
    rmm::reset_current_device_resource()?;
    Ok(())
}

#[test]
fn it_runs() {
    main().expect("it runs");
}
