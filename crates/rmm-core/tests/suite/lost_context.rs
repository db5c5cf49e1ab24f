//! Reset and lost contexts: streams and events fail, and never pass a handle to the driver that the
//! next context may reuse.

use rmm_core::{Context, CudaEvent, CudaStream, Device, Error};
use rmm_sim::{Kernel, Machine, Schedule};
use rmm_sys::CuResult;
use rmm_sys::epoch::Epoch;

fn machine() -> Machine {
    Machine::builder().schedule(Schedule::Lazy).build()
}

fn reset() {
    let device = Device::new(0).expect("a device").as_raw();
    // SAFETY: what this test does afterwards is what the library promises to bear.
    let code = unsafe { rmm_sim::driver().cuDevicePrimaryCtxReset_v2(device) };
    assert_eq!(code, CuResult::SUCCESS);
}

#[test]
fn a_context_differs_from_the_next_one_with_its_handle() {
    let _machine = machine().enter();
    let context = Context::current().unwrap();
    reset();
    assert!(context.check().unwrap_err().is_context_lost());
    assert!(Context::current().unwrap_err().is_context_lost());
    let _next_is_current = Device::new(0).unwrap().make_current().unwrap();
    let next = Context::current().unwrap();
    assert_eq!(next.as_raw(), context.as_raw());
    assert_ne!(next, context);
    let error = context.enter().expect_err("it has ended");
    assert!(error.is_context_lost() && error.to_string().contains("reset"), "{error}");
    next.check_works().unwrap();
}

#[test]
fn a_failed_kernel_is_recorded_for_every_allocator() {
    let machine = machine().enter();
    let (context, stream) = (Context::current().unwrap(), CudaStream::new().unwrap());
    let kernel = Kernel::new("bad", |_| ()).fails(CuResult::ILLEGAL_ADDRESS);
    machine.launch(stream.as_raw(), kernel).unwrap();
    let before = Epoch::now().without_captures();
    let error = stream.synchronize().unwrap_err();
    assert!(error.is_context_lost(), "{error}");
    assert_ne!(Epoch::now().without_captures(), before);
    context.check().expect("it is still there");
    assert_eq!(context.check_works().unwrap_err().code(), Some(CuResult::ILLEGAL_ADDRESS));
}

#[test]
fn streams_and_events_of_a_lost_context_call_no_driver() {
    let machine = machine().enter();
    let (own, event) = (CudaStream::new().unwrap(), CudaEvent::new().unwrap());
    event.record(&own).unwrap();
    reset();
    let _next_is_current = Device::new(0).and_then(Device::make_current).unwrap();
    // The driver reuses the previous context's handles.
    let (new, new_event) = (CudaStream::new().unwrap(), CudaEvent::new().unwrap());
    let lost = |outcome: Result<(), Error>| {
        let error = outcome.expect_err("its context is gone");
        assert!(error.is_context_lost(), "{error}");
    };
    lost(own.synchronize());
    lost(own.is_idle().map(drop));
    lost(own.is_capturing().map(drop));
    lost(own.wait(&new_event));
    lost(new.wait(&event));
    lost(own.record_event().map(drop));
    lost(event.synchronize());
    lost(event.is_complete().map(drop));
    lost(event.record(&new));
    lost(new_event.record(&own));
    drop((own, event));
    new_event.record(&new).unwrap();
    new.synchronize().unwrap();
    assert!(new_event.is_complete().unwrap());
    machine.assert_no_violations();
}
