//! Which machine a driver call is for: by its handles and addresses, or by the calling thread.
#![forbid(unsafe_code)]

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, Weak};

use crate::handle;
use crate::machine::{Machine, Shared};

/// The machines of the process.
#[derive(Default)]
struct Registry {
    by_id: BTreeMap<u32, Weak<Shared>>,
    /// The address ranges that machines hand out from: start to length and machine.
    ranges: BTreeMap<usize, (usize, u32)>,
}

static REGISTRY: RwLock<Registry> =
    RwLock::new(Registry { by_id: BTreeMap::new(), ranges: BTreeMap::new() });
static LAST_MACHINE: AtomicU32 = AtomicU32::new(0);
static LAST_THREAD: AtomicU64 = AtomicU64::new(0);
/// Whether `cuInit` was called: once for the process, as with a real driver.
static INITIALISED: AtomicBool = AtomicBool::new(false);
static DEFAULT: OnceLock<Machine> = OnceLock::new();
/// The machine of threads that are on no other, and the thread that made it so.
static ADOPTING: Mutex<Option<(Machine, u64)>> = Mutex::new(None);
static ADOPTION_ENDED: Condvar = Condvar::new();
/// How many programs are being checked, and the calls made meanwhile by threads that are on no
/// machine: of which thread, and which.
static STRAYS: Mutex<(usize, Vec<Stray>)> = Mutex::new((0, Vec::new()));
/// Strays beyond which no more are kept.
const KEPT: usize = 1000;

/// A call of a thread that is on no machine.
pub(crate) type Stray = (u64, &'static str);

thread_local! {
    static ENTERED: RefCell<Vec<Machine>> = const { RefCell::new(Vec::new()) };
    /// The machine whose context this thread last made current.
    static LAST: RefCell<Weak<Shared>> = const { RefCell::new(Weak::new()) };
    static THREAD: u64 = LAST_THREAD.fetch_add(1, Ordering::Relaxed) + 1;
    static IN_CALLBACK: Cell<bool> = const { Cell::new(false) };
}

/// What an argument says about its machine.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Hint {
    Handle(usize),
    Address(usize),
}

pub(crate) fn initialise() {
    INITIALISED.store(true, Ordering::Release);
}

pub(crate) fn is_initialised() -> bool {
    INITIALISED.load(Ordering::Acquire)
}

/// A number for a new machine.
pub(crate) fn next_machine() -> u32 {
    LAST_MACHINE.fetch_add(1, Ordering::Relaxed) + 1
}

pub(crate) fn register(id: u32, machine: &Arc<Shared>, ranges: &[(usize, usize)]) {
    let mut registry = REGISTRY.write().unwrap_or_else(PoisonError::into_inner);
    registry.by_id.insert(id, Arc::downgrade(machine));
    registry.ranges.extend(ranges.iter().map(|&(start, len)| (start, (len, id))));
}

/// A machine hands out from one more range.
pub(crate) fn register_range(id: u32, (start, len): (usize, usize)) {
    let mut registry = REGISTRY.write().unwrap_or_else(PoisonError::into_inner);
    registry.ranges.insert(start, (len, id));
}

pub(crate) fn unregister(id: u32) {
    let mut registry = REGISTRY.write().unwrap_or_else(PoisonError::into_inner);
    registry.by_id.remove(&id);
    registry.ranges.retain(|_, (_, owner)| *owner != id);
}

fn owner_of(registry: &Registry, address: usize) -> Option<u32> {
    let (&start, &(len, id)) = registry.ranges.range(..=address).next_back()?;
    (address - start < len).then_some(id)
}

/// Whether some machine hands out memory from around `address`.
pub(crate) fn is_simulated(address: usize) -> bool {
    owner_of(&REGISTRY.read().unwrap_or_else(PoisonError::into_inner), address).is_some()
}

