//! Machines: what a test or program holds to make, enter and inspect simulated devices.
#![forbid(unsafe_code)]

use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmm_sys::{CuDevicePtr, CuResult};

use crate::builder::MachineBuilder;
use crate::check::Violation;
use crate::clock::Stalls;
use crate::current;
use crate::fault::Fault;
use crate::memory::Side;
use crate::operation::Operation;
use crate::schedule::{Choices, Schedule, Script};
use crate::session::Session;
use crate::state::State;
use crate::trace::{Leak, TraceEntry};

/// A set of simulated devices and the host memory they share, independent of every other machine.
///
/// Clones name the same machine, which goes with the last of them: its memory is unmapped and its
/// handles name nothing.
///
/// ```
/// use rmm_sim::{Machine, Schedule};
///
/// let machine = Machine::builder().devices(2).memory(1 << 30).schedule(Schedule::Lazy).build();
/// let _here = machine.enter(); // driver calls of this thread go to `machine` until the guard is dropped
/// let mut count = 0;
/// let driver = rmm_sim::driver();
/// // SAFETY: `cuInit` takes no pointer.
/// assert!(unsafe { driver.cuInit(0) }.is_success());
/// // SAFETY: `count` may be written.
/// assert!(unsafe { driver.cuDeviceGetCount(&mut count) }.is_success());
/// assert_eq!(count, 2);
/// ```
#[derive(Clone)]
pub struct Machine(pub(crate) Arc<Shared>);

pub(crate) struct Shared {
    id: u32,
    state: Mutex<State>,
    /// Some piece of work has finished.
    pub(crate) ran: Condvar,
}

impl Drop for Shared {
    fn drop(&mut self) {
        current::unregister(self.id);
    }
}

impl fmt::Debug for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Machine").field("id", &self.0.id).finish_non_exhaustive()
    }
}

impl Default for Machine {
    fn default() -> Self {
        Self::new()
    }
}

impl Machine {
    /// A machine with one device of 16 GiB. Its schedule is [`Seeded`](crate::Schedule::Seeded) by
    /// the number in the environment variable `RMM_SIM_SEED`, or by 0.
    ///
    /// # Panics
    /// As [`MachineBuilder::build`].
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// A machine to be described.
    pub fn builder() -> MachineBuilder {
        MachineBuilder::new()
    }

