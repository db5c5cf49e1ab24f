//! Regression tests for defects of RMM, with its issue numbers, and for hazards in its source.

use std::alloc::Layout;
use std::sync::mpsc;
use std::thread;

use rmm_core::{
    CudaEvent, CudaStream, Device, StreamKind, StreamLifetime, StreamRef, SyncResource, TimedEvent,
    align_up, process_is_exiting,
};
use rmm_resources::{
    CudaAsyncMemoryResource, current_device_resource, reset_current_device_resource,
    set_current_device_resource,
};
use rmm_sim::{Fault, Machine};
use rmm_sys::{CuDeviceAttribute, CuResult, CuStream};

fn calls_of(machine: &Machine, function: &str) -> u64 {
    let counts = machine.call_counts();
    counts.iter().find(|(name, _)| *name == function).map_or(0, |(_, count)| *count)
}

// RMM #2252: state of a destroyed stream was applied to the next stream with its handle.
#[test]
fn a_stream_that_gets_an_old_handle_is_another_stream() {
    let machine = Machine::new();
    let _entered = machine.enter();
    let old = CudaStream::new().unwrap();
    let (handle, id) = (old.as_raw(), old.id());
    drop(old);
    // Keep the streams, so that the driver runs out of other handles.
    let mut kept = Vec::new();
    let reused = loop {
        let stream = CudaStream::new().unwrap();
        if stream.as_raw() == handle {
            break stream;
        }
        kept.push(stream);
        assert!(kept.len() < 1000, "the handle comes back");
    };
    assert_ne!(reused.id(), id);
}

// RMM #2478: all streams whose id the driver did not return were taken for one stream.
#[test]
fn identities_do_not_depend_on_the_driver() {
    let machine = Machine::new();
    let _entered = machine.enter();
    machine.fail(Fault::from_nth("cuStreamGetId", 1, CuResult::NOT_SUPPORTED));
    let (first, second) = (CudaStream::new().unwrap(), CudaStream::new().unwrap());
    assert_ne!(first, second);
    assert_eq!(calls_of(&machine, "cuStreamGetId"), 0);
}

// RMM's `is_default_stream`: the handles of the default streams.
#[test]
fn default_streams_are_recognized_by_each_of_their_handles() {
    let machine = Machine::new();
    let _entered = machine.enter();
    let adopt = |handle| {
        // SAFETY: the default streams always exist.
        unsafe { CudaStream::adopt(handle, StreamLifetime::UntilDropped) }.unwrap()
    };
    for handle in [CuStream::NULL, CuStream::LEGACY] {
        assert_eq!(adopt(handle), CudaStream::legacy());
        assert_eq!(adopt(handle).kind(), StreamKind::Legacy);
    }
    assert_eq!(adopt(CuStream::PER_THREAD), CudaStream::per_thread());
    assert_ne!(CudaStream::per_thread(), CudaStream::legacy());
    assert_ne!(CudaStream::new().unwrap(), CudaStream::legacy());
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

// A moved-from stream is unusable in RMM; here the compiler refuses its use.
#[test]
fn a_moved_stream_stays_itself_and_is_destroyed_once() {
    let machine = Machine::new();
    let _entered = machine.enter();
    let stream = CudaStream::new().unwrap();
    let id = stream.id();
    let moved = Box::new(stream);
    let shared = (*moved).clone();
    drop(moved);
    assert_eq!(calls_of(&machine, "cuStreamDestroy_v2"), 0);
    assert_eq!(shared.id(), id);
    shared.synchronize().unwrap();
    drop(shared);
    assert_eq!(calls_of(&machine, "cuStreamDestroy_v2"), 1);
}

// RMM #1333: an event of the first device was recorded on streams of the second.
#[test]
fn an_event_is_not_recorded_on_another_devices_stream() {
    let machine = Machine::builder().devices(2).build();
    let _entered = machine.enter();
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
    let machine = Machine::builder().devices(2).build();
    let _entered = machine.enter();
    let guard = Device::new(1).unwrap().make_current().unwrap();
    let (stream, event) = (CudaStream::new().unwrap(), CudaEvent::new().unwrap());
    let resource = CudaAsyncMemoryResource::new().unwrap();
    machine.kill();
    assert_eq!(stream.synchronize().unwrap_err().code(), Some(CuResult::DEINITIALIZED));
    drop((resource, event, stream, guard));
    assert!(!process_is_exiting(), "a lost driver is not the end of the process");
}

// Sizes near the largest number wrapped to 0 when they were rounded up.
#[test]
fn rounding_up_does_not_wrap() {
    for below in 0..255 {
        assert_eq!(align_up(usize::MAX - below, 256), None);
    }
    assert_eq!(align_up(usize::MAX - 255, 256), Some(usize::MAX - 255));
}

// A resource that one thread used was destroyed when another thread set a new one.
#[test]
fn a_current_resource_outlives_its_replacement() {
    let machine = Machine::new();
    let _entered = machine.enter();
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

// Shares above 100 percent were accepted.
#[test]
fn a_share_above_100_percent_is_refused() {
    let machine = Machine::new();
    let _entered = machine.enter();
    for percent in [101, 1000, u32::MAX] {
        assert!(Device::percent_of_free_memory(percent).unwrap_err().is_invalid_argument());
    }
    assert!(Device::percent_of_free_memory(100).unwrap() <= Device::memory_info().unwrap().free);
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
