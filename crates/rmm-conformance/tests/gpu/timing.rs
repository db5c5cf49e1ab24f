//! Timed events, and prefetching of managed memory.

use std::time::Duration;

use rmm_conformance::ensure;
use rmm_containers::DeviceBuffer;
use rmm_core::{CudaStream, Device, PrefetchTarget, SynchronousResource, TimedEvent, prefetch};
use rmm_resources::{CudaAsyncMemoryResource, ManagedMemoryResource};

use crate::run::in_every_place;

#[test]
fn events_tell_the_time_between_them() {
    in_every_place(|| {
        let resource = CudaAsyncMemoryResource::new()?;
        let stream = CudaStream::new()?;
        let mut buffer = DeviceBuffer::uninit_in(64 << 20, &stream, &resource)?;
        let (start, end) = (TimedEvent::new()?, TimedEvent::new()?);
        start.record(&stream)?;
        buffer.fill(1)?;
        end.record(&stream)?;
        end.synchronize()?;
        let elapsed = end.elapsed_since(&start)?;
        ensure(elapsed > Duration::ZERO && elapsed < Duration::from_secs(1), || {
            format!("filling 64 MiB took {elapsed:?}")
        })
    });
}

#[test]
fn managed_memory_may_be_moved_ahead_of_its_use() {
    in_every_place(|| {
        let resource = ManagedMemoryResource::new();
        let stream = CudaStream::new()?;
        let layout = std::alloc::Layout::new::<[u8; 1 << 20]>();
        let pointer = resource.allocate_sync(layout)?;
        for target in [PrefetchTarget::Device(Device::current()?), PrefetchTarget::Host] {
            prefetch(pointer, layout.size(), target, &stream)?;
        }
        stream.synchronize()?;
        // SAFETY: allocated above with this layout; the only work on it is done.
        unsafe { resource.deallocate_sync(pointer, layout) };
        Ok(())
    });
}
