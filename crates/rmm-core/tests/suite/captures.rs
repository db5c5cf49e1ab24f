//! Stream capture.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;

use rmm_core::{
    CaptureScope, CudaEvent, CudaStream, Error, RelaxedCapture, RetiringStream, StreamFlags,
    StreamLifetime, StreamRef, StreamWatcher, current_driver,
};
use rmm_sim::Fault;
use rmm_sys::{CuCaptureMode, CuGraph, CuResult, CuStream};

use crate::world::calls_of;

/// For a test that announces captures, of which the process counts all.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn begin(stream: &CudaStream) {
    let driver = current_driver().expect("the software driver");
    // SAFETY: the stream exists.
    let code = unsafe { driver.cuStreamBeginCapture_v2(stream.as_raw(), CuCaptureMode::GLOBAL) };
    assert_eq!(code, CuResult::SUCCESS);
}

/// The calling thread's mode.
fn mode() -> CuCaptureMode {
    let driver = current_driver().expect("the software driver");
    let mut mode = CuCaptureMode::GLOBAL;
    // SAFETY: `mode` may be read and written to.
    let code = unsafe { driver.cuThreadExchangeStreamCaptureMode(&raw mut mode) };
    assert_eq!(code, CuResult::SUCCESS);
    let found = mode;
    // SAFETY: as above.
    let code = unsafe { driver.cuThreadExchangeStreamCaptureMode(&raw mut mode) };
    assert_eq!(code, CuResult::SUCCESS);
    found
}

#[test]
fn a_stream_reports_whether_it_is_captured() {
    let machine = rmm_sim::enter();
    let (blocking, other) = (CudaStream::new().unwrap(), CudaStream::new().unwrap());
    assert!(!blocking.is_capturing().unwrap());
    begin(&blocking);
    assert!(blocking.is_capturing().unwrap());
    assert!(!other.is_capturing().unwrap());
    let legacy = StreamRef::legacy().is_capturing().unwrap_err();
    assert_eq!(legacy.code(), Some(CuResult::STREAM_CAPTURE_IMPLICIT));
    machine.assert_no_violations();
}

/// Calls `run` with a stream of another library's, unknown here, while it is captured.
fn while_captured(run: impl FnOnce(CuStream)) {
    let theirs = CudaStream::new().expect("a stream");
    let theirs = theirs.into_raw().expect("it is the only handle");
    let driver = current_driver().expect("the software driver");
    // SAFETY: nothing destroys the stream.
    let code = unsafe { driver.cuStreamBeginCapture_v2(theirs, CuCaptureMode::GLOBAL) };
    assert_eq!(code, CuResult::SUCCESS);
    run(theirs);
    let mut graph = CuGraph::NULL;
    // SAFETY: the stream exists, and `graph` may be written to.
    let ended = unsafe { driver.cuStreamEndCapture(theirs, &raw mut graph) };
    assert_eq!(ended, CuResult::SUCCESS, "the capture went on");
}

#[test]
fn a_stream_that_is_captured_can_be_adopted() {
    let _alone = alone();
    let _machine = rmm_sim::enter();
    for is_announced in [false, true] {
        let scope = is_announced.then(CaptureScope::announce);
        // SAFETY: nothing destroys the stream.
        let adopt = |theirs| unsafe { CudaStream::adopt(theirs, StreamLifetime::UntilDropped) };
        let mut kept = None;
        while_captured(|theirs| {
            let adopted = adopt(theirs).expect("it exists");
            assert_eq!(adopt(theirs).expect("as above").id(), adopted.id());
            kept = Some((theirs, adopted));
        });
        let (theirs, adopted) = kept.expect("it was adopted");
        assert_eq!(adopt(theirs).expect("it exists").id(), adopted.id(), "after the capture");
        drop(scope);
    }
}

#[test]
fn a_stream_of_unknown_lifetime_is_identified_in_an_announced_capture() {
    let _alone = alone();
    let _machine = rmm_sim::enter();
    let scope = CaptureScope::announce();
    while_captured(|theirs| {
        // SAFETY: nothing destroys the stream.
        let adopted = unsafe { CudaStream::adopt(theirs, StreamLifetime::Unknown) };
        let adopted = adopted.expect("it exists");
        let first = adopted.as_stream_ref().identify().expect("it exists");
        assert_eq!(adopted.as_stream_ref().identify().expect("as above"), first);
    });
    drop(scope);
}

