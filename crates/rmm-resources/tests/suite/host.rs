//! Host memory, without a device.

use std::sync::atomic::Ordering;

use rmm_core::{Resource, SynchronousResource};
use rmm_resources::HostMemoryResource;
use rmm_sim::Kernel;

use crate::allocator::live;
use crate::short::{MIB, layout, lazy, peek, poke, stream};

#[test]
fn no_driver_is_called_for_synchronous_memory() {
    let machine = lazy().enter();
    let resource = HostMemoryResource::new();
    let asked = layout(4 * MIB, 4096);
    let pointer = resource.allocate_sync(asked).unwrap();
    assert_eq!((pointer.0 % 4096, live()), (0, 4 * MIB));
    poke(pointer, 9);
    assert_eq!(peek(pointer), 9);
    // SAFETY: allocated above with this layout, and not used any more.
    unsafe { resource.deallocate_sync(pointer, asked) };
    assert_eq!((machine.calls(), live()), (0, 0));
}

#[test]
fn freeing_in_stream_order_waits_for_the_stream() {
    let machine = lazy().enter();
    let (resource, stream) = (HostMemoryResource::new(), stream());
    let asked = layout(64, 64);
    let pointer = resource.allocate(&stream, asked).unwrap();
    let has_run = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let flag = std::sync::Arc::clone(&has_run);
    let kernel = Kernel::new("work", move |_| flag.store(true, Ordering::Relaxed));
    machine.launch(stream.as_raw(), kernel).unwrap();
    // SAFETY: allocated above with this layout; its only stream is this one.
    unsafe { resource.deallocate(&stream, pointer, asked) };
    assert!(has_run.load(Ordering::Relaxed));
}
