//! The spans of a cache: large requests that its few freed blocks do not serve.

#![forbid(unsafe_code)]

use super::super::span::Span;
use super::{Cache, Counters, Put};

impl Cache {
    /// Hands out a part of a span.
    #[inline(never)]
    pub(super) fn take_part(&mut self, size: u64, counters: &Counters) -> Option<u64> {
        let address = self.spans.take(size)?;
        counters.set_span_bytes(self.spans.free_bytes());
        Counters::add(&counters.taken, 1);
        Some(address)
    }

    /// Takes a block back that may be part of a span, if it is one of this cache's.
    pub(crate) fn put_part(&mut self, address: u64, size: u64, counters: &Counters) -> Put {
        if !self.spans.put(address, size) {
            // It may be part of a span of another cache.
            return Put::Never;
        }
        self.misses = 0;
        counters.set_span_bytes(self.spans.free_bytes());
        Counters::add(&counters.put, 1);
        Put::Done
    }

    /// Whether it may have spans. That of the legacy default stream has none: an event has to lie
    /// between a free there and the next use.
    pub(crate) fn may_have_spans(&self) -> bool {
        !self.is_fenced
    }

    /// Takes the span, and hands out its first `size` bytes, if it has them. Returns a span that
    /// has to leave for it, too.
    pub(crate) fn add_span(
        &mut self,
        span: &mut Option<Span>,
        size: u64,
        counters: &Counters,
    ) -> Option<(u64, Option<Span>)> {
        let added = self.spans.add(span, size)?;
        counters.set_span_bytes(self.spans.free_bytes());
        Counters::add(&counters.taken, 1);
        Some(added)
    }

    /// Removes the span that an address lies in, which another thread or stream frees.
    pub(crate) fn remove_span_at(&mut self, address: u64, counters: &Counters) -> Option<Span> {
        let span = self.spans.remove_at(address);
        counters.set_span_bytes(self.spans.free_bytes());
        span
    }

    /// Removes all spans.
    pub(crate) fn remove_spans(&mut self, counters: &Counters, mut to: impl FnMut(Span)) {
        self.spans.drain().for_each(&mut to);
        counters.set_span_bytes(0);
    }
}