#[test]
fn scopes_overlap() {
    let _alone = alone();
    let (first, second) = (CaptureScope::announce(), CaptureScope::announce());
    drop(first);
    assert!(CaptureScope::is_announced());
    std::thread::spawn(move || drop(second)).join().unwrap();
    assert!(!CaptureScope::is_announced());
}

#[test]
fn a_relaxed_thread_invalidates_no_capture_and_is_restored() {
    let machine = rmm_sim::enter();
    let (stream, event) =
        (CudaStream::with_flags(StreamFlags::NON_BLOCKING, 0).unwrap(), CudaEvent::new().unwrap());
    begin(&stream);
    {
        let _relaxed = RelaxedCapture::enter();
        let nested = RelaxedCapture::enter();
        drop(nested);
        assert_eq!(mode(), CuCaptureMode::RELAXED);
        assert!(event.is_complete().unwrap());
    }
    assert_eq!(mode(), CuCaptureMode::GLOBAL);
    machine.assert_no_violations();
    let refused = event.is_complete().unwrap_err();
    assert_eq!(refused.code(), Some(CuResult::STREAM_CAPTURE_UNSUPPORTED));
    assert_eq!(machine.violations().len(), 1);
}

#[test]
fn relaxed_guards_may_be_dropped_in_any_order() {
    let _machine = rmm_sim::enter();
    let _driver_is_initialised = current_driver().unwrap();
    let first = RelaxedCapture::enter();
    let second = RelaxedCapture::enter();
    drop(first);
    assert_eq!(mode(), CuCaptureMode::RELAXED, "one guard is left");
    drop(second);
    assert_eq!(mode(), CuCaptureMode::GLOBAL);
}

#[test]
fn a_guard_relaxes_the_mode_after_another_guard_failed() {
    let machine = rmm_sim::enter();
    let _driver_is_initialised = current_driver().unwrap();
    machine.fail(Fault::nth("cuThreadExchangeStreamCaptureMode", 1, CuResult::UNKNOWN));
    let refused = RelaxedCapture::enter();
    let relaxed = RelaxedCapture::enter();
    assert_eq!(mode(), CuCaptureMode::RELAXED);
    drop((refused, relaxed));
    assert_eq!(mode(), CuCaptureMode::GLOBAL);
}

#[derive(Default)]
struct Marks(Mutex<Option<Result<(), Error>>>);

impl StreamWatcher for Marks {
    fn stream_retires(&self, stream: &RetiringStream<'_>) {
        let marked = CudaEvent::new().and_then(|event| stream.record(&event));
        *self.0.lock().expect("no thread panics with the lock held") = Some(marked);
    }
}

#[test]
fn no_event_is_recorded_on_a_captured_stream_that_retires() {
    let machine = rmm_sim::enter();
    let marks = Arc::new(Marks::default());
    let watcher: Arc<dyn StreamWatcher> = marks.clone();
    let stream = CudaStream::new().unwrap();
    stream.watch(Arc::downgrade(&watcher));
    begin(&stream);
    drop(stream);
    let marked = marks.0.lock().unwrap().take().expect("it was told");
    assert!(marked.unwrap_err().is_unsupported());
    assert_eq!(calls_of(&machine, "cuEventRecord"), 0);
}

#[test]
fn an_announcement_waits_for_waits_that_would_invalidate_its_capture() {
    let _alone = alone();
    let _machine = rmm_sim::enter();
    let (begun, has_begun) = mpsc::channel();
    let is_announced = AtomicBool::new(false);
    let early = thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            CaptureScope::unless_announced(|| {
                begun.send(()).expect("the other thread listens");
                while !CaptureScope::is_announced() {
                    thread::yield_now();
                }
                // It is known of; the call returns after this.
                (0..10_000).for_each(|_| thread::yield_now());
                is_announced.load(Ordering::Relaxed)
            })
        });
        has_begun.recv().expect("the wait begins");
        let _scope = CaptureScope::announce();
        is_announced.store(true, Ordering::Relaxed);
        assert_eq!(CaptureScope::unless_announced(|| ()), None, "and later waits are not made");
        waiter.join().expect("it does not panic")
    });
    assert_eq!(early, Some(false));
}

#[test]
fn a_default_stream_is_asked_on_a_thread_without_a_context() {
    let _machine = rmm_sim::enter();
    let stream = CudaStream::new().expect("a stream");
    let asked = || [StreamRef::legacy(), StreamRef::per_thread()].map(StreamRef::is_capturing);
    let answers = thread::scope(|scope| scope.spawn(asked).join().expect("it does not panic"));
    assert_eq!(answers.map(|answer| answer.expect("no capture")), [false; 2]);
    drop(stream);
}
