//! Streams of others with an unknown end, identified at each call, and raw handles.

use std::alloc::Layout;
use std::cell::RefCell;
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::thread;

use rmm_core::{
    Context, CudaStream, Device, Error, StreamId, StreamLifetime, StreamRef,
    SynchronousResource as _, copy,
};
use rmm_resources::CudaMemoryResource;
use rmm_sim::{Fault, Machine};
use rmm_sys::{CuResult, CuStream};

use crate::foreign_streams::{adopt, destroy, made_by_others, noted, watched};
use crate::world::calls_of;

const UNKNOWN: StreamLifetime = StreamLifetime::Unknown;

fn identify(stream: &CudaStream) -> Result<StreamId, Error> {
    stream.as_stream_ref().identify()
}

/// What the closure returns for the stream of a handle.
fn with_raw<R>(handle: CuStream, act: impl FnOnce(StreamRef<'_>) -> R) -> Result<R, Error> {
    // SAFETY: the tests name streams that exist.
    unsafe { StreamRef::with_raw(handle, act) }
}

fn id_of(stream: StreamRef<'_>) -> StreamId {
    stream.id()
}

fn identity_of(stream: StreamRef<'_>) -> Result<StreamId, Error> {
    stream.identify()
}

/// Destroys a stream, and makes another with its handle.
fn replace(handle: CuStream) -> Result<(), Error> {
    destroy(handle);
    assert_eq!(made_by_others()?, handle, "the device reuses the handle at once");
    Ok(())
}

/// Ends the context, with all its streams, and makes the next one current.
fn reset(device: Device) -> Result<rmm_core::DeviceGuard, Error> {
    // SAFETY: the tests use nothing of the old context afterwards but what fails.
    let code = unsafe { rmm_sim::driver().cuDevicePrimaryCtxReset_v2(device.as_raw()) };
    assert_eq!(code, CuResult::SUCCESS);
    device.make_current()
}

#[test]
fn an_unknown_stream_is_identified_by_one_driver_call() -> Result<(), Error> {
    let machine = rmm_sim::enter();
    let stream = adopt(made_by_others()?, UNKNOWN)?;
    let id = identify(&stream)?;
    let calls = machine.calls();
    assert_eq!(identify(&stream)?, id);
    assert_eq!(machine.calls() - calls, 1);
    assert!(stream.id().needs_identification() && !id.needs_identification());
    assert!(id != stream.id() && stream == stream.clone());
    let shown = stream.id().to_string();
    assert!(shown.len() < 12, "the number is readable: {shown}");
    Ok(())
}

#[test]
fn other_streams_are_identified_without_the_driver() -> Result<(), Error> {
    let machine = rmm_sim::enter();
    let own = CudaStream::new()?;
    let adopted = adopt(made_by_others()?, StreamLifetime::UntilDropped)?;
    let streams = [own, adopted, CudaStream::legacy(), CudaStream::per_thread()];
    let calls = machine.calls();
    for stream in &streams {
        assert_eq!(identify(stream)?, stream.id());
        assert!(!stream.id().needs_identification());
    }
    assert_eq!(machine.calls(), calls);
    Ok(())
}

#[test]
fn a_reused_handle_is_a_new_identity_and_the_old_retires() -> Result<(), Error> {
    let _machine = rmm_sim::enter();
    let log = Arc::default();
    let handle = made_by_others()?;
    let stream = adopt(handle, UNKNOWN)?;
    let _watcher = watched(&stream, &log);
    let (of_handle, mut former) = (stream.id(), identify(&stream)?);
    for _ in 0..3 {
        replace(handle)?;
        let id = identify(&stream)?;
        assert_ne!(id, former);
        assert_eq!(noted(&log), [format!("retires {former} false")]);
        assert_eq!(identify(&stream)?, id);
        assert_eq!(noted(&log), [""; 0]);
        former = id;
    }
    // Adopting the handle is as good.
    replace(handle)?;
    assert_eq!(adopt(handle, UNKNOWN)?, stream);
    assert_eq!(noted(&log), [format!("retires {former} false")]);
    former = identify(&stream)?;
    assert_eq!(stream.id(), of_handle);
    drop(stream);
    let end = [former, of_handle].map(|id| format!("retires {id} false"));
    assert_eq!(noted(&log), end);
    Ok(())
}

#[test]
fn a_name_passes_to_the_next_stream_of_a_handle() -> Result<(), Error> {
    let machine = rmm_sim::enter();
    let handle = made_by_others()?;
    let stream = adopt(handle, UNKNOWN)?.with_name("theirs");
    let former = identify(&stream)?;
    assert!(former.to_string().ends_with(" \"theirs\""));
    replace(handle)?;
    assert!(identify(&stream)?.to_string().ends_with(" \"theirs\""));
    assert!(!former.to_string().contains("theirs"));
    let last = identify(&stream)?;
    // The checker knows the streams by other numbers, and names the one that there is now.
    let other = CudaStream::new()?;
    let memory = CudaMemoryResource::new().allocate_sync(Layout::new::<u64>())?;
    for stream in [&stream, &other] {
        // SAFETY: within the memory. Nothing orders the second fill: a race.
        unsafe { copy::fill(memory, 1, 8, stream)? };
    }
    let report = machine.violations()[0].to_string();
    assert!(report.contains("item 1 of stream 3 \"theirs\", then"), "{report}");
    assert!(report.contains("item 1 of stream 4: "), "{report}");
    drop(stream);
    assert!(!last.to_string().contains("theirs"));
    Ok(())
}

#[test]
fn a_handle_reused_on_another_device_has_its_context() -> Result<(), Error> {
    let _machine = Machine::builder().devices(2).enter();
    let first = Context::current()?;
    let handle = made_by_others()?;
    let stream = adopt(handle, UNKNOWN)?;
    let raw = || with_raw(handle, |stream| stream.identify().map(|id| (id, stream.own_context())));
    let (former, context) = raw()??;
    assert_eq!((former, context), (identify(&stream)?, Some(first)));
    destroy(handle);
    let _current = Device::new(1)?.make_current()?;
    assert_eq!(made_by_others()?, handle, "the devices share handles");
    let (id, context) = raw()??;
    assert_ne!(id, former);
    assert_eq!(context, Some(Context::current()?));
    assert_eq!((identify(&stream)?, stream.own_context()), (id, context));
    assert_eq!(stream.device()?, Device::new(1)?);
    Ok(())
}

#[test]
fn a_handle_of_a_context_that_ended_is_not_passed_to_the_driver() -> Result<(), Error> {
    let machine = rmm_sim::enter();
    let handle = made_by_others()?;
    let stream = adopt(handle, UNKNOWN)?;
    let (former, raw) = (identify(&stream)?, || with_raw(handle, identity_of));
    assert_eq!(raw()??, former);
    let _current = reset(Device::new(0)?)?;
    let asked = calls_of(&machine, "cuStreamGetId");
    assert!(identify(&stream).unwrap_err().is_context_lost());
    assert_eq!(calls_of(&machine, "cuStreamGetId"), asked);
    assert_eq!(made_by_others()?, handle);
    // The next context's stream of this handle is served at once.
    let id = raw()??;
    assert_ne!(id, former);
    let anew = adopt(handle, UNKNOWN)?;
    assert_ne!(anew, stream);
    assert_eq!(identify(&anew)?, id);
    assert!(identify(&stream).unwrap_err().is_context_lost());
    Ok(())
}

#[test]
fn a_query_of_the_identity_that_fails_once_is_retried() -> Result<(), Error> {
    let machine = rmm_sim::enter();
    let stream = adopt(made_by_others()?, UNKNOWN)?;
    let id = identify(&stream)?;
    machine.fail(Fault::nth("cuStreamGetId", 1, CuResult::UNKNOWN));
    assert_eq!(identify(&stream)?, id);
    machine.fail(Fault::from_nth("cuStreamGetId", 1, CuResult::UNKNOWN));
    assert!(identify(&stream).unwrap_err().is_driver());
    assert!(adopt(made_by_others()?, UNKNOWN).is_err());
    machine.clear_faults();
    assert_eq!(identify(&stream)?, id);
    Ok(())
}

#[test]
fn threads_that_identify_at_once_agree() -> Result<(), Error> {
    const THREADS: usize = 4;
    let machine = rmm_sim::enter();
    let log = Arc::default();
    let handle = made_by_others()?;
    let stream = adopt(handle, UNKNOWN)?;
    let _watcher = watched(&stream, &log);
    for _ in 0..200 {
        let former = identify(&stream)?;
        replace(handle)?;
        let (start, found) = (Barrier::new(THREADS), Mutex::new(Vec::new()));
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    let _entered = machine.enter();
                    start.wait();
                    let id = identify(&stream).expect("the driver works");
                    found.lock().expect("no panic").push(id);
                });
            }
        });
        let id = identify(&stream)?;
        assert_ne!(id, former);
        assert_eq!(*found.lock().expect("no panic"), [id; THREADS]);
        assert_eq!(noted(&log), [format!("retires {former} false")]);
    }
    Ok(())
}

