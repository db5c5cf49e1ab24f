//! A stream stalled for as long as a probe needs, so that no probe depends on time.

use std::ffi::c_void;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rmm_conformance::{CheckResult, DeviceHandle, Failure, ensure};
use rmm_sys::{CuContext, CuResult, CuStream};

use super::raw::{Stream, context, driver};

/// How long a stall lasts at most. It is not waited for, but where a call waits for the stalled
/// work against expectation.
const LIMIT_ON_GPU: Duration = Duration::from_secs(1);
/// As above; a loaded machine may come back to the probe late.
const LIMIT_IN_SOFTWARE: Duration = Duration::from_secs(20);

/// Work on a stream that began and does not end until this is released or dropped.
pub(super) struct Stall {
    gate: Arc<Gate>,
    /// The software device has no thread of its own: this one runs the work.
    runner: Option<JoinHandle<()>>,
}

struct Gate {
    step: Mutex<Step>,
    changed: Condvar,
    limit: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Ahead,
    Holding,
    Released,
    /// It was not released in time.
    Expired,
}

impl Stall {
    /// Stalls a stream of the current context, whose work so far is done.
    pub(super) fn on(device: &DeviceHandle, stream: &Stream) -> Result<Self, Failure> {
        let limit = match device {
            DeviceHandle::Gpu(_) => LIMIT_ON_GPU,
            DeviceHandle::Software(_) => LIMIT_IN_SOFTWARE,
        };
        let gate = Arc::new(Gate { step: Mutex::new(Step::Ahead), changed: Condvar::new(), limit });
        let runner = match device {
            DeviceHandle::Gpu(_) => {
                enqueue(&gate, stream.raw()).result()?;
                None
            }
            DeviceHandle::Software(machine) => {
                let (machine, gate, stream) = (machine.clone(), gate.clone(), stream.raw());
                let context = context()?;
                Some(std::thread::spawn(move || {
                    let _entered = machine.enter();
                    enqueue_and_run(&gate, context, stream);
                }))
            }
        };
        let stall = Self { gate, runner };
        let step = stall.gate.wait_while(|step| step == Step::Ahead);
        ensure(step == Step::Holding, || format!("the work that stalls is {step:?}"))?;
        Ok(stall)
    }

    /// Lets the stream go on.
    pub(super) fn release(mut self) -> CheckResult {
        let step = self.gate.open();
        let ran = self.runner.take().map_or(Ok(()), JoinHandle::join);
        ensure(ran.is_ok(), || "what ran the work that stalls panicked".to_owned())?;
        ensure(step == Step::Holding, || "a call waited for stalled work, unexpectedly".to_owned())
    }
}

impl Drop for Stall {
    fn drop(&mut self) {
        self.gate.open();
        if let Some(runner) = self.runner.take() {
            // The panic hook has reported its panic.
            let _ignored = runner.join();
        }
    }
}

impl Gate {
    fn step(&self) -> MutexGuard<'_, Step> {
        self.step.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits while the step is one of these, at most as long as the limit.
    fn wait_while(&self, is_too_early: impl Fn(Step) -> bool) -> Step {
        let waited =
            self.changed.wait_timeout_while(self.step(), self.limit, |step| is_too_early(*step));
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Goes to `to` if the step is `from`; what it was.
    fn step_on(&self, from: impl Fn(Step) -> bool, to: Step) -> Step {
        let mut step = self.step();
        let before = *step;
        if from(before) {
            *step = to;
        }
        self.changed.notify_all();
        before
    }

    fn hold(&self) {
        if self.step_on(|step| step == Step::Ahead, Step::Holding) == Step::Ahead {
            self.wait_while(|step| step == Step::Holding);
            self.step_on(|step| step == Step::Holding, Step::Expired);
        }
    }

    /// Ends the stall; what it was until then.
    fn open(&self) -> Step {
        self.step_on(|_| true, Step::Released)
    }
}

/// The host function.
unsafe extern "C" fn hold(gate: *mut c_void) {
    // SAFETY: `enqueue` gave away one count of a gate with this pointer, and the driver calls the
    // function once.
    let gate = unsafe { Arc::from_raw(gate.cast_const().cast::<Gate>()) };
    gate.hold();
}

fn enqueue(gate: &Arc<Gate>, stream: CuStream) -> CuResult {
    let data = Arc::into_raw(gate.clone());
    // SAFETY: the stream exists, and the function may be called once with one count of the gate,
    // from any thread.
    let code =
        unsafe { driver().cuLaunchHostFunc(stream, Some(hold), data.cast_mut().cast::<c_void>()) };
    if code != CuResult::SUCCESS {
        // SAFETY: the count that was given away above, and not taken.
        drop(unsafe { Arc::from_raw(data) });
    }
    code
}

/// Enqueues the work and runs it by waiting for it. If that fails, the thread that stalls the
/// stream finds out by its time limit.
fn enqueue_and_run(gate: &Arc<Gate>, context: CuContext, stream: CuStream) {
    // SAFETY: contexts of this program stay.
    let code = unsafe { driver().cuCtxSetCurrent(context) };
    if code == CuResult::SUCCESS && enqueue(gate, stream) == CuResult::SUCCESS {
        // The work may run before the wait begins. The stream may be gone then, which the software
        // device defines as an error.
        // SAFETY: this is the software device.
        let _ignored = unsafe { driver().cuStreamSynchronize(stream) };
    }
}
