//! Tasks wake when a device fails, although no host function runs.

use std::sync::Arc;

use rmm_async::{completed, download, wait_for_abandoned};
use rmm_containers::DeviceUVector;
use rmm_core::sys::CuResult;
use rmm_core::{CudaStream, Device};
use rmm_sim::{Fault, Kernel, Machine, Schedule};

use crate::harness::{Gate, block_on, checker, lazy, poll_once, stream};

#[test]
fn a_kernel_that_fails_wakes_with_its_error() {
    let machine = lazy().enter();
    let _all = machine.enter_all_threads();
    let stream = stream();
    let mut vector = DeviceUVector::filled(3u8, 100, &stream).expect("a vector");
    for value in 0..4 {
        vector.fill(value).expect("it is enqueued");
    }
    let kernel = Kernel::new("wild", |_| ()).fails(CuResult::ILLEGAL_ADDRESS);
    machine.launch(stream.as_raw(), kernel).expect("the stream exists");
    let mut copy = download(vector.as_slice(), &stream).expect("it is enqueued");
    assert!(poll_once(&mut copy).is_pending(), "the fills have not run");
    let error = block_on(copy).expect_err("the kernel fails");
    assert_eq!(error.code(), Some(CuResult::ILLEGAL_ADDRESS));
}

/// A future that a thread awaits while the stream is running a kernel.
fn awaited(stream: &CudaStream) -> std::thread::JoinHandle<Result<(), rmm_core::Error>> {
    let mut done = completed(stream).expect("it is enqueued");
    assert!(poll_once(&mut done).is_pending());
    let (sender, is_waiting) = std::sync::mpsc::channel();
    let waiting = std::thread::spawn(move || {
        sender.send(()).expect("the test waits");
        block_on(done)
    });
    is_waiting.recv().expect("the thread runs");
    waiting
}

#[test]
fn a_context_that_fails_wakes_its_tasks() {
    let machine = lazy().enter();
    let _all = machine.enter_all_threads();
    let stream = stream();
    let gate = Gate::new(&machine, &stream);
    let waiting = awaited(&stream);
    machine.fail_context(0, CuResult::ECC_UNCORRECTABLE);
    let error = waiting.join().expect("no panic").expect_err("the context is lost");
    assert_eq!(error.code(), Some(CuResult::ECC_UNCORRECTABLE));
    gate.open_after_a_fault();
}

#[test]
fn a_query_that_fails_frees_nothing() {
    let machine = lazy().enter();
    let _all = machine.enter_all_threads();
    let stream = stream();
    let gate = Gate::new(&machine, &stream);
    let kept = Arc::new(());
    let pending = completed(&stream).expect("it is enqueued").keep(Arc::clone(&kept));
    machine.fail(Fault::from_nth("cuEventQuery", 0, CuResult::OUT_OF_MEMORY));
    drop(pending);
    machine.clear_faults();
    assert!(machine.failed_calls().contains(&"cuEventQuery"));
    assert_eq!(Arc::strong_count(&kept), 2, "the work is pending");
    gate.open();
    wait_for_abandoned();
    assert_eq!(Arc::strong_count(&kept), 1);
}

#[test]
fn a_driver_that_shuts_down_wakes_its_tasks() {
    let machine = lazy().enter();
    let _all = machine.enter_all_threads();
    let stream = stream();
    let gate = Gate::new(&machine, &stream);
    let waiting = awaited(&stream);
    machine.kill();
    let error = waiting.join().expect("no panic").expect_err("the driver is gone");
    assert_eq!(error.code(), Some(CuResult::DEINITIALIZED));
    gate.open_after_a_fault();
}

#[test]
fn a_device_that_is_reset_wakes_its_tasks() {
    let machine = lazy().enter();
    let _all = machine.enter_all_threads();
    let stream = stream();
    let vector = DeviceUVector::filled(3u8, 100, &stream).expect("a vector");
    let copy = download(vector.as_slice(), &stream).expect("it is enqueued");
    let device = Device::new(0).expect("a device").as_raw();
    // SAFETY: the library supports a reset.
    let code = unsafe { rmm_sim::driver().cuDevicePrimaryCtxReset_v2(device) };
    assert_eq!(code, CuResult::SUCCESS);
    assert!(block_on(copy).expect_err("the context is gone").is_context_lost());
}

#[test]
fn a_failed_call_is_an_error_and_no_race() {
    let machine = Machine::builder().memory(64 << 20).schedule(Schedule::Lazy);
    let failed = checker().machine(machine).leaks(false).fail_each_call(CuResult::UNKNOWN, |gpu| {
        let (own, other, vector) = gpu.without_faults(|| {
            let (own, other) = (stream(), stream());
            let vector = DeviceUVector::filled(3u8, 100, &own).expect("a vector");
            (own, other, vector)
        });
        if let Ok(mut dropped) = download(vector.as_slice(), &other) {
            // It may be ready or not.
            let _ignored = poll_once(&mut dropped);
        }
        let copy = download(vector.as_slice(), &other).map(block_on);
        if let Ok(Ok(elements)) = copy {
            assert_eq!(elements, [3; 100]);
        }
        if let Ok(done) = completed(&own) {
            // It may fail.
            let _ignored = block_on(done);
        }
        wait_for_abandoned();
    });
    assert!(failed > 20, "{failed}");
}
