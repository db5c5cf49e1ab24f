//! Asking other suballocators of the device for the memory that a request is short of.
//!
//! They release it to the upstream that they share with the pool, and the pool takes it from there.
//! The order of all steps is in [`ladder`](super::ladder).

#![forbid(unsafe_code)]

use std::ops::ControlFlow;
use std::panic::resume_unwind;

use rmm_core::siblings::{AskedFor, LimitId, OnFailure, Others, Unasked};
use rmm_core::{Device, Error};

use super::outlook::least_needed;
use super::pressure::{self, Pressure};
use crate::suballocators::pool::heap::NodeId;
use crate::suballocators::pool::state::probe::asks_captured;
use crate::suballocators::pool::state::session::{Request, Session};

/// Whose refusal other resources could help with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Scarce {
    /// The device's, or that of an upstream that does not say who refused: any resource that draws
    /// on the same memory may help.
    Memory,
    /// That of a limit: only resources that draw on it help.
    Within(LimitId),
}

impl Scarce {
    /// The limit that has refused.
    pub(crate) fn limit(self) -> Option<LimitId> {
        match self {
            Self::Memory => None,
            Self::Within(limit) => Some(limit),
        }
    }
}

/// Whether a request was served; `Break` also if it failed for another reason than memory.
type Attempt = ControlFlow<Result<NodeId, Option<Error>>>;

impl Session<'_> {
    /// Asks others until one has returned what the request needs.
    ///
    /// # Errors
    /// Upstream's last; `None` if it was not asked.
    pub(crate) fn ask_siblings(
        &mut self,
        request: Request<'_>,
        scarce: Scarce,
        asked_for: AskedFor,
    ) -> Result<NodeId, Option<Error>> {
        let core = self.core;
        let others = core.siblings.others(scarce.limit());
        let may_capture = |session: &mut Self| {
            asks_captured(request.stream).unwrap_or(true) || session.may_capture()
        };
        let is_allowed = asked_for.is_allowed();
        if others.is_empty() || !is_allowed || asked_for == AskedFor::Wait && may_capture(self) {
            return Err(None);
        }
        if !self.could_help(request, &others, scarce) {
            return Err(None);
        }
        // Without the pool's lock: the thread whose turn it is may ask this pool.
        let turn = self.unlocked(|| others.take_turn());
        let Some(turn) = turn.unwrap_or_else(|panic| resume_unwind(panic)) else {
            return Err(None);
        };
        let mut last = None;
        let mut attempt = |session: &mut Self| -> Attempt {
            match session.take_or_grow(request) {
                Err(Some(error)) if error.is_out_of_memory() => last = Some(error),
                Err(None) => {}
                outcome => return ControlFlow::Break(outcome),
            }
            ControlFlow::Continue(())
        };
        // Another thread may have left memory while this one waited for its turn.
        let asked = match attempt(self) {
            ControlFlow::Continue(()) => {
                let needed = least_needed(core, self, request);
                let unlocked = |session: &mut Self, ask: &mut dyn FnMut() -> u64| {
                    session.unlocked(ask).unwrap_or_else(|panic| resume_unwind(panic))
                };
                turn.ask(asked_for, needed, self, unlocked, &mut attempt)
            }
            served @ ControlFlow::Break(_) => served,
        };
        match asked {
            ControlFlow::Break(outcome) => outcome,
            ControlFlow::Continue(()) => Err(last),
        }
    }

    /// Leaves what this request would ask for to an adaptor above, which asks once its own locks
    /// are released.
    #[cold]
    pub(crate) fn leave_unasked(&mut self, request: Request<'_>, error: &Error) {
        let core = self.core;
        let scarce = error.limit_id().map_or(Scarce::Memory, Scarce::Within);
        let others = core.siblings.others(scarce.limit());
        let helps = !others.is_empty() && self.could_help(request, &others, scarce);
        let Pressure { requested, missing, stream, .. } = Pressure::on(self, request, error);
        let bytes = least_needed(core, self, request);
        let callbacks = core.pressure.all().into_iter().map(|callback| -> OnFailure {
            Box::new(move |error| {
                pressure::call(&*callback, &Pressure { requested, missing, stream, error })
            })
        });
        let others = helps.then_some(others);
        let unasked = Unasked { others, bytes, callbacks: callbacks.collect() };
        // What it replaces may be the last to hold a callback.
        self.unlocked(|| unasked.leave()).unwrap_or_else(|panic| resume_unwind(panic));
    }

    /// Whether all that others hold, with what is free below, could be enough: a request for more
    /// than there ever is must not empty all pools.
    fn could_help(&mut self, request: Request<'_>, others: &Others, scarce: Scarce) -> bool {
        let needed = least_needed(self.core, self, request);
        let own = self.heap.idle_bytes();
        let helps = self.unlocked(|| {
            let free = match scarce {
                // If the driver cannot say, it may be enough.
                Scarce::Memory => Device::memory_info().map_or(u64::MAX, |memory| memory.free),
                Scarce::Within(_) => u64::MAX,
            };
            others.could_help(needed, free.saturating_add(own))
        });
        helps.unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// Takes a block that is free now, or else asks upstream for one.
    ///
    /// # Errors
    /// Upstream's; `None` if the limit leaves no room.
    fn take_or_grow(&mut self, request: Request<'_>) -> Result<NodeId, Option<Error>> {
        match self.take_free_or_coalesced(request.list, request.size) {
            Some(node) => Ok(node),
            None => self.grow(request, self.core.hard_limit()),
        }
    }
}
