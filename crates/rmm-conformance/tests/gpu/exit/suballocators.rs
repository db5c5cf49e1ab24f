//! Blocks of a suballocator in statics and in the values of threads.

use std::cell::RefCell;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use rmm_adaptors::{PoolMemoryResource, SegmentGuard};
use rmm_conformance::{DeviceHandle, Environment, Failure};
use rmm_containers::DeviceBuffer;
use rmm_core::{
    AnyResource, CudaStream, Error, Introspect as _, StreamFlags, StreamRef, process_is_exiting,
};
use rmm_resources::set_current_device_resource;
use rmm_spec::ResourceSpec;

use super::program::Held;

thread_local! {
    /// Initialised before the thread has used the resource.
    static EARLY: RefCell<Vec<DeviceBuffer>> = const { RefCell::new(Vec::new()) };
    /// Initialised when the thread has used the resource.
    static LATE: RefCell<Vec<DeviceBuffer>> = const { RefCell::new(Vec::new()) };
}

/// A block that the stream has work to do on.
fn busy(
    resource: &AnyResource,
    stream: StreamRef<'_>,
    bytes: usize,
) -> Result<DeviceBuffer, Error> {
    let mut buffer = DeviceBuffer::uninit_in(bytes, stream, resource)?;
    buffer.fill(1)?;
    Ok(buffer)
}

/// Blocks of two sizes on a stream of the program's and on the thread's own, with others freed in
/// between.
fn blocks(resource: &AnyResource) -> Result<Vec<DeviceBuffer>, Error> {
    let stream = CudaStream::with_flags(StreamFlags::NON_BLOCKING, 0)?;
    let mut blocks = Vec::new();
    for bytes in [1000, 3 << 20] {
        for stream in [stream.as_stream_ref(), StreamRef::per_thread()] {
            blocks.push(busy(resource, stream, bytes)?);
            drop(busy(resource, stream, bytes)?);
        }
    }
    Ok(blocks)
}

/// Leaves blocks to the thread's values.
fn fill_thread(resource: &AnyResource) -> Result<(), Error> {
    EARLY.with_borrow_mut(Vec::clear);
    let (early, late) = (blocks(resource)?, blocks(resource)?);
    EARLY.with_borrow_mut(|kept| kept.extend(early));
    LATE.with_borrow_mut(|kept| kept.extend(late));
    Ok(())
}

/// Fills the values of a thread, which ends then, or stays for as long as the program does.
fn fill_another_thread(handle: &DeviceHandle, resource: &AnyResource, stays: bool) {
    let (handle, resource, (filled, is_filled)) = (handle.clone(), resource.clone(), channel());
    let run = move |filled: Sender<()>| {
        let _current = handle.make_current().expect("the device is there");
        fill_thread(&resource).expect("memory");
        filled.send(()).expect("the other thread waits");
        if stays {
            loop {
                thread::park();
            }
        }
    };
    let thread = thread::spawn(move || run(filled));
    is_filled.recv().expect("the thread fills its values");
    if !stays {
        thread.join().expect("the thread ends well");
    }
}

pub(super) fn fill(spec: &str, environment: &Environment, way: &str) -> Result<Held, Failure> {
    let spec: ResourceSpec = spec.parse().map_err(Failure::new)?;
    // The registry keeps one to the end. Of the other the program has the last handle.
    let (registered, resource) = (spec.build()?, spec.build()?);
    set_current_device_resource(&registered)?;
    let mut buffers = blocks(&registered)?;
    buffers.extend(blocks(&resource)?);
    match way {
        "thread-ended" => fill_another_thread(environment.handle(), &resource, false),
        "thread-stays" => fill_another_thread(environment.handle(), &resource, true),
        _ => {}
    }
    fill_thread(&resource)?;
    let segments = on_segment(&resource)?;
    let resource_goes_first = way == "resource-first";
    Ok(Held::new(move || {
        if resource_goes_first {
            drop(resource);
            drop(segments);
            drop(buffers);
        } else {
            drop(buffers);
            drop(segments);
            drop(resource);
        }
        Ok(())
    }))
}

/// A callback for the segments of a pool, whose guard is left to the very end. It is not called
/// then.
fn on_segment(resource: &AnyResource) -> Result<Option<SegmentGuard>, Error> {
    let Some(pool) = resource.find::<PoolMemoryResource<()>>() else { return Ok(None) };
    let guard = pool.on_segment(|_| {
        if process_is_exiting() {
            std::process::abort();
        }
        Ok::<(), Error>(())
    });
    guard.map(Some)
}
