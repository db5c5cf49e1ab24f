//! Why a request was refused, for its error.

use rmm_core::{Error, OomReason, PendingBytes};

use super::shared::Shared;
use super::slow::Request;
use super::state::State;

impl State {
    /// What was freed on streams and is not known to be done, the most first.
    pub(super) fn pending_bytes(&self) -> Vec<PendingBytes> {
        let (mut held, mut gone) = (Vec::new(), 0);
        for list in self.heap.occupied() {
            let (stream, bytes) = (self.order.stream(list), self.heap.free_bytes(list));
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

impl Shared {
    #[cold]
    pub(super) fn exhausted(
        &self,
        state: &State,
        request: Request<'_>,
        upstream: Option<Error>,
    ) -> Error {
        let limit = Some(self.growth.hard_limit).filter(|&limit| limit != u64::MAX);
        let refused_upstream = upstream.is_some();
        let mut error = match upstream {
            Some(error) if !error.is_out_of_memory() => return error,
            Some(error) => Error::out_of_memory(self.name).with_source(error),
            None => Error::out_of_memory(self.name),
        };
        let mut exhaustion = state.usage(limit);
        exhaustion.reason = Some(self.shortage(state, request, refused_upstream));
        error = error.with_layout(request.layout).with_usage(exhaustion);
        error = error.with_pending_bytes(state.pending_bytes());
        match request.stream {
            Some(stream) => error.with_stream(stream.id()),
            None => error,
        }
    }

    /// What the request lacked, after all steps.
    fn shortage(&self, state: &State, request: Request<'_>, refused_upstream: bool) -> OomReason {
        let Request { size, .. } = request;
        let heap = &state.heap;
        let free = heap.reserved() - heap.live();
        let room = self.growth.hard_limit.saturating_sub(heap.reserved() + state.pending);
        let could_give_back = heap.idle_bytes() > 0 && self.could_grow_without_idle(state, request);
        if size > self.growth.hard_limit {
            OomReason::Exhausted
        } else if heap.has_free_run(size) || could_give_back && !refused_upstream {
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
}
