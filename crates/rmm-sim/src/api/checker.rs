//! Running a program on fresh machines until it is shown to be wrong: the entry points for tests.
#![forbid(unsafe_code)]

use std::any::Any;
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::engine::builder::{MachineBuilder, base_seed};
use crate::engine::machine::Machine;
use crate::engine::strays::Watch;
use crate::model::schedule::Schedule;
use crate::model::trace::LeakKind;

/// Seeds that a program is checked under unless it is told otherwise.
const SEEDS: u64 = 8;

/// Runs `program` on a fresh machine under each of several schedules: everything at once,
/// everything as late as may be, and eight seeded ones, from the number in the environment variable
/// `RMM_SIM_SEED` on. Each time the machine is entered, so that the program's driver calls go
/// there.
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
/// If a run panicked, left violations or, where it returned, leaks: with all reports, and what to
/// do to see each again. If a run called the driver on no thread that is on the machine, or on a
/// thread that is on none: nobody would have judged those calls. Threads that the program starts
/// [enter](Machine::enter) the machine, or all do by [`Checker::enter_all_threads`].
#[track_caller]
pub fn check(program: impl Fn(&Machine)) {
    Checker::new().run(program);
}

/// How programs are checked: on which machine, and under which schedules. [`check`] and
/// [`explore`](crate::explore) are the short ways.
///
/// ```
/// use rmm_sim::{Checker, Machine, Schedule};
///
/// let machine = Machine::builder().devices(2).memory(64 << 20);
/// let seeds = (0..4).map(Schedule::Seeded);
/// Checker::new().machine(machine).schedules(seeds).run(|_| {
///     // SAFETY: `cuInit` takes no pointer.
///     assert!(unsafe { rmm_sim::driver().cuInit(0) }.is_success());
/// });
/// ```
#[must_use = "nothing is checked until a program is run"]
#[derive(Clone, Debug)]
pub struct Checker {
    machine: MachineBuilder,
    schedules: Vec<Schedule>,
    leaks: bool,
    all_threads: bool,
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
            all_threads: false,
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

    /// Whether threads that the program starts are on the machine by themselves, as with
    /// [`Machine::enter_all_threads`]. They are not by default, and the check fails if one of them
    /// calls the driver without having entered the machine.
    ///
    /// ```
    /// # let initialise = || {
    /// #     // SAFETY: `cuInit` takes no pointer.
    /// #     assert!(unsafe { rmm_sim::driver().cuInit(0) }.is_success());
    /// # };
    /// rmm_sim::check(|machine| {
    ///     std::thread::scope(|scope| {
    ///         scope.spawn(|| machine.scope(initialise));
    ///     });
    /// });
    /// rmm_sim::Checker::new().enter_all_threads(true).run(|_| {
    ///     std::thread::spawn(initialise).join().unwrap();
    /// });
    /// ```
    pub fn enter_all_threads(mut self, on: bool) -> Self {
        self.all_threads = on;
        self
    }

    /// Runs `program` once under each schedule, see [`check`].
    ///
    /// # Panics
    /// As [`check`].
    #[track_caller]
    pub fn run(&self, program: impl Fn(&Machine)) {
        let mut found: Vec<Finding> = Vec::new();
        for &schedule in &self.schedules {
            let machine = self.machine.clone().schedule(schedule).build();
            let Err(report) = self.attempt(&machine, &program, |_| None) else { continue };
            if let Some(same) = found.iter_mut().find(|finding| finding.report == report) {
                same.schedules.push(schedule);
            } else {
                let has_sites = machine.violations().is_empty() || self.machine.has_backtraces();
                let sited = if has_sites { None } else { self.with_call_sites(schedule, &program) };
                let told = sited.unwrap_or_else(|| report.clone());
                found.push(Finding { report, told, schedules: vec![schedule] });
            }
        }
        if found.is_empty() {
            return;
        }
        let mut text = String::from("the program is wrong");
        for Finding { told, schedules, .. } in found {
            // Writing to a string does not fail.
            let _ = match schedules.len() {
                all if all == self.schedules.len() && all > 1 => {
                    write!(text, "\nunder all {all} schedules:\n{told}")
                }
                _ => {
                    let names: Vec<String> = schedules.iter().map(ToString::to_string).collect();
                    write!(text, "\nwith {}:\n{told}", names.join(", "))
                }
            };
        }
        panic!(
            "{text}\n(`Machine::builder().schedule(..)` makes a machine on which a run can be seen again)"
        );
    }

    /// Runs a program that is wrong once more, and tells where it asked for what: taking that down
    /// costs too much where nothing is wrong. `None` if nothing is wrong this time, since the
    /// program does not do the same each time.
    fn with_call_sites(&self, schedule: Schedule, program: &impl Fn(&Machine)) -> Option<String> {
        let machine = self.machine.clone().backtraces(true).schedule(schedule).build();
        self.attempt(&machine, program, |_| None).err()
    }

    /// A machine as described.
    pub(crate) fn build(&self) -> Machine {
        self.machine.clone().build()
    }

    /// Runs a program on a machine and all that it left queued; what is wrong with it, if anything
    /// is. One leak of the `excused` kind is not. That a program which calls no driver passes is
    /// wrong, too.
    pub(crate) fn attempt(
        &self,
        machine: &Machine,
        program: &impl Fn(&Machine),
        excused: impl FnOnce(&Machine) -> Option<LeakKind>,
    ) -> Result<(), String> {
        let all = self.all_threads.then(|| machine.enter_all_threads());
        let watch = Watch::begin();
        let outcome = catch_unwind(AssertUnwindSafe(|| machine.scope(|| program(machine))));
        let strays = watch.strays();
        drop((watch, all));
        machine.run_all();
        let mut wrong: Vec<String> =
            machine.violations().iter().map(|violation| format!("  {violation}")).collect();
        if let Some(first) = strays.first() {
            wrong.push(format!(
                "  not checked: {} driver calls, the first {first}, of threads that are on no machine; \
                 enter it there (`let _here = machine.enter();`), or use `Checker::enter_all_threads`",
                strays.len()
            ));
        }
        if outcome.is_ok() && strays.is_empty() && machine.calls() == 0 {
            wrong.push(String::from("  nothing was checked: the program made no driver call"));
        }
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

/// What is wrong with a program, and with which schedules.
struct Finding {
    report: String,
    /// The report with the places in the program, if they could be found.
    told: String,
    schedules: Vec<Schedule>,
}

/// What a panic said.
fn message(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("with no message")
}
