//! Reports of the library: at exit, if it is asked to, and when it cannot work.

use std::fmt::Display;
use std::io::Write as _;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Set and not empty: the library prints a report at exit.
const VARIABLE: &str = "RMM_PRELOAD_REPORT";

static SERVED: AtomicU64 = AtomicU64::new(0);
static PASSED_ON: AtomicU64 = AtomicU64::new(0);

/// What each resource is made of; set once the report is asked for.
static DESCRIPTIONS: OnceLock<fn() -> Vec<String>> = OnceLock::new();

/// Counts an allocation that the resource served.
pub(crate) fn count_served() {
    SERVED.fetch_add(1, Ordering::Relaxed);
}

/// Counts an allocation that the driver was asked for.
pub(crate) fn count_passed_on() {
    PASSED_ON.fetch_add(1, Ordering::Relaxed);
}

/// Prints why a device has no resource.
pub(crate) fn complain(error: &dyn Display) {
    // There is nowhere to report a failed write.
    let _ignored = writeln!(std::io::stderr(), "rmm-preload: the driver allocates: {error}");
}

/// Has the report printed at exit, with what each resource is made of by then, if the environment
/// asks for it. The first call counts.
pub(crate) fn register(descriptions: fn() -> Vec<String>) {
    extern "C" fn print() {
        // A panic must not leave the handler.
        let _ignored = std::panic::catch_unwind(print_report);
    }
    DESCRIPTIONS.get_or_init(|| {
        if std::env::var_os(VARIABLE).is_some_and(|value| !value.is_empty()) {
            // SAFETY: the handler is a function without arguments that does not unwind. If that
            // fails, no report is printed.
            let _ignored = unsafe { libc::atexit(print) };
        }
        descriptions
    });
}

fn print_report() {
    let [served, passed_on] = [&SERVED, &PASSED_ON].map(|count| count.load(Ordering::Relaxed));
    let mut to = std::io::stderr().lock();
    // There is nowhere to report a failed write.
    let _ignored = writeln!(
        to,
        "rmm-preload: {served} allocations served, {passed_on} passed on to the driver"
    );
    for description in DESCRIPTIONS.get().map_or_else(Vec::new, |descriptions| descriptions()) {
        // There is nowhere to report a failed write.
        let _ignored = writeln!(to, "{description}");
    }
}
