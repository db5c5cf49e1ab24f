//! Running a program on fresh machines until it is shown to be wrong: the entry points for tests.
#![forbid(unsafe_code)]

use std::any::Any;
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::builder::{MachineBuilder, base_seed};
use crate::machine::Machine;
use crate::schedule::Schedule;
use crate::trace::LeakKind;

/// Seeds that a program is checked under unless it is told otherwise.
const SEEDS: u64 = 8;

/// Runs `program` on a fresh machine under each of several schedules: everything at once, everything as late as may be, and
/// eight seeded ones, from the number in the environment variable `RMM_SIM_SEED` on. Each time the machine is entered, so that
/// the program's driver calls go there.
///
/// ```
/// use rmm_sim::Kernel;
/// use rmm_sys::{CuContext, CuDevice, CuDevicePtr, CuStream};
///
/// rmm_sim::check(|gpu| {
///     let driver = rmm_sim::driver();
///     let (mut context, mut memory) = (CuContext::NULL, CuDevicePtr::NULL);
///     // SAFETY: the places may be written, and no address is used but the one that was given.
///     unsafe {
///         driver.cuInit(0).result().unwrap();
///         driver.cuDevicePrimaryCtxRetain(&mut context, CuDevice(0)).result().unwrap();
///         driver.cuCtxSetCurrent(context).result().unwrap();
///         driver.cuMemAlloc_v2(&mut memory, 4096).result().unwrap();
///     }
///     gpu.launch(CuStream::NULL, Kernel::new("compute", |_| ()).writes(memory, 4096)).unwrap();
///     // SAFETY: as above; the free waits for the kernel.
///     unsafe { driver.cuMemFree_v2(memory) }.result().unwrap();
/// });
/// ```
///
/// # Panics
/// If a run panicked, left violations or, where it returned, leaks: with all reports, and what to do to see each again.
#[track_caller]
pub fn check(program: impl Fn(&Machine)) {
    Checker::new().run(program);
}

/// How programs are checked: on which machine, and under which schedules. [`check`] and [`explore`](crate::explore) are the
/// short ways.
///
/// ```
/// use rmm_sim::{Checker, Machine, Schedule};
///
/// let machine = Machine::builder().devices(2).memory(64 << 20);
/// let seeds = (0..4).map(Schedule::Seeded);
/// Checker::new().machine(machine).schedules(seeds).run(|gpu| assert_eq!(gpu.violations().len(), 0));
/// ```
#[must_use = "nothing is checked until a program is run"]
#[derive(Clone, Debug)]
pub struct Checker {
    machine: MachineBuilder,
    schedules: Vec<Schedule>,
    leaks: bool,
}

impl Default for Checker {
    fn default() -> Self {
        Self::new()
    }
}

impl Checker {
    /// Checks on machines as [`Machine::builder`] describes them, under the schedules of [`check`].
    pub fn new() -> Self {
        let base = base_seed();
        let seeds = (0..SEEDS).map(|seed| Schedule::Seeded(base.wrapping_add(seed)));
        Self {
            machine: Machine::builder(),
            schedules: [Schedule::Eager, Schedule::Lazy].into_iter().chain(seeds).collect(),
            leaks: true,
        }
    }

    /// The machine to run on: a fresh one each time, of this description.
    pub fn machine(mut self, machine: MachineBuilder) -> Self {
        self.machine = machine;
        self
    }

    /// The schedules that [`run`](Self::run) uses, instead of the usual ones.
    pub fn schedules(mut self, schedules: impl IntoIterator<Item = Schedule>) -> Self {
        self.schedules = schedules.into_iter().collect();
        self
    }

    /// Whether what a program does not release is reported; it is by default.
    pub fn leaks(mut self, reported: bool) -> Self {
        self.leaks = reported;
        self
    }

    /// Runs `program` once under each schedule, see [`check`].
    ///
    /// # Panics
    /// As [`check`].
    #[track_caller]
    pub fn run(&self, program: impl Fn(&Machine)) {
        let mut found: Vec<(String, Vec<String>)> = Vec::new();
        for &schedule in &self.schedules {
            let machine = self.machine.clone().schedule(schedule).build();
            let Err(report) = self.attempt(&machine, &program, |_| None) else { continue };
            let schedule = schedule.to_string();
            match found.iter_mut().find(|(other, _)| *other == report) {
                Some((_, schedules)) => schedules.push(schedule),
                None => found.push((report, vec![schedule])),
            }
        }
        if found.is_empty() {
            return;
        }
        let mut text = String::from("the program is wrong");
        for (report, schedules) in found {
            // Writing to a string does not fail.
            let _ = write!(text, "\nwith {}:\n{report}", schedules.join(", "));
        }
        panic!(
            "{text}\n(`Machine::builder().schedule(..)` makes a machine on which a run can be seen again)"
        );
    }

    /// A machine as described.
    pub(crate) fn build(&self) -> Machine {
        self.machine.clone().build()
    }

    /// Runs a program on a machine and all that it left queued; what is wrong with it, if anything is. One leak of the `excused`
    /// kind is not.
    pub(crate) fn attempt(
        &self,
        machine: &Machine,
        program: &impl Fn(&Machine),
        excused: impl FnOnce(&Machine) -> Option<LeakKind>,
    ) -> Result<(), String> {
        let outcome = catch_unwind(AssertUnwindSafe(|| machine.scope(|| program(machine))));
        machine.run_all();
        let mut wrong: Vec<String> =
            machine.violations().iter().map(|violation| format!("  {violation}")).collect();
        match outcome {
            Ok(()) if self.leaks => {
                let mut leaks = machine.leaks();
                let excused = excused(machine);
                if let Some(at) = leaks.iter().position(|leak| Some(leak.kind) == excused) {
                    leaks.remove(at);
                }
                wrong.extend(leaks.iter().map(|leak| format!("  not released: {}", leak.what)));
            }
            Ok(()) => {}
            Err(payload) => wrong.push(format!("  panicked: {}", message(&*payload))),
        }
        if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
    }
}

/// What a panic said.
fn message(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("with no message")
}
