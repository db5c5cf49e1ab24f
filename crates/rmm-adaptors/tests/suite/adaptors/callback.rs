//! Tests of the callback resource.

use std::alloc::Layout;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use rmm_adaptors::CallbackMemoryResource;
use rmm_core::{CudaStream, DevicePtr, Error, Resource, StreamRef, SynchronousResource};
use rmm_resources::CudaAsyncMemoryResource;
use rmm_sim::{Kernel, Machine, Schedule};

use super::scripted::{FIRST, Scripted, free_sync};
use crate::support::{self, layout};

fn over(upstream: &Scripted) -> CallbackMemoryResource {
    let (from, to) = (upstream.clone(), upstream.clone());
    // SAFETY: its memory is never touched.
    unsafe {
        CallbackMemoryResource::new(
            move |stream, layout| from.allocate(stream, layout),
            move |stream, pointer, layout| short_free(&to, stream, pointer, layout),
        )
    }
}

fn short_free(upstream: &Scripted, stream: StreamRef<'_>, pointer: DevicePtr, layout: Layout) {
    // SAFETY: its memory is never touched.
    unsafe { upstream.deallocate(stream, pointer, layout) }
}

/// In RMM, the alignment was not passed to the functions.
#[test]
fn a_misaligned_block_is_freed_and_the_request_fails() {
    let upstream = Scripted::default();
    let resource = over(&upstream);
    upstream.state().next = 256;
    let wants = Layout::from_size_align(64, 1024).unwrap();
    let error = resource.allocate(StreamRef::legacy(), wants).unwrap_err();
    assert!(error.is_unsupported(), "{error}");
    assert_eq!(upstream.state().asked, [wants]);
    assert_eq!(upstream.state().freed, [(DevicePtr(FIRST + 256), wants)]);
}

#[test]
fn null_is_out_of_memory() {
    // SAFETY: nothing is handed out.
    let empty = unsafe { CallbackMemoryResource::new(|_, _| Ok(DevicePtr::NULL), |_, _, _| {}) };
    assert!(empty.allocate(StreamRef::legacy(), layout(1)).unwrap_err().is_out_of_memory());
}

/// RMM #2449: the synchronous call used the default stream without waiting for it.
#[test]
fn a_synchronous_call_waits_for_its_stream() {
    let machine = Machine::builder().schedule(Schedule::Lazy).enter();
    let pool = CudaAsyncMemoryResource::new().unwrap();
    let (from, to) = (pool.clone(), pool);
    let allocate = move |stream: StreamRef<'_>, layout| from.allocate(stream, layout);
    let free = move |stream: StreamRef<'_>, pointer, layout| {
        // SAFETY: it was allocated by the other function, with this layout.
        unsafe { to.deallocate(stream, pointer, layout) }
    };
    // SAFETY: the functions are a resource's.
    let resource = unsafe { CallbackMemoryResource::new(allocate, free) };
    let ran = Arc::new(AtomicBool::new(false));
    let enqueue = || {
        ran.store(false, Ordering::Relaxed);
        let ran = Arc::clone(&ran);
        let kernel = Kernel::new("slow", move |_| ran.store(true, Ordering::Relaxed));
        machine.launch(CudaStream::legacy().as_raw(), kernel).unwrap();
    };
    enqueue();
    assert!(!ran.load(Ordering::Relaxed));
    let block = resource.allocate_sync(layout(1000)).unwrap();
    assert!(ran.load(Ordering::Relaxed), "it was waited for");
    // A stream that is ordered with no other may use it at once.
    let stream = support::stream();
    support::write(&machine, &stream, block, 7);
    stream.synchronize().unwrap();
    enqueue();
    free_sync(&resource, block, layout(1000));
    assert!(ran.load(Ordering::Relaxed), "it was waited for");
    machine.assert_no_violations();
}

#[test]
fn a_panic_of_the_freeing_function_is_caught() {
    // SAFETY: its memory is never touched.
    let resource = unsafe {
        CallbackMemoryResource::new(|_, _| Ok(DevicePtr(FIRST)), |_, _, _| panic!("in a free"))
    };
    let block = resource.allocate(StreamRef::legacy(), layout(1)).unwrap();
    support::free(&resource, StreamRef::legacy(), block, 1);
}

#[test]
fn functions_may_be_called_from_two_threads() {
    let (upstream, errors) = (Scripted::default(), Arc::new(Mutex::new(Vec::<Error>::new())));
    let resource = over(&upstream);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..100 {
                    match resource.allocate(StreamRef::legacy(), layout(64)) {
                        Ok(block) => support::free(&resource, StreamRef::legacy(), block, 64),
                        Err(error) => errors.lock().unwrap().push(error),
                    }
                }
            });
        }
    });
    assert!(errors.lock().unwrap().is_empty());
    assert_eq!(upstream.live(), 0);
}
