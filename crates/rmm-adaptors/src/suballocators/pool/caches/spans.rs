//! Spans come from the heap, to a thread's own cache, and go back there.
//!
//! Each function but the first two runs under the pool's lock.

#![forbid(unsafe_code)]

use std::sync::atomic::Ordering;

use rmm_core::StreamId;

use super::span::Span;
use super::{Caches, Flushed};
use crate::sync::thread_token::ThreadToken;

impl Caches {
    /// Whether a cache has a span. A thread that has a part of one knows of it, as
    /// [the filter](super::span_filter::SpanFilter) does: a span is counted before parts are used.
    #[inline]
    pub(crate) fn has_spans(&self) -> bool {
        self.spans.load(Ordering::Relaxed) > 0
    }

    /// How many spans caches have.
    pub(crate) fn span_count(&self) -> u64 {
        self.spans.load(Ordering::Relaxed) as u64
    }

    /// Bytes of the free parts of all spans.
    pub(super) fn span_bytes(&self) -> u64 {
        let Some(slots) = self.table.slots().filter(|_| self.has_spans()) else { return 0 };
        self.used.iter().map(|slot| slots[slot].header().counters.span_bytes()).sum()
    }

    /// The slot of this thread's cache for the stream, if that may have spans.
    #[cold]
    pub(crate) fn slot_for_span(&self, stream: StreamId) -> Option<usize> {
        let me = ThreadToken::current()?;
        let slots = self.table.slots()?;
        let of_stream = |&index: &usize| slots[index].header().is_of(stream);
        let own = [Self::first_slot(stream), Self::further_slot(stream, me)];
        let mut own = own.into_iter().filter(of_stream);
        let own = own.find(|&index| slots[index].owned_by(me).is_some());
        // As `with` looks for it.
        let slot = own.or_else(|| {
            let first = Self::first_slot(stream);
            slots[first].header().is_shared().then_some(first).filter(of_stream)
        })?;
        self.with_as(me, stream, |cache, _| cache.may_have_spans())?.then_some(slot)
    }

    /// Takes the span into the cache that [may have](Self::slot_for_span) one, and hands out its
    /// first `size` bytes. A span that leaves for it goes `to` the heap. If another thread is
    /// inside the cache, returns `None` and takes no span.
    #[cold]
    pub(crate) fn add_span(
        &self,
        stream: StreamId,
        span: &mut Option<Span>,
        size: u64,
        mut to: impl FnMut(StreamId, Flushed),
    ) -> Option<u64> {
        let range = span.as_ref()?.range();
        self.spans.fetch_add(1, Ordering::Relaxed);
        self.span_filter.add(range);
        let added = self.with(stream, |cache, counters| cache.add_span(span, size, counters));
        let Some((address, replaced)) = added.flatten() else {
            self.forget_span(range);
            return None;
        };
        if let Some(replaced) = replaced {
            self.to_heap(stream, replaced, &mut to);
        }
        Some(address)
    }

    /// Returns the span in this slot that an address lies in to the heap. Its parts are blocks of
    /// their own then.
    #[cold]
    pub(crate) fn dissolve(
        &self,
        slot: usize,
        address: u64,
        mut to: impl FnMut(StreamId, Flushed),
    ) {
        self.edit([slot], |cache, counters| {
            if let Some(span) = cache.remove_span_at(address, counters) {
                self.to_heap(cache.stream(), span, &mut to);
            }
        });
    }

    /// Returns all spans to the heap.
    #[cold]
    pub(crate) fn dissolve_all(&self, mut to: impl FnMut(StreamId, Flushed)) {
        if self.has_spans() {
            self.edit(self.used.iter(), |cache, counters| {
                let stream = cache.stream();
                cache.remove_spans(counters, |span| self.to_heap(stream, span, &mut to));
            });
        }
    }

    /// Gives a span `to` the heap, and counts it no longer.
    pub(super) fn to_heap(
        &self,
        stream: StreamId,
        span: Span,
        to: &mut impl FnMut(StreamId, Flushed),
    ) {
        let range = span.range();
        to(stream, Flushed::Span(span));
        self.forget_span(range);
    }

    fn forget_span(&self, range: (u64, u64)) {
        self.span_filter.remove(range);
        self.spans.fetch_sub(1, Ordering::Relaxed);
    }
}
