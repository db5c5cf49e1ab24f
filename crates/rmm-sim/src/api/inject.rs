//! Failures that a test asks for: driver calls that fail, contexts that are lost, a driver that is
//! gone.
#![forbid(unsafe_code)]

use rmm_sys::CuResult;

use crate::engine::machine::Machine;
use crate::engine::session::Session;
use crate::model::fault::Fault;

impl Machine {
    /// Makes driver calls fail by a rule, from now on and besides the rules given before.
    pub fn fail(&self, fault: Fault) {
        self.lock().faults.rules.push(fault);
    }

    /// Loses the primary context of a device, as if a kernel that [fails](crate::Kernel::fails)
    /// with `code` had just run there. Does nothing if there is no such device, or no context to
    /// lose.
    pub fn fail_context(&self, device: usize, code: CuResult) {
        let mut session = Session::open(self);
        if session.devices.get(device).is_some_and(|device| device.context_id.is_some()) {
            session.fail_context(device, code);
        }
    }

    /// Forgets all rules by which calls fail.
    pub fn clear_faults(&self) {
        self.lock().faults.rules.clear();
    }

    /// Runs `run` with no fault in force: the machine's calls meanwhile do not fail, and are not
    /// counted by the faults.
    pub fn without_faults<R>(&self, run: impl FnOnce() -> R) -> R {
        struct Hold<'a>(&'a Machine);
        impl Drop for Hold<'_> {
            fn drop(&mut self) {
                self.0.lock().faults.suspended -= 1;
            }
        }
        self.lock().faults.suspended += 1;
        let _hold = Hold(self);
        run()
    }

    /// The driver calls (their symbols) that faults made fail so far, in order.
    pub fn failed_calls(&self) -> Vec<&'static str> {
        self.lock().faults.failed_calls.clone()
    }

    /// The driver is gone, as at the end of a process: from now on every call returns
    /// `DEINITIALIZED`.
    pub fn kill(&self) {
        self.lock().dead = true;
    }
}
