//! The contexts that this library has seen, for memory that outlives its own context.
//!
//! A reset ends the streams of one context, and with them the waits by which work of other contexts
//! was ordered before a free. So after it nothing but a wait for all of them shows that no work
//! uses the memory. No driver call lists the contexts of a process: every one that this library
//! has found current, or made a stream in, is noted.

use std::cell::Cell;
use std::sync::Mutex;

use rmm_sys::{CuResult, CuUuid};

use crate::driver::loaded_driver;
use crate::{
    Context, Device, Error, ErrorKind, Introspect as _, MemoryKind, RelaxedCapture, StreamRef,
    SynchronousResource, ask_again, check, driver_in_context, fork, process_is_exiting,
    synchronize_unless_captured,
};

/// The contexts of a machine, by its first device: a process may have several in software.
type OfMachine = (CuUuid, Context);

/// Without duplicates. One for each device, and one more for each reset. Lock order: a leaf.
static KNOWN: Mutex<Vec<OfMachine>> = Mutex::new(Vec::new());

thread_local! {
    /// The context that this thread noted last: so the list is seldom locked.
    static LAST: Cell<Option<Context>> = const { Cell::new(None) };
}

/// Notes a context.
pub(crate) fn note(context: Context) {
    if LAST.replace(Some(context)) == Some(context) {
        return;
    }
    let context = (machine(), context);
    let mut known = fork::lock(&KNOWN);
    if !known.contains(&context) {
        known.push(context);
    }
}

/// The first device; no device if the driver cannot say.
fn machine() -> CuUuid {
    Device::new(0).and_then(Device::uuid).unwrap_or_default()
}

/// The context that memory from a resource ends with, just after it was allocated: the resource's
/// own, or else the current one. `None` for memory of the host, and if there is no context.
pub fn context_of_memory(resource: &(impl SynchronousResource + ?Sized)) -> Option<Context> {
    if resource.try_property::<MemoryKind>() == Some(MemoryKind::Host) {
        return None;
    }
    resource.try_value::<Context>().or_else(Context::of_thread)
}

/// Synchronizes with the stream. Returns whether no work enqueued on it can still use memory;
/// `true` if no driver is installed.
///
/// If this is `false` (the driver is gone, the process is exiting, the stream may be captured, or
/// failed work has broken the context), host memory must be leaked rather than reused.
pub fn is_done(stream: StreamRef<'_>) -> bool {
    // The driver may be unloaded already, and the operating system reclaims all memory soon.
    if process_is_exiting() {
        return false;
    }
    match driver_in_context().and_then(|_| ask_again(|| stream.is_capturing())) {
        Ok(false) => {}
        // Synchronizing would invalidate the capture, and the graph uses the memory at each launch.
        Ok(true) => return false,
        Err(error) => return error.kind() == ErrorKind::DriverUnavailable,
    }
    let _relaxed = RelaxedCapture::enter();
    match stream.synchronize() {
        Ok(()) => true,
        Err(error) => error.kind() == ErrorKind::DriverUnavailable,
    }
}

/// The same as [`is_done`], for memory that outlives its context: also `true` if the stream ended
/// with its context, and all other contexts have completed their work, for which the stream may
/// have waited.
pub fn is_done_or_ended(stream: StreamRef<'_>) -> bool {
    let has_ended = || {
        let lost = stream.check_context().err().and_then(|error| error.code());
        lost == Some(CuResult::CONTEXT_IS_DESTROYED) && wait_for_all_contexts().is_ok()
    };
    is_done(stream) || !process_is_exiting() && has_ended()
}

/// Notes the primary contexts of all devices that have one: work of other libraries on memory that
/// this process has mapped may be there, on streams that this library has never seen.
///
/// # Errors
/// The driver's.
fn note_primary_contexts() -> Result<(), Error> {
    let driver = loaded_driver()?;
    for device in Device::all()? {
        let (mut flags, mut is_active) = (0, 0);
        let (flags, place) = (&raw mut flags, &raw mut is_active);
        // SAFETY: both may be written to.
        let code = unsafe { driver.cuDevicePrimaryCtxGetState(device.as_raw(), flags, place) };
        check("cuDevicePrimaryCtxGetState", code)?;
        if is_active != 0 {
            let _current = device.make_current()?;
            Context::current()?;
        }
    }
    Ok(())
}

/// Waits on this thread for all work of all contexts that exist, also of other libraries in primary
/// contexts that are not known yet. The work of those that have ended is over.
///
/// # Errors
/// The driver's, or one that says so if a wait could invalidate a capture: then work may be in
/// progress.
pub fn wait_for_all_contexts() -> Result<(), Error> {
    note_primary_contexts()?;
    let driver = loaded_driver()?;
    let (here, unknown) = (machine(), CuUuid::default());
    let known = fork::lock(&KNOWN).clone();
    let _relaxed = RelaxedCapture::enter();
    for (machine, context) in known {
        let may_be_here = [here, machine].contains(&unknown) || machine == here;
        if !may_be_here || !ask_again(|| context.exists(driver))? {
            continue;
        }
        let _entered = context.enter()?;
        if !ask_again(synchronize_unless_captured)? {
            let why = "a stream may be under capture, which a wait would invalidate";
            return Err(Error::unsupported("context", why));
        }
    }
    Ok(())
}
