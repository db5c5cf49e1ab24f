//! Detection of the end of the process, when the driver goes away before its last users.
//!
//! The driver registers an exit handler while it is initialized. Exit handlers run in the reverse
//! order of their registration, so a handler registered later runs before the driver's.

use std::sync::Once;

use rmm_sys::process;

static WATCH: Once = Once::new();

/// Whether the process has begun to run its exit handlers: `main` returned, or `exit` was called.
/// It also holds in the child of a `fork`, if the parent used the driver: that works in no child.
///
/// From then on the driver may be gone, at any moment and on any thread, and this library no longer
/// calls it to free memory, streams, events or contexts: a `Drop` that runs so late does nothing.
/// Thread-local values of the exiting thread are dropped before that, and are freed as usual.
///
/// It is `false` until this library has made a context current. On systems other than Unix it is
/// always `false`.
///
/// ```
/// # let _machine = rmm_sim::enter();
/// let _stream = rmm_core::CudaStream::new()?;
/// assert!(!rmm_core::process_is_exiting());
/// # Ok::<(), rmm_core::Error>(())
/// ```
#[doc(alias = "rmm::process_is_exiting")]
#[inline]
pub fn process_is_exiting() -> bool {
    process::is_ending()
}

/// Registers the exit handler. The driver must be initialized, so that its own handler is
/// registered already.
pub(crate) fn watch() {
    WATCH.call_once(register);
}

#[cfg(unix)]
fn register() {
    extern "C" fn note() {
        process::note_exit();
    }
    // SAFETY: the handler is a function without arguments that neither unwinds nor ends the
    // process. If that fails, the exit is never noticed.
    let _ignored = unsafe { libc::atexit(note) };
}

#[cfg(not(unix))]
fn register() {}
