//! Regression tests for defects of RMM, with its issue numbers, and for hazards in its source.

use std::alloc::Layout;
use std::sync::mpsc;
use std::thread;

use rmm_core::{
    CudaEvent, CudaStream, Device, StreamRef, SynchronousResource, TimedEvent, process_is_exiting,
};
use rmm_resources::{
    CudaAsyncMemoryResource, current_device_resource, reset_current_device_resource,
    set_current_device_resource,
};
use rmm_sim::{Fault, Machine};
use rmm_sys::{CuDeviceAttribute, CuResult};

fn calls_of(machine: &Machine, function: &str) -> u64 {
    let counts = machine.call_counts();
    counts.iter().find(|(name, _)| *name == function).map_or(0, |(_, count)| *count)
}

// RMM #2478: all streams whose id the driver did not return were taken for one stream.
#[test]
fn identities_do_not_depend_on_the_driver() {
    let machine = rmm_sim::enter();
    machine.fail(Fault::from_nth("cuStreamGetId", 1, CuResult::NOT_SUPPORTED));
    let (first, second) = (CudaStream::new().unwrap(), CudaStream::new().unwrap());
    assert_ne!(first, second);
    assert_eq!(calls_of(&machine, "cuStreamGetId"), 0);
}

#[test]
fn the_per_thread_default_stream_is_another_one_on_each_thread() {
    let here = StreamRef::per_thread().id();
    assert_eq!(StreamRef::per_thread().id(), here);
    let sent = CudaStream::per_thread();
    let there = thread::spawn(move || (sent.id(), StreamRef::per_thread().id()));
    let (sent, own) = there.join().unwrap();
    assert_eq!(sent, own, "it is the stream of the thread that uses it");
    assert_ne!(own, here);
}

// RMM #1333: an event of the first device was recorded on streams of the second.
#[test]
fn an_event_is_not_recorded_on_another_devices_stream() {
    let _machine = Machine::builder().devices(2).enter();
    let event = CudaEvent::new().unwrap();
    let timed = TimedEvent::new().unwrap();
    {
        let _second = Device::new(1).unwrap().make_current().unwrap();
        let stream = CudaStream::new().unwrap();
        assert!(event.record(&stream).unwrap_err().is_driver());
        for default in [StreamRef::per_thread(), StreamRef::legacy()] {
            assert!(event.record(default).unwrap_err().is_invalid_argument());
            assert!(timed.record(default).unwrap_err().is_invalid_argument());
        }
        CudaEvent::new().unwrap().record(StreamRef::per_thread()).unwrap();
    }
    event.record(StreamRef::per_thread()).unwrap();
    event.record(StreamRef::legacy()).unwrap();
}

// RMM #2202: destructors complained about a driver that was gone.
#[test]
fn values_that_outlive_the_driver_drop_silently() {
    let machine = Machine::builder().devices(2).enter();
    let guard = Device::new(1).unwrap().make_current().unwrap();
    let (stream, event) = (CudaStream::new().unwrap(), CudaEvent::new().unwrap());
    let resource = CudaAsyncMemoryResource::new().unwrap();
    machine.kill();
    assert_eq!(stream.synchronize().unwrap_err().code(), Some(CuResult::DEINITIALIZED));
    drop((resource, event, stream, guard));
    assert!(!process_is_exiting(), "a lost driver is not the end of the process");
}

// A resource that one thread used was destroyed when another thread set a new one.
#[test]
fn a_current_resource_outlives_its_replacement() {
    let machine = rmm_sim::enter();
    let layout = Layout::from_size_align(1000, 256).unwrap();
    set_current_device_resource(&CudaAsyncMemoryResource::new().unwrap()).unwrap();
    let (replaced, is_replaced) = mpsc::channel();
    thread::scope(|scope| {
        let got = current_device_resource().unwrap();
        let memory = got.allocate_sync(layout).unwrap();
        scope.spawn(|| {
            let _entered = machine.enter();
            drop(reset_current_device_resource().unwrap());
            replaced.send(()).unwrap();
        });
        is_replaced.recv().unwrap();
        assert_ne!(current_device_resource().unwrap(), got);
        let more = got.allocate_sync(layout).unwrap();
        for pointer in [memory, more] {
            // SAFETY: both were allocated from this resource with this layout, and not used.
            unsafe { got.deallocate_sync(pointer, layout) };
        }
    });
    assert_eq!(machine.leaks(), []);
}

// The capabilities of the first device were used for all devices.
#[test]
fn capabilities_are_kept_per_device() {
    let managed = |value| {
        let machine =
            Machine::builder().attribute(CuDeviceAttribute::MANAGED_MEMORY, value).build();
        machine.scope(|| Device::current().unwrap().capabilities().unwrap().managed_memory)
    };
    assert!(managed(1));
    assert!(!managed(0));
    assert!(managed(1));
}
