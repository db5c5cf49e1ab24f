//! Containers tell what others are made like them with.

use rmm_adaptors::PoolMemoryResource;
use rmm_containers::{DeviceBuffer, DeviceUVector};
use rmm_core::{AnyResource, CudaStream, Error, HasResource, allocation_alignment};
use rmm_resources::CudaMemoryResource;
use rmm_sim::Machine;

/// A buffer beside `container`: from the same resource, aligned like it.
fn beside<H>(container: &H, alignment: usize, stream: &CudaStream) -> Result<DeviceBuffer, Error>
where
    H: HasResource<Resource = AnyResource>,
{
    let alignment = allocation_alignment::<u8>(alignment)?;
    DeviceBuffer::uninit_aligned(100, alignment, stream, container.memory_resource())
}

#[test]
fn a_container_is_made_like_another() -> Result<(), Error> {
    let machine = Machine::new();
    let _entered = machine.enter();
    let stream = CudaStream::new()?;
    let pool = PoolMemoryResource::builder(CudaMemoryResource::new()).build()?;
    let vector = DeviceUVector::<f64>::uninit_aligned(10, 512, &stream, &pool)?;
    assert_eq!((vector.alignment(), vector.as_ptr().0 % 512), (512, 0));
    let first = beside(&vector, vector.alignment(), &stream)?;
    let second = beside(&first, first.alignment(), &stream)?;
    for buffer in [&first, &second] {
        assert_eq!((buffer.alignment(), buffer.as_ptr().0 % 512), (512, 0));
        assert!(buffer.resource().is_equal(&pool));
    }
    assert_eq!(pool.statistics().allocations, 3);
    Ok(())
}

#[test]
fn a_wrong_alignment_asks_nothing_of_the_resource() -> Result<(), Error> {
    let machine = Machine::new();
    let _entered = machine.enter();
    let stream = CudaStream::new()?;
    let pool = PoolMemoryResource::builder(CudaMemoryResource::new()).build()?;
    for wrong in [0, 4, 24] {
        let error = DeviceUVector::<f64>::uninit_aligned(10, wrong, &stream, &pool).unwrap_err();
        assert!(error.is_invalid_argument(), "{error}");
    }
    assert_eq!(pool.statistics().allocations, 0);
    Ok(())
}