#[test]
fn a_raw_handle_is_found_without_the_driver() -> Result<(), Error> {
    let machine = rmm_sim::enter();
    let handle = made_by_others()?;
    let id = with_raw(handle, id_of)?;
    let calls = machine.calls();
    assert_eq!(with_raw(handle, id_of)?, id);
    // Within a call of its own, too.
    let inner = with_raw(handle, |outer| with_raw(handle, |inner| (outer.id(), inner.id())))??;
    assert_eq!(inner, (id, id));
    // Another thread finds it in the table of the process.
    let there = thread::scope(|scope| {
        scope
            .spawn(|| {
                let _entered = machine.enter();
                with_raw(handle, id_of)
            })
            .join()
            .expect("no panic")
    })?;
    assert_eq!(there, id);
    assert_eq!(machine.calls(), calls);
    assert_eq!(adopt(handle, UNKNOWN)?.id(), id, "everyone gets the same");
    Ok(())
}

#[test]
fn raw_handles_of_default_streams_are_these() -> Result<(), Error> {
    let machine = rmm_sim::enter();
    let calls = machine.calls();
    for (handle, stream) in [
        (CuStream::NULL, StreamRef::legacy()),
        (CuStream::LEGACY, StreamRef::legacy()),
        (CuStream::PER_THREAD, StreamRef::per_thread()),
    ] {
        assert!(with_raw(handle, |found| found == stream)?);
    }
    assert_eq!(machine.calls(), calls);
    Ok(())
}

