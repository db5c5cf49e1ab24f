//! The spans of a pool: which there are, and whose.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;

/// The spans of a pool.
#[derive(Debug, Default)]
pub(crate) struct SpanTable {
    /// Their bytes, and the slots of their caches, by their addresses.
    spans: BTreeMap<u64, (u64, usize)>,
    /// Bytes of all.
    pub(crate) bytes: u64,
    /// The operations on the heap from which on a span may be made.
    pub(crate) not_before: u64,
}

impl SpanTable {
    pub(crate) fn insert(&mut self, start: u64, bytes: u64, slot: usize) {
        self.bytes += bytes;
        self.spans.insert(start, (bytes, slot));
    }

    pub(crate) fn remove(&mut self, start: u64) {
        let known = self.spans.remove(&start);
        debug_assert!(known.is_some(), "a span is in the table as long as in a cache");
        self.bytes -= known.map_or(0, |(bytes, _)| bytes);
    }

    /// Host bytes.
    pub(crate) fn bookkeeping_bytes(&self) -> u64 {
        // A tree's nodes are a quarter empty or less, mostly.
        (self.spans.len() * size_of::<(u64, (u64, usize))>() * 4 / 3) as u64
    }

    /// The slot of the span that an address lies in.
    #[inline]
    pub(crate) fn slot_at(&self, address: u64) -> Option<usize> {
        if self.spans.is_empty() {
            return None;
        }
        let (start, (size, slot)) = self.spans.range(..=address).next_back()?;
        (address - start < *size).then_some(*slot)
    }
}
