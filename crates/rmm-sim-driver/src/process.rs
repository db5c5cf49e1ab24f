//! The machine of the process: made when the library is loaded, examined when the process ends.

use std::io::Write as _;
use std::mem::ManuallyDrop;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use rmm_sim::{AllThreadsGuard, BackgroundGuard, Leak, LeakKind, Machine};
use rmm_sys::CuResult;

use crate::report;

static MACHINE: OnceLock<Machine> = OnceLock::new();

/// The process that called `cuInit` first. A child that it forks has neither the device's threads
/// nor, with CUDA, a driver that works.
static INITIALISED_BY: OnceLock<u32> = OnceLock::new();

fn is_forked() -> bool {
    INITIALISED_BY.get().is_some_and(|&process| process != std::process::id())
}

// The section holds addresses of functions without arguments, which the loader calls once the
// libraries that this one needs are initialised.
#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;

// As above; the loader calls them when the process ends, after the handlers of `atexit`.
#[used]
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = end;

extern "C" fn begin() {
    let number = |variable| std::env::var(variable).ok().and_then(|number| number.parse().ok());
    let builder = Machine::builder().devices(number("RMM_SIM_DEVICES").unwrap_or(1));
    let builder = match number("RMM_SIM_MEMORY") {
        Some(bytes) => builder.memory(bytes).host_memory(bytes),
        None => builder,
    };
    let attributes = std::env::var("RMM_SIM_ATTRIBUTES").unwrap_or_default();
    let builder = builder.clone().attributes_from(&attributes).unwrap_or_else(|error| {
        // There is no call that could return it.
        let _unsaid = writeln!(std::io::stderr(), "RMM_SIM_ATTRIBUTES: {error}; all are ignored");
        builder
    });
    let machine = MACHINE.get_or_init(|| builder.build());
    for prototype in std::env::var("RMM_SIM_KERNELS").unwrap_or_default().lines() {
        // `rmm check` has checked them.
        let Some((name, rest)) = prototype.trim().split_once('(') else { continue };
        let parameters = rest.strip_suffix(')').unwrap_or(rest);
        // As long as the process: a kernel is registered once.
        let name: &'static str = String::leak(name.trim().to_owned());
        machine.kernel(name, parameters, |_| Ok(()));
    }
    rmm_sim_cuda::replace_functions(crate::exports());
    // For all threads, until the process ends.
    let _always: ManuallyDrop<AllThreadsGuard> = ManuallyDrop::new(machine.enter_all_threads());
}

/// Makes a call of `cuInit`. The first that succeeds starts threads that run work by themselves, as
/// a device does: a program may wait without a call. Two, so that a host function may wait for what
/// another stream writes. Not when the library is loaded, so that a process which loads it and
/// forks leaves its children a driver that works.
pub(crate) fn initialising(call: impl FnOnce() -> CuResult) -> CuResult {
    if is_forked() {
        return CuResult::NOT_INITIALIZED;
    }
    let code = call();
    if let Some(machine) = MACHINE.get().filter(|_| code.is_success()) {
        INITIALISED_BY.get_or_init(|| {
            // Until the process ends.
            let _always: [ManuallyDrop<BackgroundGuard>; 2] =
                [(); 2].map(|()| ManuallyDrop::new(machine.run_in_background()));
            std::process::id()
        });
    }
    code
}

extern "C" fn end() {
    if is_forked() {
        // What the parent has allocated is no leak of the child, and the lock may be held by a
        // thread that the child does not have.
        return;
    }
    if let (Some(machine), Some(folder)) = (MACHINE.get(), std::env::var_os("RMM_SIM_REPORT")) {
        let lost = std::mem::take(&mut *lost());
        report::write(machine, lost, folder.as_ref());
    }
}

/// Memory that was allocated when its context ended.
static LOST: Mutex<Vec<Leak>> = Mutex::new(Vec::new());

fn lost() -> MutexGuard<'static, Vec<Leak>> {
    LOST.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes a call that may end a context. Memory that the context takes with it is a leak, as
/// compute-sanitizer counts it.
pub(crate) fn ending(call: impl FnOnce() -> CuResult) -> CuResult {
    let Some(machine) = MACHINE.get() else { return call() };
    machine.run_all();
    let before = machine.leaks();
    let code = call();
    let after = machine.leaks();
    let is_memory = |leak: &Leak| leak.kind == LeakKind::Allocation;
    lost().extend(before.into_iter().filter(is_memory).filter(|leak| !after.contains(leak)));
    code
}
