//! The machine of the process: made when the library is loaded, examined when the process ends.

use std::io::Write as _;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use rmm_sim::{AllThreadsGuard, BackgroundGuard, Leak, LeakKind, Machine};
use rmm_sys::CuResult;

use crate::{report, visible};

static MACHINE: OnceLock<Machine> = OnceLock::new();

/// The process that called `cuInit` first. A child that it forks has neither the device's threads
/// nor, with CUDA, a driver that works.
static INITIALISED_BY: OnceLock<u32> = OnceLock::new();

/// Functions that need no driver: they answer in a child that is forked after `cuInit`, too, and
/// say nothing of what a program does.
const ALWAYS: [&str; 5] = [
    "cuGetErrorName",
    "cuGetErrorString",
    "cuDriverGetVersion",
    "cuGetProcAddress",
    "cuGetProcAddress_v2",
];

/// Whether this is a child that was forked after `cuInit`. It must take no lock of the machine,
/// which a thread that it does not have may hold.
pub(crate) fn is_forked() -> bool {
    INITIALISED_BY.get().is_some_and(|&process| process != std::process::id())
}

/// Makes a call of the program.
pub(crate) fn serve(name: &'static str, call: impl FnOnce() -> CuResult) -> CuResult {
    if ALWAYS.contains(&name) {
        return call();
    }
    if is_forked() {
        // As CUDA answers. Nothing has happened that was not seen.
        return CuResult::NOT_INITIALIZED;
    }
    report::begin(std::process::id());
    let code = match name {
        "cuInit" => initialising(call),
        "cuMemExportToShareableHandle" | "cuMemImportFromShareableHandle" => sharing(call),
        "cuDevicePrimaryCtxRelease_v2" | "cuDevicePrimaryCtxReset_v2" | "cuCtxDestroy_v2" => {
            ending(call)
        }
        _ => call(),
    };
    if code == CuResult::NOT_FOUND {
        report_missing();
    }
    code
}

/// A call of a function that is not served.
pub(crate) fn refuse(name: &'static str) -> CuResult {
    if is_forked() {
        return CuResult::NOT_INITIALIZED;
    }
    report::refused(name);
    CuResult::NOT_SUPPORTED
}

/// Makes a call that may share memory with other processes, and reports it if it is the first.
fn sharing(call: impl FnOnce() -> CuResult) -> CuResult {
    static REPORTED: AtomicBool = AtomicBool::new(false);
    let code = call();
    if MACHINE.get().is_some_and(Machine::shares_memory) && !REPORTED.swap(true, Ordering::Relaxed)
    {
        report::say("shared", "memory with other processes, whose order is not checked");
    }
    code
}

/// Reports the kernels that were not found, if there are more than before.
fn report_missing() {
    static REPORTED: AtomicUsize = AtomicUsize::new(0);
    let missing = MACHINE.get().map(Machine::missing_kernels).unwrap_or_default();
    if REPORTED.fetch_max(missing.len(), Ordering::Relaxed) < missing.len() {
        for name in &missing {
            report::say("missing", name);
        }
    }
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
    // The program may change its environment and its folder.
    let _ignored = report::sink();
    let number = |variable| std::env::var(variable).ok().and_then(|number| number.parse().ok());
    let visible = std::env::var("CUDA_VISIBLE_DEVICES").ok();
    let devices = visible::count(number("RMM_SIM_DEVICES").unwrap_or(1), visible.as_deref());
    let builder = Machine::builder().devices(devices);
    let builder = match number("RMM_SIM_MEMORY") {
        Some(bytes) => builder.memory(bytes).host_memory(bytes),
        None => builder,
    };
    let attributes = std::env::var("RMM_SIM_ATTRIBUTES").unwrap_or_default();
    let builder = builder.clone().attributes_from(&attributes).unwrap_or_else(|error| {
        // There is no call that could return it.
        let _ignored = writeln!(std::io::stderr(), "RMM_SIM_ATTRIBUTES: {error}; all are ignored");
        builder
    });
    let builder = builder.on_violation(|found| report::say("violation", &found.to_string()));
    let machine = MACHINE.get_or_init(|| match std::env::var_os("RMM_SIM_SHARED") {
        Some(file) if !file.is_empty() => {
            builder.clone().shared(file).try_build().unwrap_or_else(|code| {
                // There is no call that could return it.
                let _ignored =
                    writeln!(std::io::stderr(), "RMM_SIM_SHARED: {code}; nothing is shared");
                builder.build()
            })
        }
        _ => builder.build(),
    });
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
    let _leaked: ManuallyDrop<AllThreadsGuard> = ManuallyDrop::new(machine.enter_all_threads());
}

/// Makes a call of `cuInit`. The first that succeeds starts threads that run work by themselves, as
/// a device does: a program may wait without a call. Two, so that a host function may wait for what
/// another stream writes. Not when the library is loaded, so that a process which loads it and
/// forks leaves its children a driver that works.
fn initialising(call: impl FnOnce() -> CuResult) -> CuResult {
    let code = call();
    if let Some(machine) = MACHINE.get().filter(|_| code.is_success()) {
        INITIALISED_BY.get_or_init(|| {
            // Until the process ends.
            let _leaked: [ManuallyDrop<BackgroundGuard>; 2] =
                [(); 2].map(|()| ManuallyDrop::new(machine.run_in_background()));
            std::process::id()
        });
    }
    code
}

/// Upper bound on the leaks that are reported with their call sites.
const LEAKS_WITH_LINES: usize = 100;

extern "C" fn end() {
    let Some(machine) = MACHINE.get() else { return };
    if is_forked() {
        // What the parent has allocated is no leak of the child, and the lock may be held by a
        // thread that the child does not have. All its calls were refused, as CUDA refuses them.
        return;
    }
    // Frees that are queued. This may run host functions of the program, which may be gone: what
    // was found so far is written.
    machine.run_all();
    let leaks: Vec<Leak> =
        std::mem::take(&mut *lost()).into_iter().chain(machine.leaks()).collect();
    for (index, leak) in leaks.iter().enumerate() {
        // To find the lines of a call takes some milliseconds.
        let text = if index < LEAKS_WITH_LINES { leak.to_string() } else { leak.what.clone() };
        report::say("leak", &text);
    }
    report::end(machine.calls(), machine.violations().len(), leaks.len());
}

/// Memory that was allocated when its context ended.
static LOST: Mutex<Vec<Leak>> = Mutex::new(Vec::new());

fn lost() -> MutexGuard<'static, Vec<Leak>> {
    LOST.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes a call that may end a context. Memory that the context takes with it is a leak, as
/// compute-sanitizer counts it.
fn ending(call: impl FnOnce() -> CuResult) -> CuResult {
    let Some(machine) = MACHINE.get() else { return call() };
    machine.run_all();
    let before = machine.leaks();
    let code = call();
    let after = machine.leaks();
    let is_memory = |leak: &Leak| leak.kind == LeakKind::Allocation;
    lost().extend(before.into_iter().filter(is_memory).filter(|leak| !after.contains(leak)));
    code
}
