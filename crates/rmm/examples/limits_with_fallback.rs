//! A budget of device memory, and managed memory beyond it:
//! `cargo run -p rmm-rs --example limits_with_fallback`.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

mod device;

use std::error::Error;
use std::io::Write as _;

use rmm::prelude::*;
use rmm::{FallbackMemoryResource, LimitingResourceAdaptor, ManagedMemoryResource};

fn main() -> Result<(), Box<dyn Error>> {
    let _device = device::open();

    let pool = PoolMemoryResource::builder(CudaMemoryResource::new()).build()?;
    let budget = LimitingResourceAdaptor::new(pool, 4 << 20);
    let resource = FallbackMemoryResource::new(budget.clone(), ManagedMemoryResource::new());

    let stream = CudaStream::new()?;
    let ones = vec![1.0; 1 << 18];
    let vector = || DeviceUVector::<f32>::from_slice(&ones, &stream);
    rmm::set_current_device_resource(&resource)?;
    let vectors = (0..6).map(|_| vector()).collect::<Result<Vec<_>, _>>()?;
    writeln!(std::io::stdout(), "{}", resource.describe())?;

    // Of six vectors of 1 MiB, four are within the budget and two in managed memory.
    assert_eq!(budget.allocated_bytes(), 4 << 20);
    assert_eq!((resource.fallback_bytes(), resource.fallbacks()), (2 << 20, 2));
    for vector in &vectors {
        assert_eq!(vector.to_vec()?, ones);
    }
    drop(vectors);
    assert_eq!((budget.allocated_bytes(), resource.fallback_bytes()), (0, 0));

    // Without the fallback, the error states the limit and how much of it is in use.
    let _held = DeviceUVector::<f32>::uninit_in(1 << 19, &stream, &budget)?;
    let refused = DeviceUVector::<f32>::uninit_in(1 << 20, &stream, &budget);
    let error = refused.err().ok_or("it is beyond the limit")?;
    assert!(error.is_out_of_memory());
    assert!(error.to_string().contains("the limit of 4.0 MiB"), "{error}");
    rmm::reset_current_device_resource()?;
    Ok(())
}

#[test]
fn it_runs() {
    main().expect("it runs");
}
