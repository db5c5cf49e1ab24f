//! Two blocks of each base resource, a stream, and the resource itself.

use std::alloc::Layout;
use std::thread;

use rmm_conformance::Failure;
use rmm_core::{CudaStream, Device, DevicePtr, Error, Resource, Synchronized};
use rmm_resources::{
    CudaAsyncManagedMemoryResource, CudaAsyncMemoryResource, CudaAsyncPinnedMemoryResource,
    CudaAsyncViewMemoryResource, CudaMemoryResource, HostMemoryResource, HostVirtualMemoryResource,
    ManagedMemoryResource, PinnedHostMemoryResource, RegisteredHostMemoryResource,
    SamHeadroomMemoryResource, SystemMemoryResource, VirtualMemoryResource,
};
use rmm_sim::Machine;

use super::program::{Held, calls, machine};

const LAYOUT: Layout = Layout::new::<[u64; 512]>();

struct Kept {
    resource: Box<dyn Resource>,
    stream: CudaStream,
    blocks: [DevicePtr; 2],
}

fn made<R: Resource + 'static>(resource: Result<R, Error>) -> Result<Box<dyn Resource>, Error> {
    resource.map(|resource| Box::new(resource) as Box<dyn Resource>)
}

pub(super) fn fill() -> Result<Held, Failure> {
    let resources = [
        made(Ok(CudaMemoryResource::new())),
        made(VirtualMemoryResource::new()),
        made(HostVirtualMemoryResource::new()),
        made(CudaAsyncMemoryResource::new()),
        made(CudaAsyncViewMemoryResource::of_default_pool(Device::current()?)),
        made(CudaAsyncManagedMemoryResource::new()),
        made(CudaAsyncPinnedMemoryResource::new()),
        made(Ok(ManagedMemoryResource::new())),
        made(Ok(PinnedHostMemoryResource::new())),
        made(Ok(RegisteredHostMemoryResource::new())),
        made(SystemMemoryResource::new()),
        made(SamHeadroomMemoryResource::new(0)),
        made(Ok(HostMemoryResource::new())),
        made(Ok(Synchronized::new(CudaMemoryResource::new()))),
    ];
    let mut kept = Vec::new();
    for resource in resources {
        let resource = match resource {
            Err(error) if error.is_unsupported() => continue,
            resource => resource?,
        };
        let stream = CudaStream::new()?;
        let blocks = [resource.allocate(&stream, LAYOUT)?, resource.allocate_sync(LAYOUT)?];
        kept.push(Kept { resource, stream, blocks });
    }
    Ok(Held::new(move || {
        // Another thread frees: the thread-locals of the exiting thread are gone by now, so its
        // driver calls could not be counted.
        let ended = thread::spawn(move || {
            let _entered = machine().map(Machine::enter);
            kept.into_iter().try_for_each(end)
        });
        ended.join().unwrap_or_else(|_| Err("it panicked".to_owned()))
    }))
}

fn end(kept: Kept) -> Result<(), String> {
    let Kept { resource, stream, blocks: [first, second] } = kept;
    let name = resource.name();
    let calls_nothing = |what: &str, step: &mut dyn FnMut()| {
        let before = calls();
        step();
        if calls() == before { Ok(()) } else { Err(format!("{name}: {what} calls the driver")) }
    };
    // SAFETY: allocated with this layout, and not used.
    calls_nothing("deallocate", &mut || unsafe { resource.deallocate(&stream, first, LAYOUT) })?;
    // SAFETY: as above.
    calls_nothing("deallocate_sync", &mut || unsafe { resource.deallocate_sync(second, LAYOUT) })?;
    drop(stream);
    drop(resource);
    Ok(())
}