/// The machine that the first telling hint of a call names, else the calling thread's.
pub(crate) fn machine_for(call: &'static str, hints: &[Hint]) -> Machine {
    let named = {
        let registry = REGISTRY.read().unwrap_or_else(PoisonError::into_inner);
        hints.iter().find_map(|&hint| {
            let id = match hint {
                Hint::Handle(word) => handle::machine_of(word),
                Hint::Address(address) => owner_of(&registry, address),
            };
            registry.by_id.get(&id?)?.upgrade()
        })
    };
    named.map_or_else(|| of_thread(call), Machine)
}

/// The machine entered last, else that of the context last made current, else that of all threads,
/// else the process's default one.
fn of_thread(call: &'static str) -> Machine {
    let entered = ENTERED.try_with(|entered| entered.borrow().last().cloned()).ok().flatten();
    let last = || LAST.try_with(|last| last.borrow().upgrade()).ok().flatten().map(Machine);
    let adopting = || locked(&ADOPTING).as_ref().map(|(machine, _)| machine.clone());
    entered.or_else(last).or_else(adopting).unwrap_or_else(|| {
        let mut strays = locked(&STRAYS);
        let (checks, calls) = &mut *strays;
        if *checks > 0 && calls.len() < KEPT {
            calls.push((thread(), call));
        }
        drop(strays);
        DEFAULT.get_or_init(Machine::new).clone()
    })
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes `machine` that of every thread that is on no other, once there is no such machine; false
/// if the calling thread would wait for itself.
pub(crate) fn adopt(machine: &Machine) -> bool {
    let mut adopting = locked(&ADOPTING);
    let own = thread();
    loop {
        match &*adopting {
            None => {
                *adopting = Some((machine.clone(), own));
                return true;
            }
            Some((_, by)) if *by == own => return false,
            Some(_) => {
                let woken = ADOPTION_ENDED.wait(adopting);
                adopting = woken.unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}

/// No machine is that of every thread any more.
pub(crate) fn end_adoption() {
    let ended = locked(&ADOPTING).take();
    ADOPTION_ENDED.notify_one();
    // Without the lock: the machine may end with this, and unmaps its memory.
    drop(ended);
}

/// A check that is under way, and sees the calls of threads that are on no machine.
#[derive(Debug)]
pub(crate) struct Watch {
    /// The calls seen before.
    from: usize,
    /// The last thread that had called anything before.
    last_thread: u64,
}

impl Watch {
    pub(crate) fn begin() -> Self {
        let mut strays = locked(&STRAYS);
        strays.0 += 1;
        Self { from: strays.1.len(), last_thread: LAST_THREAD.load(Ordering::Relaxed) }
    }

    /// The calls that were made since on no machine, by threads that had called nothing before:
    /// those that the program started, and not the other tests of the process.
    pub(crate) fn strays(&self) -> Vec<&'static str> {
        let strays = locked(&STRAYS);
        let since = strays.1.iter().skip(self.from);
        since.filter(|(thread, _)| *thread > self.last_thread).map(|&(_, call)| call).collect()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut strays = locked(&STRAYS);
        strays.0 -= 1;
        if strays.0 == 0 {
            strays.1.clear();
        }
    }
}

/// The calling thread has made a context of `machine` current.
pub(crate) fn note_context(machine: &Machine) {
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

/// The calling thread's number, never reused.
pub(crate) fn thread() -> u64 {
    THREAD.try_with(|&thread| thread).unwrap_or(0)
}

/// Whether the calling thread is inside a host function or kernel.
pub(crate) fn in_callback() -> bool {
    IN_CALLBACK.try_with(Cell::get).unwrap_or(false)
}

/// Runs a host function or kernel; driver calls that it makes are refused.
pub(crate) fn callback<R>(run: impl FnOnce() -> R) -> R {
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            let _ = IN_CALLBACK.try_with(|flag| flag.set(false));
        }
    }
    let _ = IN_CALLBACK.try_with(|flag| flag.set(true));
    let _leave = Leave;
    run()
}
