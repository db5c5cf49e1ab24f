use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Dereferences to one of two upstreams, in turn.
#[derive(Debug)]
struct Alternating<R> {
    upstreams: [R; 2],
    turn: AtomicUsize,
}

impl<R> Deref for Alternating<R> {
    type Target = R;

    fn deref(&self) -> &R {
        &self.upstreams[self.turn.fetch_add(1, Ordering::Relaxed) % 2]
    }
}

#[derive(Debug)]
struct Adaptor<R> {
    upstream: Alternating<R>,
}

rmm_core::adaptor! {
    Adaptor<R> over upstream, name = "alternating";
    fn allocate(&self, below, layout) {
        below.allocate(layout) // it would be freed to the other upstream
    }
}

fn main() {}
