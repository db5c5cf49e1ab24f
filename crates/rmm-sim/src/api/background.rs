//! A device that goes on by itself: a thread runs queued work while the program makes no call.
#![forbid(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use crate::engine::machine::Machine;
use crate::engine::session::Session;

impl Machine {
    /// Runs queued work on a thread of its own until the guard is dropped, as a GPU does: for
    /// programs that wait without a call of the driver, for a host function or for a word in memory
    /// that a stream writes.
    ///
    /// Without it, work runs within the program's calls alone, so that a schedule and the calls
    /// decide the order. With it, work runs in any order that streams and events allow, and a run
    /// cannot be repeated by its seed. The checks of stream order do not depend on it. Under
    /// [`Schedule::Timed`](crate::Schedule::Timed) work also counts as complete before its
    /// simulated time.
    ///
    /// Host functions and kernels no longer run within calls that do not wait, so a host function
    /// may wait for the thread that enqueued it. One that waits for other work on the device needs
    /// a second background thread: call this twice.
    ///
    /// ```
    /// use rmm_sim::{Kernel, Machine, Schedule};
    /// # use rmm_sys::{CuContext, CuDevice, CuStream};
    /// # fn initialise() {
    /// #     let (driver, mut context) = (rmm_sim::driver(), CuContext::NULL);
    /// #     // SAFETY: the pointers are valid for writes.
    /// #     unsafe {
    /// #         driver.cuInit(0).result().unwrap();
    /// #         driver.cuDevicePrimaryCtxRetain(&mut context, CuDevice(0)).result().unwrap();
    /// #         driver.cuCtxSetCurrent(context).result().unwrap();
    /// #     }
    /// # }
    ///
    /// let machine = Machine::builder().schedule(Schedule::Lazy).enter();
    /// # initialise();
    /// let _running = machine.run_in_background();
    /// let (sender, has_run) = std::sync::mpsc::channel();
    /// let kernel = Kernel::new("kernel", move |_| sender.send(()).unwrap());
    /// machine.launch(CuStream::NULL, kernel)?;
    /// has_run.recv().unwrap(); // without another call
    /// # Ok::<(), rmm_sys::CuResult>(())
    /// ```
    ///
    /// # Panics
    /// If the system starts no thread.
    #[must_use = "the thread stops when the guard is dropped"]
    pub fn run_in_background(&self) -> BackgroundGuard {
        let stop = Arc::new(AtomicBool::new(false));
        let (machine, stopped) = (self.clone(), Arc::clone(&stop));
        let run = move || {
            loop {
                // A session for each piece of work, so that calls of the program come between.
                let mut session = Session::open(&machine);
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                if !session.run_one_ready() {
                    session.wait();
                }
            }
        };
        self.lock().background += 1;
        let thread = thread::Builder::new().name(String::from("rmm-sim background")).spawn(run);
        let thread = thread.expect("the system starts a thread");
        BackgroundGuard { machine: self.clone(), stop, thread: Some(thread) }
    }
}

/// A thread that runs a machine's work: [`Machine::run_in_background`]. Dropping it waits for the
/// piece of work that is running.
#[derive(Debug)]
pub struct BackgroundGuard {
    machine: Machine,
    stop: Arc<AtomicBool>,
    /// `None` once it is joined.
    thread: Option<JoinHandle<()>>,
}

impl Drop for BackgroundGuard {
    fn drop(&mut self) {
        let mut state = self.machine.lock();
        state.background -= 1;
        // Under the lock, so that the thread does not begin to wait in between.
        self.stop.store(true, Ordering::Relaxed);
        drop(state);
        self.machine.0.ran.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic of the device is reported as a violation.
            let _ignored = thread.join();
        }
    }
}
