//! FFI shims: from `extern "C"` functions to calls of a [`Session`].
//!
//! The functions are written with `driver_calls!`. It wraps their arguments, at the only place that
//! relies on the caller's promises about pointers (see [`arguments`](super::arguments)), so that
//! the bodies are safe code.

use std::panic::{AssertUnwindSafe, catch_unwind};

use rmm_sys::CuResult;

use crate::engine::current;
use crate::engine::session::Session;
use crate::engine::thread;
use crate::model::handle::Hint;

/// Makes a driver call. No panic leaves it, and it is refused inside a host function or kernel.
pub(crate) fn call(
    name: &'static str,
    hints: &[Hint],
    body: impl FnOnce(&mut Session<'_>) -> Result<(), CuResult>,
) -> CuResult {
    if thread::in_callback() {
        return CuResult::NOT_PERMITTED;
    }
    let mut called = None;
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let machine = called.insert(current::machine_for(name, hints));
        let mut session = Session::open(machine);
        let outcome = session
            .enter_call(name)
            .and_then(|()| session.refuse_in_failed_context(name, hints))
            .and_then(|()| body(&mut session))
            .and_then(|()| session.report_failure_meanwhile(name, hints));
        if outcome.is_err() {
            session.check_handles(name, hints);
        }
        session.finish_call(outcome)
    }));
    outcome.unwrap_or_else(|_| {
        if let Some(machine) = called {
            machine.lock().checks.report_panic(name);
        }
        CuResult::UNKNOWN
    })
}

/// Writes driver functions.
///
/// The part after `by` lists the arguments that may name the machine; then comes the session's name
/// and the body, which returns `Result<(), CuResult>`.
macro_rules! driver_calls {
    ($(fn $name:ident($($argument:ident: $type:ty),*) by [$($hint:ident),*] |$session:pat_param| $body:block)*) => {$(
        #[expect(non_snake_case, reason = "the driver's own name")]
        pub(crate) unsafe extern "C" fn $name($($argument: $type),*) -> rmm_sys::CuResult {
            $(
                // SAFETY: the caller keeps the contract of the driver function of this name.
                let $argument = unsafe { crate::calls::arguments::Argument::take($argument) };
            )*
            let hints: &[crate::model::handle::Hint] = &[$(crate::calls::arguments::Hinting::hint(&$hint)),*];
            crate::calls::call::call(stringify!($name), hints, move |$session| $body)
        }
    )*};
}
pub(crate) use driver_calls;
