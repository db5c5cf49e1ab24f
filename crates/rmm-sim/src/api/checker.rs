//! Running a program on fresh machines under several schedules: the entry points for tests.
#![forbid(unsafe_code)]

use std::any::Any;
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::engine::builder::{MachineBuilder, base_seed};
use crate::engine::machine::Machine;
use crate::engine::strays::Watch;
use crate::model::schedule::Schedule;
use crate::model::trace::LeakKind;

/// The number of seeded schedules by default.
const SEEDS: u64 = 8;

/// Runs `program` on a fresh machine under each of several schedules: [eager](Schedule::Eager),
/// [lazy](Schedule::Lazy), and eight seeded ones, starting with the seed in the environment
/// variable `RMM_SIM_SEED` (0 by default). The calling thread enters the machine for each run, so
/// that the program's driver calls go there.
///
/// ```
/// use rmm_sim::Kernel;
/// use rmm_sys::{CuContext, CuDevice, CuDevicePtr, CuStream};
///
/// rmm_sim::check(|gpu| {
///     let driver = rmm_sim::driver();
///     let (mut context, mut memory) = (CuContext::NULL, CuDevicePtr::NULL);
///     // SAFETY: the pointers are valid for writes, and only the allocated address is used.
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
/// If a run panicked, had violations, or returned with leaks: with all reports, and the schedules
/// that reproduce them. Also if a run made no driver call, or made one on a thread that has entered
/// no machine, since such calls are not checked. Threads that the program starts must
/// [enter](Machine::enter) the machine themselves, unless [`Checker::enter_all_threads`] is set.
#[track_caller]
pub fn check(program: impl Fn(&Machine)) {
    Checker::new().run(program);
}

/// A configuration of checks: the machine, and the schedules. [`check`] and
/// [`explore`](crate::explore) use the default one.
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
    /// Checks on machines of [`Machine::builder`]'s defaults, under the schedules of [`check`].
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

    /// Sets the machine; each run builds a fresh one.
    pub fn machine(mut self, machine: MachineBuilder) -> Self {
        self.machine = machine;
        self
    }

    /// Sets the schedules that [`run`](Self::run) uses.
    pub fn schedules(mut self, schedules: impl IntoIterator<Item = Schedule>) -> Self {
        self.schedules = schedules.into_iter().collect();
        self
    }

    /// Sets whether leaks are reported; they are by default.
    pub fn leaks(mut self, reported: bool) -> Self {
        self.leaks = reported;
        self
    }

    /// Sets whether all threads that the program starts enter the machine automatically, as with
    /// [`Machine::enter_all_threads`]. They do not by default, and the check fails if one of them
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
    /// Where [`check`] panics.
    #[track_caller]
    pub fn run(&self, program: impl Fn(&Machine)) {
        let mut found: Vec<Finding> = Vec::new();
        for &schedule in &self.schedules {
            let machine = self.machine.clone().schedule(schedule).build();
            let Err(report) = self.attempt(&machine, &program, |_| None) else { continue };
            if let Some(same) = found.iter_mut().find(|finding| finding.report == report) {
                same.schedules.push(schedule);
            } else {
                let has_accesses = !machine.violations().is_empty() || !machine.leaks().is_empty();
                let has_sites = !has_accesses || self.machine.has_backtraces();
                let sited = if has_sites { None } else { self.with_call_sites(schedule, &program) };
                let shown = sited.unwrap_or_else(|| report.clone());
                found.push(Finding { report, shown, schedules: vec![schedule] });
            }
        }
        if found.is_empty() {
            return;
        }
        let mut text = String::from("the check failed");
        for Finding { shown, schedules, .. } in found {
            // Writing to a string does not fail.
            let _ = match schedules.len() {
                all if all == self.schedules.len() && all > 1 => {
                    write!(text, "\nunder all {all} schedules:\n{shown}")
                }
                _ => {
                    let names: Vec<String> = schedules.iter().map(ToString::to_string).collect();
                    write!(text, "\nwith {}:\n{shown}", names.join(", "))
                }
            };
        }
        panic!(
            "{text}\n(to run the program again on one of these schedules, use `Machine::builder().schedule(..)`)"
        );
    }

    /// Runs a program that failed once more with backtraces, which cost too much for runs that
    /// pass. Returns the report, or `None` if the program does not fail again because it is not
    /// deterministic.
    fn with_call_sites(&self, schedule: Schedule, program: &impl Fn(&Machine)) -> Option<String> {
        let machine = self.machine.clone().backtraces(true).schedule(schedule).build();
        self.attempt(&machine, program, |_| None).err()
    }

    /// Builds a machine of the configuration.
    pub(crate) fn build(&self) -> Machine {
        self.machine.clone().build()
    }

    /// Runs a program on a machine, then the work that it left queued. Returns a report of what
    /// went wrong, if anything did. One leak of the `excused` kind is not reported; that the
    /// program made no driver call is.
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
                "  not checked: {} driver calls, the first {first}, of threads that entered no machine; \
                 enter it on each thread (`let _guard = machine.enter();`), or use `Checker::enter_all_threads`",
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
                wrong.extend(leaks.iter().map(|leak| format!("  not released: {leak}")));
                if leaks.iter().any(|leak| leak.kind == LeakKind::Allocation) {
                    wrong.push(String::from(
                        "  (a device's current resource is not dropped: reset it at the end of the program)",
                    ));
                }
            }
            Ok(()) => {}
            Err(payload) => {
                wrong.push(format!("  panicked: {}", message(&*payload)));
                for name in machine.missing_kernels() {
                    wrong.push(format!(
                        "  the kernel `{name}` was not found: register it, \
                         `machine.kernel(\"{name}\", \"float y[n], size_t n\", |call| ..)`"
                    ));
                }
            }
        }
        if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
    }
}

/// A report, and the schedules that cause it.
struct Finding {
    report: String,
    /// The report with call sites, if a second run could find them.
    shown: String,
    schedules: Vec<Schedule>,
}

/// The message of a panic.
fn message(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("with no message")
}
