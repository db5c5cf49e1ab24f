//! The end of the process, when the driver goes away before its last users do.
//!
//! The driver registers its own clean-up with the system while it starts. Exit handlers run in the
//! reverse order of their registration, so a handler that is registered after the driver has
//! started runs before the driver goes.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

static EXITING: AtomicBool = AtomicBool::new(false);
static WATCH: Once = Once::new();

/// Whether the process has begun to run its exit handlers: it returned from `main`, or somebody
/// called `exit`.
///
/// From then on the driver may be gone, at any moment and on any thread, and nothing of this
/// library calls it to give memory, streams, events or contexts back: a `Drop` that runs so late
/// does nothing. Thread-local values of the thread that exits are dropped before, and are given
/// back as ever.
///
/// It is `false` as long as this library has made nothing current. On systems other than Unix it
/// stays so.
///
/// ```
/// # let machine = rmm_sim::Machine::new();
/// # let _entered = machine.enter();
/// let _stream = rmm_core::CudaStream::new()?;
/// assert!(!rmm_core::process_is_exiting());
/// # Ok::<(), rmm_core::Error>(())
/// ```
#[doc(alias = "rmm::process_is_exiting")]
pub fn process_is_exiting() -> bool {
    // Acquire: who sees the end also sees what the exiting thread did before it.
    EXITING.load(Ordering::Acquire)
}

/// Has the end of the process noticed. The driver must have been started, so that its own handler
/// is registered already.
pub(crate) fn watch() {
    WATCH.call_once(register);
}

#[cfg(unix)]
fn register() {
    extern "C" fn note() {
        EXITING.store(true, Ordering::Release);
    }
    // SAFETY: the handler is a function without arguments that neither unwinds nor ends the
    // process.
    let _never_noticed = unsafe { libc::atexit(note) };
}

#[cfg(not(unix))]
fn register() {}
