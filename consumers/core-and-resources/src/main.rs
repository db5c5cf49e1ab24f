//! Has a resource of its own: written against the traits, used through the erased type and as the
//! device's current one.

use std::alloc::Layout;
use std::error::Error;
use std::io::{Write as _, stdout};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rmm_core::{
    AnyResource, CudaStream, DeviceAccessible, DeviceAsyncResourceRef, DevicePtr, HasProperty,
    Resource, StreamRef, SynchronousResource, copy,
};
use rmm_resources::{
    CudaMemoryResource, current_device_resource, reset_current_device_resource,
    set_current_device_resource,
};

/// Counts what is out.
#[derive(Clone, Debug)]
struct Counting {
    upstream: CudaMemoryResource,
    live: Arc<AtomicUsize>,
}

impl Counting {
    fn new() -> Self {
        Self { upstream: CudaMemoryResource::new(), live: Arc::new(AtomicUsize::new(0)) }
    }

    fn live(&self) -> usize {
        self.live.load(Ordering::Relaxed)
    }
}

impl PartialEq for Counting {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.live, &other.live)
    }
}

// SAFETY: all memory is the upstream's, which keeps the contract.
unsafe impl SynchronousResource for Counting {
    fn do_allocate_sync(&self, layout: Layout) -> Result<DevicePtr, rmm_core::Error> {
        let pointer = self.upstream.allocate_sync(layout)?;
        self.live.fetch_add(1, Ordering::Relaxed);
        Ok(pointer)
    }

    unsafe fn do_deallocate_sync(&self, pointer: DevicePtr, layout: Layout) {
        self.live.fetch_sub(1, Ordering::Relaxed);
        // SAFETY: the caller's contract is the same.
        unsafe { self.upstream.deallocate_sync(pointer, layout) }
    }

    fn name(&self) -> &'static str {
        "counting"
    }
}

// SAFETY: as above.
unsafe impl Resource for Counting {
    fn do_allocate(
        &self,
        stream: StreamRef<'_>,
        layout: Layout,
    ) -> Result<DevicePtr, rmm_core::Error> {
        let pointer = self.upstream.allocate(stream, layout)?;
        self.live.fetch_add(1, Ordering::Relaxed);
        Ok(pointer)
    }

    unsafe fn do_deallocate(&self, stream: StreamRef<'_>, pointer: DevicePtr, layout: Layout) {
        self.live.fetch_sub(1, Ordering::Relaxed);
        // SAFETY: the caller's contract is the same.
        unsafe { self.upstream.deallocate(stream, pointer, layout) }
    }
}

// SAFETY: the upstream's memory is the device's.
unsafe impl HasProperty<DeviceAccessible> for Counting {}

/// Sends the bytes to memory of the resource and back.
fn round_trip(
    resource: DeviceAsyncResourceRef<'_>,
    bytes: &[u8],
) -> Result<Vec<u8>, Box<dyn Error>> {
    let stream = CudaStream::new()?;
    let layout = Layout::from_size_align(bytes.len(), 256)?;
    let memory = resource.allocate(&stream, layout)?;
    let mut back = vec![0; bytes.len()];
    let (source, target) = (bytes.as_ptr().cast(), back.as_mut_ptr().cast());
    // SAFETY: the memory is as long, its only stream is this one, and the bytes live until it is
    // synchronized.
    unsafe { copy::host_to_device(memory, source, bytes.len(), &stream) }?;
    // SAFETY: as above.
    unsafe { copy::device_to_host(target, memory, bytes.len(), &stream) }?;
    stream.synchronize()?;
    // SAFETY: allocated above with this layout, on this stream.
    unsafe { resource.deallocate(&stream, memory, layout) };
    Ok(back)
}

fn main() -> Result<(), Box<dyn Error>> {
    let machine = rmm_sim::enter();
    let counting = Counting::new();
    let before = set_current_device_resource(&counting)?;
    assert!(before.downcast_ref::<CudaMemoryResource>().is_some());

    let current: AnyResource = current_device_resource()?;
    assert_eq!(current.downcast_ref(), Some(&counting));
    assert_eq!(round_trip(current.as_resource_ref(), b"there and back")?, b"there and back");
    assert_eq!(round_trip((&counting).into(), b"again")?, b"again");

    let layout = Layout::new::<[f32; 100]>();
    let kept = current.allocate_sync(layout)?;
    assert_eq!(counting.live(), 1);
    let too_large = Layout::from_size_align(1 << 50, 256)?;
    assert!(current.allocate_sync(too_large).is_err_and(|error| error.is_out_of_memory()));
    drop(reset_current_device_resource()?);
    // SAFETY: allocated above with this layout, and not used.
    unsafe { current.deallocate_sync(kept, layout) };
    assert_eq!(counting.live(), 0);
    assert_eq!(machine.leaks(), []);
    writeln!(stdout(), "done")?;
    Ok(())
}
