//! `cuda-core` as it is published, on the software device, with memory and streams of ours.

use std::sync::Arc;

use cuda_core::{Context, DeviceBuffer};
use rmm_adaptors::{PoolMemoryResource, StatisticsResourceAdaptor};
use rmm_containers::{DeviceBuffer as OurBuffer, DeviceUVector};
use rmm_core::{CudaStream, ErrorKind};
use rmm_interop_cuda_core::{IntoCudaCore, NotTaken, adopt_stream, lend_stream};
use rmm_resources::CudaMemoryResource;
use rmm_sim::Machine;

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

/// A device with its context, and a stream of `cuda-core`'s that is ours, too.
fn start() -> Result<(Arc<Context>, Arc<cuda_core::Stream>, CudaStream)> {
    let context = Context::new(0)?;
    let theirs = context.new_stream()?;
    // SAFETY: nothing captures it.
    let ours = unsafe { adopt_stream(&theirs) }?;
    Ok((context, theirs, ours))
}

/// The driver's library is found by name, so every test loads it first.
fn machine() -> Machine {
    rmm_sim_cuda::load().expect("the driver can be replaced");
    Machine::new()
}

#[test]
fn a_vector_of_ours_is_written_and_read_by_theirs() -> Result {
    let machine = machine().enter();
    let (context, theirs, ours) = start()?;
    let pool = PoolMemoryResource::builder(CudaMemoryResource::new()).build()?;
    let vector = DeviceUVector::filled_in(7_u32, 1000, &ours, &pool)?;
    let address = vector.as_ptr();

    let mut buffer: DeviceBuffer<u32> = vector.into_cuda_core(&context)?;
    assert_eq!((buffer.cu_deviceptr(), buffer.len()), (address.0, 1000));
    assert_eq!(buffer.to_host_vec(&theirs)?, [7; 1000]);
    let source: Vec<u32> = (0..1000).collect();
    buffer.copy_from_host(&theirs, &source)?;
    let other = context.new_stream()?;
    assert_eq!(buffer.to_host_vec(&other)?, source);
    machine.assert_no_violations();
    Ok(())
}

#[test]
fn the_memory_is_freed_once_after_the_last_lease() -> Result {
    let machine = machine().enter();
    let (context, theirs, ours) = start()?;
    let counted = StatisticsResourceAdaptor::new(CudaMemoryResource::new());
    let live = || counted.counters().allocations.value;
    let storage = OurBuffer::zeroed_in(4096, &ours, &counted)?
        .into_cuda_core(&context)
        .map_err(|not_taken| not_taken.error)?;
    let lease = storage.acquire(&theirs, true, false)?;
    let view = storage.slice_bytes(1024, 1024)?;
    drop(storage);
    assert_eq!(live(), 1, "a view has it");
    drop(view);
    assert_eq!(live(), 1, "the work that holds a lease may use it");
    drop(lease);
    assert_eq!(live(), 0);
    assert_eq!(counted.counters().allocations.total, 1);
    machine.assert_no_violations();
    Ok(())
}

#[test]
fn work_that_was_enqueued_before_is_complete() {
    rmm_sim_cuda::load().expect("the driver can be replaced");
    rmm_sim::check(|_machine| {
        let (context, _theirs, ours) = start().expect("the device works");
        let stream = || CudaStream::new().expect("a stream");
        let (second, third) = (stream(), stream());
        let mut vector = DeviceUVector::filled(1_u64, 100, &ours).expect("it fits");
        // Neither cuda-core nor the vector's own stream knows of the stream of the last write.
        vector.as_slice_mut().fill_on(2, &second).expect("it is enqueued");
        let buffer = vector.into_cuda_core(&context).expect("the context is the vector's");
        let theirs = lend_stream(&third, &context).expect("the stream is of the context");
        assert_eq!(buffer.to_host_vec(&theirs).expect("it is copied"), [2; 100]);
    });
}

#[test]
fn a_container_of_another_context_comes_back() -> Result {
    let machine = Machine::builder().devices(2).build();
    rmm_sim_cuda::load()?;
    let _entered = machine.enter();
    let (_context, _theirs, ours) = start()?;
    let vector = DeviceUVector::filled(3_u8, 10, &ours)?;
    let second = Context::new(1)?;
    let NotTaken { container, error } = vector.into_cuda_core(&second).err().expect("refused");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    let _device = rmm_core::Device::new(0)?.make_current()?;
    assert_eq!(container.to_vec()?, [3; 10]);
    Ok(())
}

#[test]
fn streams_are_lent_in_both_directions() -> Result {
    let _machine = machine().enter();
    let (context, theirs, ours) = start()?;
    // SAFETY: nothing captures it.
    assert_eq!(unsafe { adopt_stream(&theirs) }?, ours);

    let weak = Arc::downgrade(&theirs);
    drop(theirs);
    assert!(weak.upgrade().is_some(), "ours keeps it");
    ours.synchronize()?;

    let own = CudaStream::new()?;
    let lent = lend_stream(&own, &context)?;
    drop(own);
    lent.synchronize()?;
    assert!(lend_stream(&CudaStream::per_thread(), &context).is_err());
    Ok(())
}