#[test]
fn a_raw_handle_that_cannot_be_identified_is_an_error() -> Result<(), Error> {
    let machine = rmm_sim::enter();
    let handle = made_by_others()?;
    for function in ["cuStreamGetId", "cuStreamGetCtx"] {
        machine.fail(Fault::nth(function, 1, CuResult::UNKNOWN));
        assert!(with_raw(handle, |_| unreachable!("there is no stream")).is_err(), "{function}");
    }
    with_raw(handle, identity_of)?.map(drop)
}

/// A value of a thread that uses a raw handle when it is dropped, after the thread's table.
struct UsesHandle(Machine, CuStream, mpsc::Sender<StreamId>);

impl Drop for UsesHandle {
    fn drop(&mut self) {
        let _entered = self.0.enter();
        let id = with_raw(self.1, id_of).expect("the driver works");
        self.2.send(id).expect("the test waits");
    }
}

thread_local! {
    static AT_THE_END: RefCell<Option<UsesHandle>> = const { RefCell::new(None) };
}

#[test]
fn a_thread_that_ends_may_use_raw_handles() -> Result<(), Error> {
    let machine = rmm_sim::enter();
    let handle = made_by_others()?;
    let id = with_raw(handle, id_of)?;
    // Values of a thread are dropped in an order that the platform chooses: one of the two comes
    // after the table.
    for early in [true, false] {
        let (sender, found) = mpsc::channel();
        let (there, machine) = (machine.clone(), machine.clone());
        let thread = thread::spawn(move || {
            let _entered = machine.enter();
            let value = UsesHandle(there, handle, sender);
            if early {
                AT_THE_END.with_borrow_mut(|kept| *kept = Some(value));
                with_raw(handle, |_| ()).expect("the driver works");
            } else {
                with_raw(handle, |_| ()).expect("the driver works");
                AT_THE_END.with_borrow_mut(|kept| *kept = Some(value));
            }
        });
        thread.join().expect("no panic");
        assert_eq!(found.recv(), Ok(id));
    }
    Ok(())
}
