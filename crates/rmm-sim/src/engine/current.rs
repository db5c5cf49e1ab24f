//! The machine that a driver call goes to: that of its arguments, or the calling thread's.
#![forbid(unsafe_code)]

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use crate::engine::machine::{Machine, MachineInner};
use crate::engine::{strays, thread};
use crate::model::handle::Hint;

/// Whether `cuInit` was called: once for the process, as with a real driver.
static INITIALISED: AtomicBool = AtomicBool::new(false);
static DEFAULT: OnceLock<Machine> = OnceLock::new();
/// The machine of threads that entered none, and the thread that made all threads enter it.
static OF_ALL_THREADS: Mutex<Option<(Machine, u64)>> = Mutex::new(None);
static ALL_THREADS_LEFT: Condvar = Condvar::new();

thread_local! {
    static ENTERED: RefCell<Vec<Machine>> = const { RefCell::new(Vec::new()) };
    /// The machine whose context this thread last made current.
    static LAST: RefCell<Weak<MachineInner>> = const { RefCell::new(Weak::new()) };
}

pub(crate) fn initialise() {
    INITIALISED.store(true, Ordering::Release);
}

pub(crate) fn is_initialised() -> bool {
    INITIALISED.load(Ordering::Acquire)
}

/// The machine of a call: that of its arguments, else the calling thread's.
pub(crate) fn machine_for(call: &'static str, hints: &[Hint]) -> Machine {
    Machine::named_by(hints).unwrap_or_else(|| of_thread(call))
}

/// The machine entered last, else that of the context last made current, else that of all threads,
/// else the process's default one.
fn of_thread(call: &'static str) -> Machine {
    let entered = ENTERED.try_with(|entered| entered.borrow().last().cloned()).ok().flatten();
    let last = || LAST.try_with(|last| last.borrow().upgrade()).ok().flatten().map(Machine);
    let adopting = || locked(&OF_ALL_THREADS).as_ref().map(|(machine, _)| machine.clone());
    entered.or_else(last).or_else(adopting).unwrap_or_else(|| {
        strays::record(call);
        DEFAULT.get_or_init(Machine::new).clone()
    })
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes `machine` that of every thread that entered none, after waiting until no other machine is;
/// false if the calling thread would wait for itself.
pub(crate) fn enter_all_threads(machine: &Machine) -> bool {
    let mut adopting = locked(&OF_ALL_THREADS);
    let own = thread::number();
    loop {
        match &*adopting {
            None => {
                *adopting = Some((machine.clone(), own));
                return true;
            }
            Some((_, by)) if *by == own => return false,
            Some(_) => {
                let woken = ALL_THREADS_LEFT.wait(adopting);
                adopting = woken.unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}

/// Ends the entry of all threads.
pub(crate) fn leave_all_threads() {
    let ended = locked(&OF_ALL_THREADS).take();
    ALL_THREADS_LEFT.notify_one();
    // Dropped without the lock: this may be the machine's last handle, and unmaps its memory.
    drop(ended);
}

/// Records that the calling thread made a context of `machine` current.
pub(crate) fn set_last_context(machine: &Machine) {
    let before = LAST.try_with(|last| last.replace(Arc::downgrade(&machine.0)));
    drop(before);
}

pub(crate) fn enter(machine: &Machine) {
    ENTERED.with(|entered| entered.borrow_mut().push(machine.clone()));
}

pub(crate) fn leave(machine: &Machine) {
    let left = ENTERED.try_with(|entered| {
        let mut entered = entered.borrow_mut();
        let at = entered.iter().rposition(|other| Arc::ptr_eq(&other.0, &machine.0));
        at.map(|at| entered.remove(at))
    });
    drop(left);
}
