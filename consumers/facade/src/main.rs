//! Depends on the one crate, as most programs do, and leaves with a pool in the registry and a
//! buffer of a thread.

use std::cell::RefCell;
use std::error::Error;
use std::io::{Write as _, stdout};

use rmm::bytemuck::{Pod, Zeroable};
use rmm::prelude::*;
use rmm::stream::{StreamFlags, TimedEvent};
use rmm::{CudaStreamPool, Device};

thread_local! {
    /// Dropped when the program has left `main`.
    static KEPT: RefCell<Option<DeviceBuffer>> = const { RefCell::new(None) };
}

#[derive(Clone, Copy, PartialEq, Debug)]
#[repr(C)]
struct Particle {
    position: [f32; 3],
    charge: f32,
}

// SAFETY: zeros are a value of each field.
unsafe impl Zeroable for Particle {}
// SAFETY: any bits are a value of each field, and there is nothing between or behind them.
unsafe impl Pod for Particle {}

fn main() -> Result<(), Box<dyn Error>> {
    let _machine = rmm_sim::Machine::builder().memory(1 << 30).enter();
    let pool = PoolMemoryResource::builder(CudaMemoryResource::new())
        .initial_size(Device::percent_of_free_memory(25)?)
        .maximum_size(Device::percent_of_free_memory(50)?)
        .build()?;
    rmm::set_current_device_resource(&pool)?;

    let streams = CudaStreamPool::new(4, StreamFlags::NON_BLOCKING)?;
    let (first, second) = (streams.get(), streams.get());
    let (start, end) = (TimedEvent::new()?, TimedEvent::new()?);
    start.record(first)?;
    let numbers: Vec<u32> = (0..10_000).collect();
    let vector = DeviceUVector::<u32>::from_slice(&numbers, first)?;
    assert_eq!(vector.to_vec_on(second)?, numbers);
    end.record(second)?;
    start.synchronize()?;
    end.synchronize()?;
    end.elapsed_since(&start)?;
    assert_eq!(pool.statistics().allocations, 1);

    let particle = Particle { position: [0.0, 0.5, 1.0], charge: -1.0 };
    let particles = DeviceUVector::from_slice(&[particle; 3], first)?;
    assert_eq!(particles.element_on(2, first)?, particle);

    let refused = DeviceBuffer::uninit_in(1 << 30, first, &pool);
    assert!(refused.is_err_and(|error| error.is_out_of_memory()));

    KEPT.set(Some(DeviceBuffer::from_slice_in(b"kept", second, &pool)?));
    writeln!(stdout(), "done")?;
    Ok(())
}
