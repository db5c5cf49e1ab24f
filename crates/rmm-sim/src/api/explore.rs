//! Systematic exploration: a small program under every schedule that is possible (stateless model
//! checking, as loom and CHESS do it).
#![forbid(unsafe_code)]

use crate::api::checker::Checker;
use crate::engine::machine::Machine;
use crate::model::schedule::{Choices, Schedule, Script};

/// The extent of an exploration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Exploration {
    /// The number of runs, each with a different schedule.
    pub runs: usize,
    /// Whether these are all possible schedules.
    pub is_complete: bool,
}

/// Runs `program` on fresh machines repeatedly, each time under a different schedule, until all
/// schedules are explored or it has been run `limit` times.
///
/// A schedule is which ready work runs, and in which order, before each driver call. The number of
/// schedules grows exponentially with the program's calls and streams, so this is for programs of
/// about a dozen calls; [`check`](crate::check) samples the schedules of larger ones. The program
/// must be deterministic: it makes the same calls whenever the device behaves the same, which means
/// on one thread.
///
/// ```
/// use std::cell::RefCell;
/// use std::collections::BTreeSet;
///
/// use rmm_sys::{CuContext, CuDevice, CuStream};
///
/// let seen = RefCell::new(BTreeSet::new());
/// let explored = rmm_sim::explore(100, |gpu| {
///     let driver = rmm_sim::driver();
///     let mut context = CuContext::NULL;
///     // SAFETY: the pointers are valid for writes, and the kernel accesses no memory.
///     unsafe {
///         driver.cuInit(0).result().unwrap();
///         driver.cuDevicePrimaryCtxRetain(&mut context, CuDevice(0)).result().unwrap();
///         driver.cuCtxSetCurrent(context).result().unwrap();
///     }
///     gpu.launch(CuStream::NULL, rmm_sim::Kernel::new("slow", |_| ())).unwrap();
///     // SAFETY: takes no pointer.
///     seen.borrow_mut().insert(unsafe { driver.cuStreamQuery(CuStream::NULL) }.is_success());
/// });
/// assert!(explored.is_complete);
/// assert_eq!(seen.take(), BTreeSet::from([false, true])); // it may be done by then, or not
/// ```
///
/// # Panics
/// If a run panicked, had violations, or returned with leaks: immediately, with the report and the
/// [script](crate::Schedule::Scripted) that reproduces the run.
#[track_caller]
pub fn explore(limit: usize, program: impl Fn(&Machine)) -> Exploration {
    Checker::new().explore(limit, program)
}

impl Checker {
    /// Runs `program` under every schedule, at most `limit` of them; see [`explore`].
    ///
    /// # Panics
    /// Where [`explore`] panics.
    #[track_caller]
    pub fn explore(&self, limit: usize, program: impl Fn(&Machine)) -> Exploration {
        let mut next = Some(Script::default());
        let mut runs = 0;
        while let Some(script) = next.take_if(|_| runs < limit) {
            let machine = self.build();
            machine.follow(script);
            let outcome = self.attempt(&machine, &program, |_| None);
            let script = machine.followed();
            runs += 1;
            if let Err(report) = outcome {
                let script = script.made();
                panic!(
                    "the check failed with Schedule::Scripted(&{script:?}), run {runs}:\n{report}"
                );
            }
            next = script.next();
        }
        Exploration { runs, is_complete: next.is_none() }
    }
}

impl Machine {
    /// Lets a script choose the work that runs before each call.
    fn follow(&self, script: Script) {
        let mut state = self.lock();
        (state.schedule, state.choices) = (Schedule::Scripted(&[]), Choices::Scripted(script));
    }

    /// Takes the script that the machine follows, with the choices made so far; an empty one if it
    /// follows none.
    fn followed(&self) -> Script {
        match std::mem::replace(&mut self.lock().choices, Choices::None) {
            Choices::Scripted(script) => script,
            Choices::None | Choices::Drawn(_) => Script::default(),
        }
    }
}
