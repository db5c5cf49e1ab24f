//! Spans, as the pool's lock protects them: which there are, and whether they would pay.
//!
//! A [span](super::caches::Span) is memory of one thread. So one is made only where threads wait
//! for each other at the lock, and of memory that is free. It goes back when a request would make
//! the pool grow or fail, as all that caches hold, and when another thread or stream frees a part.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use rmm_core::{DevicePtr, StreamId, StreamRef};

use super::caches::{Class, Flushed, Part, Span};
use super::core::PoolCore;
use super::heap::{GRANULE, ListId};
use super::policy::SpanPolicy;
use super::state::PoolState;

/// The most bytes of a span: some dozens of large blocks.
const MOST: u64 = 256 << 20;

/// A span is this part of the pool at most, unless it has to be larger for the request.
const FRACTION: u64 = 64;

/// A span holds so many blocks of the request's size at least.
const BLOCKS: u64 = 4;

/// A span may take this part of what is free.
const FRACTION_OF_FREE: u64 = 2;

/// Operations on the heap over which waits for the lock are counted.
const WINDOW: u64 = 256;

/// The lock is contended if one operation in so many waits for it.
const OPERATIONS_A_WAIT: u64 = 64;

/// Operations on the heap before the next span, once memory was short or another thread has freed a
/// part: a span is dissolved then, which costs as much as many of them.
const PAUSE: u64 = 4096;

/// The spans of a pool.
#[derive(Debug, Default)]
pub(super) struct SpanTable {
    /// Their bytes, and the slots of their caches, by their addresses.
    spans: BTreeMap<u64, (u64, usize)>,
    is_contended: bool,
    /// The operations on the heap, and the waits for its lock, when that was found out.
    seen: (u64, u64),
    /// The operations on the heap from which on a span may be made.
    not_before: u64,
}

impl SpanTable {
    /// The slot of the span that an address lies in.
    #[inline]
    fn slot_at(&self, address: u64) -> Option<usize> {
        if self.spans.is_empty() {
            return None;
        }
        let (start, (size, slot)) = self.spans.range(..=address).next_back()?;
        (address - start < *size).then_some(*slot)
    }

    /// Whether threads wait for each other, after so many operations and waits in all.
    fn is_contended(&mut self, operations: u64, waits: u64) -> bool {
        let (seen_operations, seen_waits) = self.seen;
        let more = operations.wrapping_sub(seen_operations);
        if more >= WINDOW {
            self.is_contended = waits.wrapping_sub(seen_waits) * OPERATIONS_A_WAIT >= more;
            self.seen = (operations, waits);
        }
        self.is_contended
    }
}

impl PoolState {
    /// Makes no span for a while.
    pub(super) fn pause_spans(&mut self) {
        self.span_table.not_before = self.operations() + PAUSE;
    }

    /// Takes back what left a cache into its stream's list, at its current point.
    pub(super) fn take_back_flushed(&mut self, stream: StreamId, flushed: Flushed) {
        match flushed {
            Flushed::Block(address) => {
                self.take_back_cached(stream, address);
            }
            Flushed::Span(span) => self.dissolve(stream, &span),
        }
    }

    /// Makes the parts of a span blocks of their own, and takes the free ones back.
    fn dissolve(&mut self, stream: StreamId, span: &Span) {
        let Some(first) = span.parts().first() else { return };
        let known = self.span_table.spans.remove(&first.address);
        debug_assert!(known.is_some(), "a span is in the table as long as in a cache");
        let mut node = self.forget_live(DevicePtr(first.address));
        for &Part { address, size, is_free } in span.parts() {
            let part = node.expect("a span is a live block, and its parts tile it");
            node = self.heap.split_live(part, size);
            self.insert_live(DevicePtr(address), part);
            if is_free {
                self.take_back_cached(stream, address);
            }
        }
    }
}

impl PoolCore {
    /// Takes a span from the heap into this thread's cache for the stream, and hands out its first
    /// part, if that pays.
    #[inline]
    pub(super) fn take_span(
        &self,
        state: &mut PoolState,
        stream: StreamRef<'_>,
        list: ListId,
        class: Class,
    ) -> Option<DevicePtr> {
        if !class.is_large() {
            return None;
        }
        let pays = match self.growth.spans {
            SpanPolicy::Contended => {
                let operations = state.operations();
                state.span_table.is_contended(operations, self.waits())
                    && operations >= state.span_table.not_before
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
        let reserved = state.heap.reserved();
        let bytes = (reserved / FRACTION / GRANULE * GRANULE).min(MOST).max(BLOCKS * size);
        let free = reserved - state.heap.live();
        if bytes > MOST.min(free / FRACTION_OF_FREE) || self.caches.are_passed_by() {
            return None;
        }
        self.make_cache(state, stream);
        let slot = self.caches.slot_for_span(stream.id())?;
        let Some(node) = state.take_free(list, bytes) else {
            state.pause_spans();
            return None;
        };
        let start = state.address(node);
        state.insert_live(start, node);
        state.span_table.spans.insert(start.0, (bytes, slot));
        let added = self.caches.add_span(stream.id(), (start.0, bytes), size);
        if added.is_none() {
            state.span_table.spans.remove(&start.0);
            state.take_back_cached(stream.id(), start.0);
        }
        added.map(DevicePtr)
    }

    /// Dissolves the span that the address lies in, if there is one: then the block there is one of
    /// the heap.
    #[inline]
    pub(super) fn dissolve_span_at(&self, state: &mut PoolState, pointer: DevicePtr) {
        if let Some(slot) = state.span_table.slot_at(pointer.0) {
            self.dissolve_span_in(state, slot, pointer.0);
        }
    }

    #[cold]
    fn dissolve_span_in(&self, state: &mut PoolState, slot: usize, address: u64) {
        state.pause_spans();
        self.caches.dissolve(slot, address, |stream, flushed| {
            state.take_back_flushed(stream, flushed);
        });
    }
}
