//! The last step: why a request was refused, for its error.

#![forbid(unsafe_code)]

use rmm_core::{Effort, Error, OomReason, PendingBytes};

use super::outlook::could_grow_without_idle;
use crate::suballocators::pool::state::core::PoolCore;
use crate::suballocators::pool::state::pool_state::PoolState;
use crate::suballocators::pool::state::session::Request;

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

/// The error of a request that no step has served. `upstream` is upstream's, if it
/// refused.
#[cold]
pub(crate) fn refuse(
    core: &PoolCore,
    state: &PoolState,
    request: Request<'_>,
    upstream: Option<Error>,
) -> Error {
    let limit = Some(core.hard_limit()).filter(|&limit| limit != u64::MAX);
    let refused_upstream = upstream.is_some();
    let limited_by = match &upstream {
        Some(error) => error.limit_id(),
        None => Some(core.siblings.id()),
    };
    let error = match upstream {
        Some(error) if !error.is_out_of_memory() => return error,
        Some(error) => Error::out_of_memory(core.name).with_source(error),
        None => Error::out_of_memory(core.name),
    };
    let mut exhaustion = state.usage(limit);
    exhaustion.reason = Some(shortage(core, state, request, refused_upstream));
    let error = error.with_layout(request.layout).with_usage(exhaustion);
    let error = error.with_pending_bytes(state.pending_bytes()).with_limit_id(limited_by);
    match request.stream {
        Some(stream) => error.with_stream(stream.id()),
        None => error,
    }
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
