//! Calls of the program's callbacks before a request fails, without the pool's lock.

#![forbid(unsafe_code)]

use std::cell::Cell;

use rmm_core::Error;
use rmm_core::siblings::in_program;

use super::outlook::least_needed;
use crate::suballocators::pool::state::pressure_callbacks::Callback;
pub(crate) use crate::suballocators::pool::state::pressure_callbacks::Pressure;
use crate::suballocators::pool::state::session::{Request, Session};

thread_local! {
    /// Whether a callback runs on this thread.
    static RUNS: Cell<bool> = const { Cell::new(false) };
}

/// Resets [`RUNS`], also if the callback panics.
struct Running;

impl Drop for Running {
    fn drop(&mut self) {
        RUNS.set(false);
    }
}

/// Calls a callback, unless one runs on this thread already: a request within it fails as without
/// callbacks. Returns whether it has freed memory.
pub(crate) fn call(callback: &Callback, pressure: &Pressure<'_>) -> bool {
    if RUNS.replace(true) {
        return false;
    }
    let _running = Running;
    in_program(|| callback(pressure))
}

impl<'a> Pressure<'a> {
    /// The pressure of a request that is about to fail with this error.
    pub(crate) fn on(session: &Session<'_>, request: Request<'_>, error: &'a Error) -> Self {
        let needed = least_needed(session.core, session, request);
        let held = session.heap.reserved() + session.pending;
        let beyond_limit = held.saturating_add(needed).saturating_sub(session.core.hard_limit());
        let missing = if beyond_limit > 0 { beyond_limit.min(needed) } else { needed };
        let stream = request.stream.map(rmm_core::StreamRef::id);
        Pressure { requested: request.size, missing, stream, error }
    }
}
