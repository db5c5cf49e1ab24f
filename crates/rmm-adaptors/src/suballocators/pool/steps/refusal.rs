//! The last step: why a request was refused, for its error.

#![forbid(unsafe_code)]

use rmm_core::{Effort, Error, OomReason, PendingBytes, PoolUsage, Remedy};

use super::outlook::could_grow_without_idle;
use super::remedies::remedies;
use crate::suballocators::pool::state::core::PoolCore;
use crate::suballocators::pool::state::pool_state::PoolState;
use crate::suballocators::pool::state::session::{Request, Session};

impl PoolState {
    /// What was freed on streams and may still be in use, the most first.
    pub(crate) fn pending_bytes(&self) -> Vec<PendingBytes> {
        let (mut held, mut gone) = (Vec::new(), 0);
        for list in self.heap.occupied() {
            let (stream, bytes) = (self.timeline.stream(list), self.heap.free_bytes(list));
            if stream.is_none() {
                gone += bytes;
            } else if bytes > 0 {
                held.push(PendingBytes::new(stream, bytes));
            }
        }
        if gone > 0 {
            held.push(PendingBytes::new(None, gone));
        }
        held.sort_by_key(|held| std::cmp::Reverse(held.bytes));
        held
    }
}

/// What the pool held, and what would help, when it could not serve a request.
#[derive(Debug)]
pub(crate) struct Shortage {
    usage: PoolUsage,
    pending: Vec<PendingBytes>,
    remedies: Vec<Remedy>,
}

impl Shortage {
    /// That of now. `refused` is upstream's error, if it refused. Siblings are asked what they hold
    /// if `may_ask`, without the pool's lock.
    #[cold]
    pub(crate) fn of(
        session: &mut Session<'_>,
        request: Request<'_>,
        refused: Option<&Error>,
        may_ask: bool,
    ) -> Self {
        let remedies = remedies(session, request, refused, may_ask);
        let (core, state) = (session.core, &**session);
        let limit = Some(core.hard_limit()).filter(|&limit| limit != u64::MAX);
        let mut usage = state.usage(limit);
        usage.reason = Some(shortage(core, state, request, refused.is_some()));
        Self { usage, pending: state.pending_bytes(), remedies }
    }

    /// The error of the request. `upstream` is upstream's, if it refused. Needs no lock.
    #[cold]
    pub(crate) fn into_error(
        self,
        core: &PoolCore,
        request: Request<'_>,
        upstream: Option<Error>,
    ) -> Error {
        let limited_by = match &upstream {
            Some(error) => error.limit_id(),
            None => Some(core.siblings.id()),
        };
        let error = match upstream {
            Some(error) if !error.is_out_of_memory() => return error.with_remedies(self.remedies),
            Some(error) => Error::out_of_memory(core.name).with_source(error),
            None => Error::out_of_memory(core.name),
        };
        let error = error.with_layout(request.layout).with_usage(self.usage);
        let error = error.with_pending_bytes(self.pending).with_limit_id(limited_by);
        let error = error.with_remedies(self.remedies);
        match request.stream {
            Some(stream) => error.with_stream(stream.id()),
            None => error,
        }
    }
}

/// Why a request takes no further step.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// Its deadline has come. It lacked this when it looked last.
    OutOfTime(Shortage),
    /// The pool cannot serve it any more.
    Error(Error),
}

/// What ran short.
fn shortage(
    core: &PoolCore,
    state: &PoolState,
    request: Request<'_>,
    refused_upstream: bool,
) -> OomReason {
    let Request { size, .. } = request;
    let heap = &state.heap;
    let free = heap.reserved() - heap.live();
    let room = core.hard_limit().saturating_sub(heap.reserved() + state.pending);
    let could_return = heap.idle_bytes() > 0 && could_grow_without_idle(core, state, request);
    if size > core.hard_limit().max(heap.reserved()) {
        OomReason::Exhausted
    } else if Effort::current() != Effort::Full
        && !refused_upstream
        && free.saturating_add(room).saturating_add(state.pending) >= size
    {
        // What other threads are asking for may be of use once it is there.
        OomReason::LimitedEffort
    } else if heap.has_free_run(size) || could_return && !refused_upstream {
        OomReason::Pending
    } else if refused_upstream && room >= size {
        OomReason::Upstream
    } else if free.saturating_add(room) >= size {
        OomReason::Fragmented
    } else if free.saturating_add(room).saturating_add(state.statistics.graph_bytes) >= size {
        OomReason::KeptForGraphs
    } else {
        OomReason::Exhausted
    }
}