    pub(crate) fn from_state(state: State) -> Self {
        let id = state.machine;
        let mut ranges: Vec<_> = state.devices.iter().map(crate::device::Device::range).collect();
        ranges.push(state.host.range());
        let shared = Arc::new(Shared { id, state: Mutex::new(state), ran: Condvar::new() });
        current::register(id, &shared, &ranges);
        Self(shared)
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes this the calling thread's machine until the guard is dropped; guards nest. Makes the
    /// software driver the process's [`Driver`](rmm_sys::Driver) if there is none yet.
    ///
    /// # Panics
    /// If the process has another driver already: it can have only one.
    #[must_use = "the machine is left when the guard is dropped"]
    pub fn enter(&self) -> Entered {
        crate::install::expect_installed();
        current::enter(self);
        Entered { machine: self.clone(), _thread: PhantomData }
    }

    /// Makes this the calling thread's machine until the thread ends: for the hook that a thread
    /// pool runs on each of its threads as it starts, such as `on_thread_start` of tokio's runtime
    /// or `start_handler` of rayon's.
    ///
    /// ```
    /// let machine = rmm_sim::Machine::new();
    /// let on_start = { let machine = machine.clone(); move || machine.enter_until_thread_ends() };
    /// std::thread::spawn(move || {
    ///     on_start();
    ///     // SAFETY: `cuInit` takes no pointer.
    ///     assert!(unsafe { rmm_sim::driver().cuInit(0) }.is_success());
    /// }).join().unwrap();
    /// assert_eq!(machine.calls(), 1);
    /// ```
    ///
    /// # Panics
    /// As [`enter`](Self::enter).
    pub fn enter_until_thread_ends(&self) {
        crate::install::expect_installed();
        current::enter(self);
    }

    /// Makes this the machine of every thread that is on none, until the guard is dropped: of
    /// threads that a program starts, and that cannot enter it themselves. One machine at a time is
    /// the process's; this waits until no other one is. In a test program that runs tests on
    /// several threads, tests that enter no machine are on this one meanwhile, too.
    ///
    /// ```
    /// let machine = rmm_sim::Machine::new();
    /// let here = machine.enter_all_threads();
    /// // SAFETY: `cuInit` takes no pointer.
    /// std::thread::spawn(|| assert!(unsafe { rmm_sim::driver().cuInit(0) }.is_success())).join().unwrap();
    /// assert_eq!(machine.calls(), 1);
    /// drop(here);
    /// ```
    ///
    /// # Panics
    /// As [`enter`](Self::enter), and if the calling thread has made all threads enter a machine
    /// already: it would wait for itself.
    #[must_use = "the machine is left when the guard is dropped"]
    pub fn enter_all_threads(&self) -> EnteredByAll {
        crate::install::expect_installed();
        let adopted = current::adopt(self);
        assert!(adopted, "the calling thread has made all threads enter a machine already");
        EnteredByAll { _thread: PhantomData }
    }

    /// Runs `run` with this as the calling thread's machine.
    ///
    /// # Panics
    /// As [`enter`](Self::enter).
    pub fn scope<R>(&self, run: impl FnOnce() -> R) -> R {
        let _entered = self.enter();
        run()
    }

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
                self.0.lock().faults.held -= 1;
            }
        }
        self.lock().faults.held += 1;
        let _hold = Hold(self);
        run()
    }

    /// The driver calls (their symbols) that faults made fail so far, in order.
    pub fn failed_calls(&self) -> Vec<&'static str> {
        self.lock().faults.struck.clone()
    }

    /// How many driver calls were made so far.
    pub fn calls(&self) -> u64 {
        self.lock().calls.values().sum()
    }

    /// How many driver calls were made so far, by function, in alphabetical order.
    pub fn call_counts(&self) -> Vec<(&'static str, u64)> {
        self.lock().calls.iter().map(|(&name, &count)| (name, count)).collect()
    }

    /// Simulated time since the machine was made, as its host sees it: what its calls took, and how
    /// long it waited for devices. [`Costs`](crate::Costs) says what takes how long.
    ///
    /// It follows from the calls alone: work starts once it is enqueued, its stream has done what
    /// came before, and what the stream waits for is done; so for the calls of one thread it is the
    /// same whatever the schedule. Streams do not slow each other down. A query takes its time and
    /// does not move the clock to the end of what it finds done; with [`Schedule::Timed`] it finds
    /// done what is done by the clock.
    pub fn time(&self) -> Duration {
        self.lock().clock.now()
    }

    /// How often and how long the host waited for devices, in simulated time.
    pub fn stalls(&self) -> Stalls {
        self.lock().clock.stalls()
    }

    /// What was called and what ran, in order, while tracing was on.
    pub fn trace(&self) -> Vec<TraceEntry> {
        self.lock().trace.clone()
    }

    /// Turns tracing on, with an empty trace, or off. It is off at first.
    pub fn set_tracing(&self, on: bool) {
        let mut state = self.lock();
        state.tracing = on;
        if on {
            state.trace.clear();
        }
    }

    /// Misuse that was seen, in order; see [`ViolationKind`](crate::ViolationKind) for what is
    /// looked for.
    pub fn violations(&self) -> Vec<Violation> {
        self.lock().checks.violations().to_vec()
    }

    /// Asserts that no misuse was seen.
    ///
    /// # Panics
    /// If some was, with all reports.
    #[track_caller]
    pub fn assert_no_violations(&self) {
        let violations = self.violations();
        if !violations.is_empty() {
            let lines: Vec<String> = violations.iter().map(ToString::to_string).collect();
            panic!("{} violations:\n{}", lines.len(), lines.join("\n"));
        }
    }

    /// Tells the checks that the program reads memory that it shares with devices (pinned or
    /// managed): its own accesses are not seen otherwise. Work that writes it has to be known
    /// complete.
    ///
    /// # Errors
    /// `INVALID_VALUE` if the range does not lie within one live allocation.
    pub fn host_reads(&self, pointer: CuDevicePtr, bytes: usize) -> Result<(), CuResult> {
        self.host_uses(pointer, bytes, Operation::Read)
    }

    /// Tells the checks that the program writes memory that it shares with devices. Work that uses
    /// it has to be known complete.
    ///
    /// # Errors
    /// As [`host_reads`](Self::host_reads).
    pub fn host_writes(&self, pointer: CuDevicePtr, bytes: usize) -> Result<(), CuResult> {
        self.host_uses(pointer, bytes, Operation::Write)
    }

    fn host_uses(
        &self,
        pointer: CuDevicePtr,
        bytes: usize,
        operation: Operation,
    ) -> Result<(), CuResult> {
        let mut state = self.lock();
        let address = usize::try_from(pointer.0).map_err(|_| CuResult::INVALID_VALUE)?;
        let place = state.place(address, bytes, Side::Host)?;
        state.check_host_use(&place, operation);
        Ok(())
    }

    /// The bytes of a device that are not free: taken by allocations and physical memory, and
    /// reserved by pools. 0 if there is no such device.
    pub fn memory_in_use(&self, device: usize) -> usize {
        self.lock().devices.get(device).map_or(0, |device| device.total - device.free())
    }

    /// What was made and not released.
    pub fn leaks(&self) -> Vec<Leak> {
        self.lock().leaks()
    }

    /// Runs all work that is queued now. Does nothing inside a host function or kernel.
    pub fn run_all(&self) {
        if !current::in_callback() {
            Session::open(self).run_pending(None);
        }
    }

    /// Lets a script decide what runs before each call.
    pub(crate) fn follow(&self, script: Script) {
        let mut state = self.lock();
        (state.schedule, state.choices) = (Schedule::Scripted(&[]), Choices::Scripted(script));
    }

    /// The script that decided what ran, with the choices made so far; an empty one if none did.
    pub(crate) fn followed(&self) -> Script {
        match std::mem::replace(&mut self.lock().choices, Choices::None) {
            Choices::Scripted(script) => script,
            Choices::None | Choices::Drawn(_) => Script::default(),
        }
    }

    /// The driver is gone, as at the end of a process: from now on every call returns
    /// `DEINITIALIZED`.
    pub fn kill(&self) {
        self.lock().dead = true;
    }
}

/// A thread's stay in a [`Machine`]; it ends when this is dropped.
#[derive(Debug)]
pub struct Entered {
    machine: Machine,
    /// The stay is the thread's own.
    _thread: PhantomData<*const ()>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        current::leave(&self.machine);
    }
}

/// All threads' stay in a [`Machine`]; it ends when this is dropped.
#[derive(Debug)]
pub struct EnteredByAll {
    /// The thread that made it ends it, so that it can tell that it would wait for itself.
    _thread: PhantomData<*const ()>,
}

impl Drop for EnteredByAll {
    fn drop(&mut self) {
        current::end_adoption();
    }
}
