//! Why a request was refused, for its error.

use rmm_core::{Error, HeldByStream, Shortage};

use super::core::PoolCore;
use super::slow::Request;
use super::state::PoolState;

impl PoolState {
    /// What was freed on streams and is not known to be done, the most first.
    pub(super) fn held_by_streams(&self) -> Vec<HeldByStream> {
        let (mut held, mut gone) = (Vec::new(), 0);
        for list in self.heap.occupied() {
            let (stream, bytes) = (self.timeline.stream(list), self.heap.free_bytes(list));
            if stream.is_none() {
                gone += bytes;
            } else if bytes > 0 {
                held.push(HeldByStream { stream, bytes });
            }
        }
        if gone > 0 {
            held.push(HeldByStream { stream: None, bytes: gone });
        }
        held.sort_by_key(|held| std::cmp::Reverse(held.bytes));
        held
    }
}

impl PoolCore {
    #[cold]
    pub(super) fn exhausted(
        &self,
        state: &PoolState,
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
        let mut exhaustion = state.exhaustion(limit);
        exhaustion.shortage = Some(self.shortage(state, request, refused_upstream));
        error = error.with_layout(request.layout).with_exhaustion(exhaustion);
        error = error.with_held_by_streams(state.held_by_streams());
        match request.stream {
            Some(stream) => error.with_stream(stream.id()),
            None => error,
        }
    }

    /// What the request lacked, after all steps.
    fn shortage(
        &self,
        state: &PoolState,
        request: Request<'_>,
        refused_upstream: bool,
    ) -> Shortage {
        let Request { size, .. } = request;
        let heap = &state.heap;
        let free = heap.reserved() - heap.live();
        let room = self.growth.hard_limit.saturating_sub(heap.reserved() + state.pending);
        let could_give_back = heap.idle_bytes() > 0 && self.could_grow_without_idle(state, request);
        if size > self.growth.hard_limit {
            Shortage::Exhausted
        } else if heap.has_free_run(size) || could_give_back && !refused_upstream {
            Shortage::Pending
        } else if refused_upstream && room >= size {
            Shortage::Upstream
        } else if free.saturating_add(room) >= size {
            Shortage::Fragmented
        } else if free.saturating_add(room).saturating_add(state.statistics.graph_bytes) >= size {
            Shortage::KeptForGraphs
        } else {
            Shortage::Exhausted
        }
    }
}
