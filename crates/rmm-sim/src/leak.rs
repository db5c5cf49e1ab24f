//! What was not released.
#![forbid(unsafe_code)]

use crate::state::State;
use crate::trace::{Leak, LeakKind};

impl State {
    pub(crate) fn leaks(&self) -> Vec<Leak> {
        let leak = |kind, what, bytes| Leak { kind, what, bytes };
        let mut leaks = Vec::new();
        leaks.extend(self.allocations.iter().map(|allocation| {
            let place = self.describe(allocation.start);
            let what = format!("{} bytes at {place} ({:?})", allocation.bytes, allocation.kind);
            leak(LeakKind::Allocation, what, allocation.bytes)
        }));
        leaks.extend(
            self.stream_slots.keys().map(|id| leak(LeakKind::Stream, format!("stream {id}"), 0)),
        );
        leaks.extend(
            self.event_slots.keys().map(|key| leak(LeakKind::Event, format!("event {key}"), 0)),
        );
        let own = |key: &u64| self.pools.get(key).is_some_and(|pool| !pool.is_default);
        leaks.extend(
            self.pool_slots
                .keys()
                .filter(own)
                .map(|key| leak(LeakKind::Pool, format!("pool {key}"), 0)),
        );
        let graphs = &self.captures.graphs;
        let keys = graphs.slots.keys().chain(graphs.executable_slots.keys());
        leaks.extend(keys.map(|key| leak(LeakKind::Graph, format!("graph {key}"), 0)));
        leaks
    }
}
