//! Entering a machine: driver calls of a thread, or of all threads, go there until a guard is
//! dropped.
#![forbid(unsafe_code)]

use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::MutexGuard;

use crate::MachineBuilder;
use crate::api::install::expect_installed;
use crate::engine::current;
use crate::engine::machine::Machine;

/// Makes a machine with one device, as [`Machine::new`], and makes it the calling thread's until
/// the guard, which derefs to it, is dropped: the head of most tests.
///
/// ```
/// let machine = rmm_sim::enter();
/// // SAFETY: `cuInit` takes no pointer.
/// assert!(unsafe { rmm_sim::driver().cuInit(0) }.is_success());
/// assert_eq!(machine.calls(), 1);
/// ```
///
/// # Panics
/// Where [`Machine::enter`] panics.
pub fn enter() -> MachineGuard {
    Machine::new().enter()
}

impl MachineBuilder {
    /// Builds the machine, and makes it the calling thread's until the guard is dropped, as
    /// [`Machine::enter`].
    ///
    /// # Panics
    /// Where [`build`](Self::build) or [`Machine::enter`] panics.
    pub fn enter(self) -> MachineGuard {
        self.build().enter()
    }
}

impl Machine {
    /// Makes this the calling thread's machine until the guard is dropped; guards nest. Installs
    /// the software driver as the process's [`Driver`](rmm_sys::Driver) if there is none yet.
    ///
    /// # Panics
    /// If the process has another driver already: it can have only one.
    #[must_use = "the machine is left when the guard is dropped"]
    pub fn enter(&self) -> MachineGuard {
        expect_installed();
        current::enter(self);
        MachineGuard { machine: self.clone(), _thread: PhantomData }
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
    /// Where [`enter`](Self::enter) panics.
    pub fn enter_until_thread_ends(&self) {
        expect_installed();
        current::enter(self);
    }

    /// Makes this the machine of every thread that has entered none, until the guard is dropped:
    /// for threads that a program starts and that cannot enter it themselves. Only one machine at a
    /// time can be that of all threads; this call blocks until no other one is. If a test program
    /// runs tests on several threads, tests that enter no machine use this one meanwhile.
    ///
    /// ```
    /// let machine = rmm_sim::Machine::new();
    /// let here = machine.enter_all_threads();
    /// let program = || {
    ///     // SAFETY: `cuInit` takes no pointer.
    ///     assert!(unsafe { rmm_sim::driver().cuInit(0) }.is_success());
    /// };
    /// std::thread::spawn(program).join().unwrap();
    /// assert_eq!(machine.calls(), 1);
    /// drop(here);
    /// ```
    ///
    /// # Panics
    /// Where [`enter`](Self::enter) panics, and if the calling thread already holds an
    /// [`AllThreadsGuard`]: it would wait for itself.
    #[must_use = "the machine is left when the guard is dropped"]
    pub fn enter_all_threads(&self) -> AllThreadsGuard {
        expect_installed();
        let adopted = current::enter_all_threads(self);
        assert!(adopted, "the calling thread already holds an `AllThreadsGuard`");
        AllThreadsGuard { _thread: PhantomData }
    }

    /// Runs `run` with this as the calling thread's machine.
    ///
    /// # Panics
    /// Where [`enter`](Self::enter) panics.
    pub fn scope<R>(&self, run: impl FnOnce() -> R) -> R {
        let _entered = self.enter();
        run()
    }
}

/// A guard for the calling thread's entry into a [`Machine`], to which it derefs; dropping it
/// leaves the machine.
#[derive(Debug)]
#[must_use = "the machine is left when the guard is dropped"]
pub struct MachineGuard {
    machine: Machine,
    /// Not `Send`: the thread that entered must leave. `Sync`: other threads may use the machine.
    _thread: PhantomData<MutexGuard<'static, ()>>,
}

impl Deref for MachineGuard {
    type Target = Machine;

    fn deref(&self) -> &Machine {
        &self.machine
    }
}

impl Drop for MachineGuard {
    fn drop(&mut self) {
        current::leave(&self.machine);
    }
}

/// A guard for the entry of all threads into a [`Machine`]; dropping it leaves the machine.
#[derive(Debug)]
pub struct AllThreadsGuard {
    /// Not `Send`: a thread that enters twice must find that it would wait for itself.
    _thread: PhantomData<*const ()>,
}

impl Drop for AllThreadsGuard {
    fn drop(&mut self) {
        current::leave_all_threads();
    }
}
