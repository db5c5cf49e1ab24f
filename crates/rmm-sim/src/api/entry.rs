//! Entering a machine: driver calls of a thread, or of all threads, go there until a guard is
//! dropped.
#![forbid(unsafe_code)]

use std::marker::PhantomData;

use crate::api::install::expect_installed;
use crate::engine::current;
use crate::engine::machine::Machine;

impl Machine {
    /// Makes this the calling thread's machine until the guard is dropped; guards nest. Makes the
    /// software driver the process's [`Driver`](rmm_sys::Driver) if there is none yet.
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
    /// As [`enter`](Self::enter).
    pub fn enter_until_thread_ends(&self) {
        expect_installed();
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
    pub fn enter_all_threads(&self) -> AllThreadsGuard {
        expect_installed();
        let adopted = current::enter_all_threads(self);
        assert!(adopted, "the calling thread has made all threads enter a machine already");
        AllThreadsGuard { _thread: PhantomData }
    }

    /// Runs `run` with this as the calling thread's machine.
    ///
    /// # Panics
    /// As [`enter`](Self::enter).
    pub fn scope<R>(&self, run: impl FnOnce() -> R) -> R {
        let _entered = self.enter();
        run()
    }
}

/// A thread's stay in a [`Machine`]; it ends when this is dropped.
#[derive(Debug)]
pub struct MachineGuard {
    machine: Machine,
    /// The stay is the thread's own.
    _thread: PhantomData<*const ()>,
}

impl Drop for MachineGuard {
    fn drop(&mut self) {
        current::leave(&self.machine);
    }
}

/// All threads' stay in a [`Machine`]; it ends when this is dropped.
#[derive(Debug)]
pub struct AllThreadsGuard {
    /// The thread that made it ends it, so that it can tell that it would wait for itself.
    _thread: PhantomData<*const ()>,
}

impl Drop for AllThreadsGuard {
    fn drop(&mut self) {
        current::leave_all_threads();
    }
}
