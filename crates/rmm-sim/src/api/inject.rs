//! Fault injection: failing driver calls, lost contexts, a driver that has shut down.
#![forbid(unsafe_code)]

use rmm_sys::CuResult;

use crate::engine::machine::Machine;
use crate::engine::session::Session;
use crate::model::fault::Fault;

impl Machine {
    /// Adds a rule by which driver calls fail from now on. Rules add up.
    pub fn fail(&self, fault: Fault) {
        self.lock().faults.rules.push(fault);
    }

    /// Loses the contexts of a device, as if a kernel that [fails](crate::Kernel::fails)
    /// with `code` had just run there. Does nothing if there is no such device, or no context to
    /// lose.
    pub fn fail_context(&self, device: usize, code: CuResult) {
        let mut session = Session::open(self);
        if session.contexts.iter().any(|context| context.device == device && context.id.is_some()) {
            session.fail_context(device, code);
        }
    }

    /// Removes all rules by which calls fail.
    pub fn clear_faults(&self) {
        self.lock().faults.rules.clear();
    }

    /// Runs `run` with all faults suspended: the machine's calls meanwhile do not fail, and faults
    /// do not count them.
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

    /// The driver calls, by symbol, that faults have made fail so far, in order.
    pub fn failed_calls(&self) -> Vec<&'static str> {
        self.lock().faults.failed_calls.clone()
    }

    /// Shuts the driver down, as at the end of a process: from now on every call returns
    /// `DEINITIALIZED`.
    pub fn kill(&self) {
        self.lock().dead = true;
    }
}
