//! Limits on the effort of a thread's requests: [`rmm_core::Effort`] for C.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use rmm_core::{Effort, EffortScope};

use crate::handle::failure::Failure;
use crate::handle::guard;
use crate::handle::status::Status;

/// An effort: all steps.
pub const RMM_RS_EFFORT_FULL: u32 = 0;
/// An effort: the calling thread does not wait for the device or for other threads.
pub const RMM_RS_EFFORT_NO_HOST_WAIT: u32 = 1;
/// An effort: pools do not grow.
pub const RMM_RS_EFFORT_NO_GROWTH: u32 = 2;
/// An effort: no step begins after a time from now, and a wait ends with it.
pub const RMM_RS_EFFORT_FOR: u32 = 3;

thread_local! {
    /// The scopes that the thread has begun, the innermost last.
    static SCOPES: RefCell<Vec<EffortScope>> = const { RefCell::new(Vec::new()) };
}

/// Limits the requests of the calling thread, of every resource, until `rmm_rs_effort_pop`: a
/// request that no free block serves is out of memory before the steps that the effort leaves out.
/// `nanoseconds` is read for `RMM_RS_EFFORT_FOR`. Of several limits the last counts.
/// `RMM_RS_INVALID_ARGUMENT` for an unknown effort.
#[unsafe(no_mangle)]
pub extern "C" fn rmm_rs_effort_push(effort: u32, nanoseconds: u64) -> Status {
    guard::status(|| {
        let effort = match effort {
            RMM_RS_EFFORT_FULL => Effort::Full,
            RMM_RS_EFFORT_NO_HOST_WAIT => Effort::NoHostWait,
            RMM_RS_EFFORT_NO_GROWTH => Effort::NoGrowth,
            RMM_RS_EFFORT_FOR => {
                let end = Instant::now().checked_add(Duration::from_nanos(nanoseconds));
                end.map_or(Effort::Full, Effort::Until)
            }
            _ => return Err(Failure::invalid(format!("{effort} is no effort"))),
        };
        SCOPES.with_borrow_mut(|scopes| scopes.push(rmm_core::effort(effort)));
        Ok(())
    })
}

/// Ends the last limit of the calling thread. `RMM_RS_INVALID_ARGUMENT` if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn rmm_rs_effort_pop() -> Status {
    guard::status(|| match SCOPES.with_borrow_mut(Vec::pop) {
        Some(scope) => {
            drop(scope);
            Ok(())
        }
        None => Err(Failure::invalid("the thread has limited no effort")),
    })
}
