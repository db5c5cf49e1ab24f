//! The software device's reports show the names of streams and containers.

use rmm_adaptors::PoolMemoryResource;
use rmm_containers::{DeviceBuffer, PinnedVec};
use rmm_core::{AnyResource, CudaStream, DevicePtr, Error};
use rmm_resources::{CudaAsyncMemoryResource, CudaMemoryResource};
use rmm_sim::{Kernel, Machine, Violation, ViolationKind};

/// Launches work that writes a byte on a stream.
fn write(machine: &Machine, memory: DevicePtr, stream: &CudaStream) {
    let kernel = Kernel::new("write", |_| ()).writes(memory, 1);
    // The device refuses to use memory that was freed, and reports it.
    let _ignored = machine.launch(stream.as_raw(), kernel);
}

fn resources() -> Result<[AnyResource; 3], Error> {
    let pool = PoolMemoryResource::builder(CudaMemoryResource::new()).build()?;
    Ok([
        AnyResource::new(CudaMemoryResource::new()),
        AnyResource::new(CudaAsyncMemoryResource::new()?),
        AnyResource::new(pool),
    ])
}

fn last(machine: &Machine) -> Violation {
    machine.violations().pop().expect("the use is reported")
}

#[test]
fn a_race_on_a_named_buffer_shows_all_names() -> Result<(), Error> {
    let machine = rmm_sim::enter();
    let upload = CudaStream::new()?.with_name("upload");
    let train = CudaStream::new()?.with_name("train");
    for resource in resources()? {
        let buffer = DeviceBuffer::uninit_in(4096, &upload, &resource)?.with_name("weights");
        for stream in [&upload, &train] {
            write(&machine, buffer.as_ptr(), stream);
        }
        let report = last(&machine).to_string();
        assert!(report.starts_with("race: 1 bytes at d0+"), "{report}");
        for named in
            ["in \"weights\": write", "of stream 2 \"upload\", then", "of stream 3 \"train\": "]
        {
            assert!(report.contains(named), "{named}: {report}");
        }
    }
    Ok(())
}

#[test]
fn a_name_stays_until_the_memory_is_allocated_again() -> Result<(), Error> {
    let machine = rmm_sim::enter();
    let (stream, other) = (CudaStream::new()?, CudaStream::new()?);
    for resource in resources()? {
        let make = || DeviceBuffer::uninit_in(4096, &stream, &resource);
        let buffer = make()?.with_name("weights");
        let memory = buffer.as_ptr();
        drop(buffer);
        write(&machine, memory, &stream);
        let report = last(&machine);
        assert_eq!(report.kind, ViolationKind::UseAfterFree);
        assert_eq!(report.memory_name.as_deref(), Some("weights"), "{report}");
        let buffer = make()?;
        assert_eq!(buffer.as_ptr(), memory);
        write(&machine, memory, &stream);
        write(&machine, memory, &other);
        let report = last(&machine);
        assert_eq!((report.kind, report.memory_name.as_deref()), (ViolationKind::Race, None));
    }
    Ok(())
}

#[test]
fn a_name_moves_with_the_memory() -> Result<(), Error> {
    let machine = rmm_sim::enter();
    let (stream, other) = (CudaStream::new()?, CudaStream::new()?);
    let mut buffer = DeviceBuffer::uninit(8, &stream)?.with_name("weights");
    let mut staging = PinnedVec::<u8>::new()?.with_name("staging");
    staging.resize(8, 0)?;
    for bytes in [1 << 10, 1 << 20] {
        buffer.resize(bytes)?;
        staging.resize(bytes, 0)?;
        let shared = DevicePtr(staging.as_slice()?.as_ptr().addr() as u64);
        for (memory, name) in [(buffer.as_ptr(), "weights"), (shared, "staging")] {
            let memory = DevicePtr(memory.0 + bytes as u64 - 1);
            for stream in [&stream, &other] {
                let kernel = Kernel::new("write", |_| ()).writes(memory, 1);
                // SAFETY: the host does not access the memory until the streams are synchronized.
                unsafe { machine.launch_on_shared(stream.as_raw(), kernel) }.expect("it is live");
            }
            assert_eq!(last(&machine).memory_name.as_deref(), Some(name));
            stream.synchronize()?;
            other.synchronize()?;
        }
    }
    Ok(())
}
