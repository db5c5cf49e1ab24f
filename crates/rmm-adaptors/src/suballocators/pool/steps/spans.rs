//! Spans, as the pool's lock protects them: which there are, and whether they would pay.
//!
//! A [span](crate::suballocators::pool::caches::Span) is memory of one thread. So by default one is
//! made only where threads wait for each other at the lock, and of memory that is free. It goes
//! back when a request climbs the ladder, as all that caches hold, and when another thread or
//! stream frees a part.

#![forbid(unsafe_code)]

use rmm_core::{CaptureScope, DevicePtr, StreamId, StreamRef};

use crate::suballocators::pool::caches::{CachedBlock, Class, Flushed, Part, Span, Take};
use crate::suballocators::pool::state::core::PoolCore;
use crate::suballocators::pool::state::pool_state::PoolState;
use crate::suballocators::pool::values::policy::SpanPolicy;
use crate::suballocators::pool::values::units::{GRANULE, ListId};

/// The most bytes of a span: some dozens of large blocks.
const MOST_BYTES: u64 = 256 << 20;

/// A span is this part of the pool at most, unless it has to be larger for the request.
const SPAN_FRACTION: u64 = 64;

/// The fewest blocks of the request's size that a span holds ...
const FEWEST_BLOCKS: u64 = 4;

/// ... and the most: it would run out of parts.
const MOST_BLOCKS: u64 = 64;

/// This part of the pool is in no span.
const FRACTION_LEFT: u64 = 4;

/// A new one may have this part of what is free.
const FRACTION_OF_FREE: u64 = 2;

/// Operations on the heap before the next span, once memory was short or another thread has freed a
/// part: a span is dissolved then, which costs as much as many of them.
const PAUSE: u64 = 4096;

impl PoolState {
    /// Makes no span for a while.
    pub(crate) fn pause_spans(&mut self) {
        self.span_table.not_before = self.operations() + PAUSE;
    }

    /// Takes back what left a cache into its stream's list, at its current point.
    pub(crate) fn take_back_flushed(&mut self, stream: StreamId, flushed: Flushed) {
        match flushed {
            Flushed::Block(block) => {
                self.take_back_cached(stream, block);
            }
            Flushed::Span(span) => self.split_span(stream, &span),
        }
    }

    /// Makes the parts of a span blocks of their own, and takes the free ones back.
    fn split_span(&mut self, stream: StreamId, span: &Span) {
        let (start, size) = span.range();
        self.span_table.remove(start);
        let mut left = self.forget_live(DevicePtr(start));
        let mut cut = |state: &mut Self, size: u64| {
            let part = left.expect("a span is a live block, and its parts tile it");
            left = state.heap.split_live(part, size);
            part
        };
        let idle_from = span.idle_from().unwrap_or(start + size);
        for &Part { address, size, is_free } in span.parts() {
            let used = size.min(idle_from.saturating_sub(address));
            if used > 0 {
                let part = cut(self, used);
                self.live.insert(DevicePtr(address), part);
                if is_free {
                    self.take_back_cached(stream, CachedBlock { address, size: used });
                }
            }
            if used < size {
                let untouched = cut(self, size - used);
                self.heap.free(untouched, ListId::ANY_STREAM, 0);
            }
        }
    }
}

impl PoolCore {
    /// Takes a span from the heap into this thread's cache for the stream, and hands out its first
    /// part, if that pays. `missed` is the class of the request, and the cache's answer.
    #[inline]
    pub(crate) fn take_span(
        &self,
        state: &mut PoolState,
        stream: StreamRef<'_>,
        list: ListId,
        (class, missed): (Class, Take),
    ) -> Option<DevicePtr> {
        // A thread without a cache gets one first.
        if !class.is_large() || missed == Take::NotHere {
            return None;
        }
        let pays = match self.growth.spans {
            SpanPolicy::Contended => {
                self.caches.is_contended() && state.operations() >= state.span_table.not_before
            }
            SpanPolicy::Always => true,
            SpanPolicy::Off => false,
        };
        if pays { self.take_span_for(state, stream, list, class.block_size()) } else { None }
    }

    #[cold]
    fn take_span_for(
        &self,
        state: &mut PoolState,
        stream: StreamRef<'_>,
        list: ListId,
        size: u64,
    ) -> Option<DevicePtr> {
        // A request on its way through the ladder may need what is free.
        let is_needed = state.away > 0 || self.state.patient() > 0 || CaptureScope::is_announced();
        if is_needed || size > MOST_BYTES / FEWEST_BLOCKS || self.caches.are_passed_by() {
            return None;
        }
        let reserved = state.heap.reserved();
        let part = (reserved / SPAN_FRACTION / GRANULE * GRANULE).min(MOST_BLOCKS * size);
        let bytes = part.min(MOST_BYTES).max(FEWEST_BLOCKS * size);
        let free = reserved - state.heap.live();
        let most = reserved - reserved / FRACTION_LEFT;
        let left = most.saturating_sub(state.span_table.bytes);
        if bytes > left.min(free / FRACTION_OF_FREE) {
            return None;
        }
        // Where large blocks go past the caches the thread may have none.
        self.make_cache(state, stream);
        let slot = self.caches.slot_for_span(stream.id())?;
        let idle = state.heap.take(ListId::ANY_STREAM, bytes);
        let Some(node) = idle.or_else(|| state.take_free(list, bytes)) else {
            state.pause_spans();
            return None;
        };
        let block = state.heap.block(node);
        let start = DevicePtr(state.base(block.segment).0 + block.offset);
        state.live.insert(start, node);
        state.note_live();
        state.span_table.insert(start.0, bytes, slot);
        let mut span = Some(Span::new(start.0, bytes, idle.is_some()));
        let added = self.caches.add_span(stream.id(), &mut span, size, |stream, flushed| {
            state.take_back_flushed(stream, flushed);
        });
        if let Some(span) = span {
            state.split_span(stream.id(), &span);
        }
        added.map(DevicePtr)
    }

    /// Dissolves all spans.
    pub(crate) fn dissolve_all_spans(&self, state: &mut PoolState) {
        self.caches.dissolve_all(|stream, flushed| {
            state.take_back_flushed(stream, flushed);
        });
    }

    /// Dissolves the span that the address lies in, if there is one: then the block there is one of
    /// the heap.
    #[inline]
    pub(crate) fn dissolve_span_at(&self, state: &mut PoolState, pointer: DevicePtr) {
        if let Some(slot) = state.span_table.slot_at(pointer.0) {
            self.dissolve_found_span(state, slot, pointer.0);
        }
    }

    #[cold]
    fn dissolve_found_span(&self, state: &mut PoolState, slot: usize, address: u64) {
        state.pause_spans();
        self.caches.dissolve(slot, address, |stream, flushed| {
            state.take_back_flushed(stream, flushed);
        });
    }
}
