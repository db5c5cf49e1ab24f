//! Entering and finishing a driver call: the checks that may refuse it, and the work that runs
//! around it.
#![forbid(unsafe_code)]

use rmm_sys::CuResult;

use crate::engine::current;
use crate::engine::session::Session;
use crate::model::context::Scope;
use crate::model::schedule::Schedule;

impl Session<'_> {
    /// Enters a driver call: counts it, and fails it if a fault applies, the driver does not
    /// support it, or a capture forbids it. Then runs the work that the schedule chooses.
    pub(crate) fn enter_call(&mut self, name: &'static str) -> Result<(), CuResult> {
        self.begin_call(name);
        if self.dead {
            return Err(CuResult::DEINITIALIZED);
        }
        self.faults.check(name)?;
        if !current::is_initialised() && !matches!(name, "cuInit" | "cuDriverGetVersion") {
            return Err(CuResult::NOT_INITIALIZED);
        }
        if self.missing_functions.contains(name) {
            return Err(CuResult::NOT_SUPPORTED);
        }
        self.admit_during_captures(name)?;
        self.run_chosen();
        Ok(())
    }

    /// Finishes a driver call; returns its code.
    pub(crate) fn finish_call(&mut self, outcome: Result<(), CuResult>) -> CuResult {
        if self.schedule == Schedule::Eager {
            self.run_pending(Scope::All);
        }
        let code = outcome.err().unwrap_or(CuResult::SUCCESS);
        self.end_call(code);
        code
    }
}
