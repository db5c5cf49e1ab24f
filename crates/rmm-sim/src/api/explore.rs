//! Every course that a small program can take.
#![forbid(unsafe_code)]

use crate::api::checker::Checker;
use crate::engine::machine::Machine;
use crate::model::schedule::{Choices, Schedule, Script};

/// How far an exploration went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Exploration {
    /// How many runs were made, each of another course.
    pub runs: usize,
    /// Whether these are all the courses there are.
    pub is_complete: bool,
}

/// Runs `program` on fresh machines again and again, each time with other work done before its
/// driver calls, until it has taken every course or has been run `limit` times.
///
/// A course is which ready items run, and in which order, before each of the calls. Their number
/// grows exponentially with the program's calls and streams, so this is for programs of a dozen
/// calls: for what [`check`](crate::check) only samples. The program has to make the same calls
/// whenever its device does the same, so on one thread.
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
///     // SAFETY: the places may be written, and the work uses no memory.
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
/// If a run panicked, left violations or leaks: at once, with the report and the
/// [script](crate::Schedule::Scripted) of the run.
#[track_caller]
pub fn explore(limit: usize, program: impl Fn(&Machine)) -> Exploration {
    Checker::new().explore(limit, program)
}

impl Checker {
    /// Runs `program` on every course, at most `limit` of them, see [`explore`].
    ///
    /// # Panics
    /// As [`explore`].
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
                    "the program is wrong with Schedule::Scripted(&{script:?}), run {runs}:\n{report}"
                );
            }
            next = script.next();
        }
        Exploration { runs, is_complete: next.is_none() }
    }
}

impl Machine {
    /// Lets a script decide what runs before each call.
    fn follow(&self, script: Script) {
        let mut state = self.lock();
        (state.schedule, state.choices) = (Schedule::Scripted(&[]), Choices::Scripted(script));
    }

    /// The script that decided what ran, with the choices made so far; an empty one if none did.
    fn followed(&self) -> Script {
        match std::mem::replace(&mut self.lock().choices, Choices::None) {
            Choices::Scripted(script) => script,
            Choices::None | Choices::Drawn(_) => Script::default(),
        }
    }
}
