//! The machine of the process: made when the library is loaded, examined when the process ends.

use std::mem::ManuallyDrop;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use rmm_sim::{AllThreadsGuard, Leak, LeakKind, Machine};
use rmm_sys::CuResult;

use crate::report;

static MACHINE: OnceLock<Machine> = OnceLock::new();

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
    let machine = MACHINE.get_or_init(|| builder.build());
    for prototype in std::env::var("RMM_SIM_KERNELS").unwrap_or_default().lines() {
        // `rmm check` has checked them.
        let Some((name, rest)) = prototype.trim().split_once('(') else { continue };
        let parameters = rest.strip_suffix(')').unwrap_or(rest);
        // As long as the process: a kernel is registered once.
        let name: &'static str = String::leak(name.trim().to_owned());
        machine.kernel(name, parameters, |_| Ok(()));
    }
    // For all threads, until the process ends.
    let _always: ManuallyDrop<AllThreadsGuard> = ManuallyDrop::new(machine.enter_all_threads());
}

extern "C" fn end() {
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
