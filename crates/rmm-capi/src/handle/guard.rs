//! The boundary to C: no panic crosses it. After the process began to exit, and in the child of a
//! `fork`, nothing happens.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};

use rmm_core::{fork, process_is_exiting};

use crate::handle::failure::Failure;
use crate::handle::status::{RMM_RS_OK, RMM_RS_PANIC};

thread_local! {
    static LAST: RefCell<Option<Failure>> = const { RefCell::new(None) };
    /// How many failures were noted. Has no destructor, so it is there while the thread ends too.
    static NOTED: Cell<u64> = const { Cell::new(0) };
}

/// Runs a function that can fail. Its failure becomes the thread's last error.
#[inline]
pub(crate) fn status(run: impl FnOnce() -> Result<(), Failure>) -> i32 {
    if process_is_exiting() {
        return ended();
    }
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(())) => RMM_RS_OK,
        Ok(Err(failure)) => note(failure),
        Err(panic) => note(of_panic(&*panic)),
    }
}

/// Runs a function that has noted its failure. What every allocation passes through: the closure
/// returns a number, so that a success moves nothing else.
#[inline]
pub(crate) fn code(run: impl FnOnce() -> i32) -> i32 {
    if process_is_exiting() { ended() } else { contained_code(run) }
}

/// Runs a free that has noted its failure. In the child of a `fork` it does nothing, and that is no
/// failure.
#[inline]
pub(crate) fn free(run: impl FnOnce() -> i32) -> i32 {
    if process_is_exiting() { RMM_RS_OK } else { contained_code(run) }
}

/// The status of a call that does nothing: a failure in the child of a `fork`, but not while the
/// process exits.
#[cold]
fn ended() -> i32 {
    match fork::check() {
        Ok(()) => RMM_RS_OK,
        Err(error) => note(Failure::from(error)),
    }
}

#[inline]
fn contained_code(run: impl FnOnce() -> i32) -> i32 {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(status) => status,
        Err(panic) => note(of_panic(&*panic)),
    }
}

/// Runs a function that has a value, which is `default` if it panics, if the process exits, and in
/// the child of a `fork`.
#[inline]
pub(crate) fn value<T>(default: T, run: impl FnOnce() -> T) -> T {
    if process_is_exiting() { default } else { contained(default, run) }
}

/// Runs a function that has a value, also while the process exits and in the child of a `fork`. If
/// it panics, the value is `default`.
#[inline]
pub(crate) fn contained<T>(default: T, run: impl FnOnce() -> T) -> T {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(value) => value,
        Err(panic) => {
            note(of_panic(&*panic));
            default
        }
    }
}

/// Sets the thread's last error, and returns its status.
#[cold]
pub(crate) fn note(failure: Failure) -> i32 {
    let status = failure.status;
    NOTED.with(|noted| noted.set(noted.get().wrapping_add(1)));
    // While the thread ends no caller is left to ask for the error.
    let _ignored = LAST.try_with(|last| drop(last.replace(Some(failure))));
    status
}

/// Calls `read` with the thread's last error.
pub(crate) fn with_last<R>(read: impl FnOnce(Option<&Failure>) -> R) -> Option<R> {
    LAST.try_with(|last| read(last.borrow().as_ref())).ok()
}

/// Calls a function of the program, and returns what was noted meanwhile: that is not the last
/// error of the thread, which stays as it was.
pub(crate) fn call_back<R>(function: impl FnOnce() -> R) -> (R, Option<Failure>) {
    // While the thread ends no caller is left to ask for the error.
    let before = (LAST.try_with(RefCell::take).ok().flatten(), NOTED.with(Cell::get));
    let result = function();
    NOTED.with(|noted| noted.set(before.1));
    let noted = LAST.try_with(|last| last.replace(before.0)).ok().flatten();
    (result, noted)
}

/// Runs a free, and returns the status of the failure that it has noted, if any.
pub(crate) fn noted_by(free: impl FnOnce()) -> i32 {
    let before = NOTED.with(Cell::get);
    free();
    if NOTED.with(Cell::get) == before {
        return RMM_RS_OK;
    }
    with_last(|last| last.map_or(RMM_RS_OK, |failure| failure.status)).unwrap_or(RMM_RS_OK)
}

#[cold]
fn of_panic(panic: &(dyn Any + Send)) -> Failure {
    let text = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned());
    Failure::plain(RMM_RS_PANIC, format!("panic: {text}"))
}
