//! Machines: what a test or program holds to make, enter and inspect simulated devices.
#![forbid(unsafe_code)]

use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rmm_sys::{CuDevicePtr, CuResult, CuStream};

use crate::builder::MachineBuilder;
use crate::check::{Operation, Violation};
use crate::current;
use crate::fault::Fault;
use crate::kernel::{Body, Kernel};
use crate::memory::{Place, Side};
use crate::session::Session;
use crate::state::State;
use crate::stream::Work;
use crate::trace::{Leak, TraceEntry};

/// A set of simulated devices and the host memory they share, independent of every other machine.
///
/// Clones name the same machine, which goes with the last of them: its memory is unmapped and its handles name nothing.
///
/// ```
/// use rmm_sim::{Machine, Schedule};
///
/// let machine = Machine::builder().devices(2).memory(1 << 30).schedule(Schedule::Adversarial).build();
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
    /// A machine with one device of 16 GiB. Its schedule is [`Seeded`](crate::Schedule::Seeded) by the number in the
    /// environment variable `RMM_SIM_SEED`, or by 0.
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

    /// Makes this the calling thread's machine until the guard is dropped; guards nest. Makes the software driver the
    /// process's [`Driver`](rmm_sys::Driver) if there is none yet.
    ///
    /// # Panics
    /// If the process has another driver already: it can have only one.
    #[must_use = "the machine is left when the guard is dropped"]
    pub fn enter(&self) -> Entered {
        if let Err(error) = crate::install() {
            panic!("{error}");
        }
        current::enter(self);
        Entered { machine: self.clone(), _thread: PhantomData }
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
        self.lock().faults.push(fault);
    }

    /// Forgets all rules by which calls fail.
    pub fn clear_faults(&self) {
        self.lock().faults.clear();
    }

    /// How many driver calls were made so far.
    pub fn calls(&self) -> u64 {
        self.lock().calls.values().sum()
    }

    /// How many driver calls were made so far, by function, in alphabetical order.
    pub fn call_counts(&self) -> Vec<(&'static str, u64)> {
        self.lock().calls.iter().map(|(&name, &count)| (name, count)).collect()
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

    /// Misuse that was seen, in order; see [`ViolationKind`](crate::ViolationKind) for what is looked for.
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

    /// Tells the checks that the program reads memory that it shares with devices (pinned or managed): its own accesses are
    /// not seen otherwise. Work that writes it has to be known complete.
    ///
    /// # Errors
    /// `INVALID_VALUE` if the range does not lie within one live allocation.
    pub fn host_reads(&self, pointer: CuDevicePtr, bytes: usize) -> Result<(), CuResult> {
        self.host_uses(pointer, bytes, Operation::Read)
    }

    /// Tells the checks that the program writes memory that it shares with devices. Work that uses it has to be known
    /// complete.
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

    /// The bytes of a device that are not free: taken by allocations, and reserved by pools. 0 if there is no such
    /// device.
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

    /// Reads the bytes at `pointer` as they are now, whatever is queued.
    ///
    /// # Errors
    /// `INVALID_VALUE` if the range does not lie within one live allocation.
    pub fn read(&self, pointer: CuDevicePtr, target: &mut [u8]) -> Result<(), CuResult> {
        let state = self.lock();
        let place = allocated(&state, pointer, target.len())?;
        state.load(&place, target);
        Ok(())
    }

    /// Writes bytes at `pointer` now, whatever is queued.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn write(&self, pointer: CuDevicePtr, source: &[u8]) -> Result<(), CuResult> {
        let mut state = self.lock();
        let place = allocated(&state, pointer, source.len())?;
        state.store(&place, source);
        Ok(())
    }

    /// Enqueues a simulated kernel.
    ///
    /// # Errors
    /// `NOT_SUPPORTED` if the stream is being captured and the kernel is not [repeatable](Kernel::repeatable),
    /// `INVALID_HANDLE` for a stream that is not of this machine, `INVALID_VALUE` for a range that does not lie within
    /// one live allocation, `NOT_PERMITTED` inside a host function or kernel, and `INVALID_CONTEXT` for a default
    /// stream where the calling thread has no current context.
    pub fn launch(&self, stream: CuStream, kernel: Kernel) -> Result<(), CuResult> {
        if current::in_callback() {
            return Err(CuResult::NOT_PERMITTED);
        }
        let body = Body::new(kernel, self)?;
        let mut session = Session::open(self);
        session.captures.call = "a kernel launch";
        let stream = session.stream(stream)?;
        session.enqueue(stream, Work::Kernel(body))?;
        session.settle(Ok(())).result()
    }

    /// The driver is gone, as at the end of a process: from now on every call returns `DEINITIALIZED`.
    pub fn kill(&self) {
        self.lock().dead = true;
    }
}

/// A range in an allocation that this machine made.
fn allocated(state: &State, pointer: CuDevicePtr, bytes: usize) -> Result<Place, CuResult> {
    let address = usize::try_from(pointer.0).map_err(|_| CuResult::INVALID_VALUE)?;
    let place = state.place(address, bytes, Side::Device)?;
    // What the program registered is its own; nothing says that it is still there.
    let own = place
        .allocation
        .is_some_and(|allocation| allocation.kind != crate::memory::Kind::Registered);
    if own { Ok(place) } else { Err(CuResult::INVALID_VALUE) }
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
