//! A tensor of `kornia-tensor` in pinned memory of a pool: `cargo run -p rmm-rs --example
//! kornia_tensor`.
//!
//! Images are decoded into memory that the device copies from directly, and pinning, which takes
//! milliseconds, is done once for all of them. The tensor borrows the memory and keeps it alive:
//! tensors that are made with a `TensorAllocator` have their elements in a `Vec` (kornia-tensor
//! 0.2.0), and its CUDA tensors are its own.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]
#![expect(unsafe_code, reason = "kornia's tensor takes an address")]

mod device;

use std::sync::Arc;

use kornia_tensor::Tensor;
use rmm::containers::HostVec;
use rmm::mr::PinnedHostMemoryResource;
use rmm::prelude::*;
use rmm::property::HostDeviceAccessible;

const SHAPE: [usize; 3] = [480, 640, 3];
const BYTES: usize = 480 * 640 * 3;

type PinnedPool = PoolMemoryResource<HostDeviceAccessible>;

/// An image, zeroed, in pinned memory.
fn image(pool: &PinnedPool) -> Result<Tensor<u8, 3>, Box<dyn std::error::Error>> {
    let mut memory = HostVec::<u8, _>::zeroed_in(BYTES, pool.clone())?;
    let start = memory.as_mut_slice()?.as_mut_ptr();
    // SAFETY: the elements live as long as `memory`, which the tensor keeps, and which nothing else
    // uses.
    Ok(unsafe { Tensor::from_borrowed_host(SHAPE, start, BYTES, Arc::new(memory)) }?)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let _device = device::open();
    let pool = PinnedPool::builder_with_properties(PinnedHostMemoryResource::new()).build()?;
    let mut image = image(&pool)?;
    assert!(pool.statistics().live_bytes >= BYTES as u64);
    image.as_slice_mut().fill(7); // what a decoder does

    let stream = CudaStream::new()?;
    let on_device = DeviceUVector::from_slice(image.as_slice(), &stream)?; // one copy, by the device
    assert_eq!(on_device.to_vec()?, image.as_slice());
    drop(image);
    assert_eq!(pool.statistics().live_bytes, 0);
    println!("{} bytes were copied from pinned memory", on_device.len());
    Ok(())
}
