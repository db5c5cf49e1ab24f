//! Spans: large blocks of the heap, parts of which a cache hands out and takes back itself.
//!
//! ```text
//!     heap    | free |------------------- a span: one live block -------------------| live | free |
//!     cache          | part, in use | part, free | part, in use |    part, free     |
//! ```
//!
//! Large blocks come in too many sizes for a cache of freed ones, so that threads that use them
//! meet at the pool's lock. A span serves them by best fit, and coalesces what comes back, without
//! it. All parts are of the cache's stream, which was ordered after all use of the span when it was
//! taken. When a span is [dissolved](super::Caches::dissolve), its parts become blocks of the heap.

#![forbid(unsafe_code)]

/// Upper bound on the parts of a span: a search reads all of them.
const MOST_PARTS: usize = 64;

/// Upper bound on the spans of a cache.
const MOST_SPANS: usize = 16;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Part {
    pub(crate) address: u64,
    pub(crate) size: u64,
    pub(crate) is_free: bool,
}

/// A block of the heap in parts.
#[derive(Debug)]
pub(crate) struct Span {
    /// # Invariant
    /// In the order of their addresses, from the span's first byte to its last. No two that follow
    /// each other are free.
    parts: Vec<Part>,
    start: u64,
    size: u64,
    /// Bytes of the free parts.
    free: u64,
    /// No part of more bytes can be handed out.
    largest: u64,
    /// What lies behind this address was never handed out.
    touched: u64,
    /// Whether no work used it when it was taken.
    was_idle: bool,
}

impl Span {
    /// A block of `size` bytes, one free part. `was_idle`: no work uses it.
    pub(crate) fn new(address: u64, size: u64, was_idle: bool) -> Self {
        let mut parts = Vec::with_capacity(MOST_PARTS);
        parts.push(Part { address, size, is_free: true });
        let (start, touched) = (address, address);
        Self { parts, start, size, free: size, largest: size, touched, was_idle }
    }

    /// Where the free part at its end begins that no work has ever used, if there is one.
    pub(crate) fn idle_from(&self) -> Option<u64> {
        (self.was_idle && self.touched < self.start + self.size).then_some(self.touched)
    }

    /// Where it begins, and its bytes.
    pub(crate) fn range(&self) -> (u64, u64) {
        (self.start, self.size)
    }

    /// Host bytes of each span.
    pub(super) const fn bookkeeping_bytes() -> u64 {
        (size_of::<Self>() + MOST_PARTS * size_of::<Part>()) as u64
    }

    /// Its parts, from the first byte to the last.
    pub(crate) fn parts(&self) -> &[Part] {
        &self.parts
    }

    fn contains(&self, address: u64) -> bool {
        address.wrapping_sub(self.start) < self.size
    }

    /// Hands out a part of `size` bytes: from the smallest free part that has them.
    fn take(&mut self, size: u64) -> Option<u64> {
        if size > self.largest {
            return None;
        }
        let free = self.parts.iter().enumerate().filter(|(_, part)| part.is_free);
        let fits = free.filter(|(_, part)| part.size >= size);
        let Some((index, part)) = fits.min_by_key(|(_, part)| part.size) else {
            self.largest = self.largest_free();
            return None;
        };
        let Part { address, size: whole, .. } = *part;
        if whole > size {
            if self.parts.len() == MOST_PARTS {
                // Until one comes back.
                self.largest = size - 1;
                return None;
            }
            let rest = Part { address: address + size, size: whole - size, is_free: true };
            self.parts.insert(index + 1, rest);
        }
        self.parts[index] = Part { address, size, is_free: false };
        self.free -= size;
        self.touched = self.touched.max(address + size);
        Some(address)
    }

    /// Takes a part back that begins at the address. Returns whether one of `size` bytes does.
    fn put(&mut self, address: u64, size: u64) -> bool {
        let Ok(index) = self.parts.binary_search_by_key(&address, |part| part.address) else {
            return false;
        };
        let part = &mut self.parts[index];
        if part.is_free || part.size != size {
            return false;
        }
        part.is_free = true;
        self.free += size;
        // Then `largest` may be less: there was no room to split a larger part.
        let was_full = self.parts.len() == MOST_PARTS;
        self.coalesce(index + 1);
        let whole = if self.coalesce(index) { index - 1 } else { index };
        self.largest =
            if was_full { self.largest_free() } else { self.largest.max(self.parts[whole].size) };
        true
    }

    fn largest_free(&self) -> u64 {
        let free = self.parts.iter().filter(|part| part.is_free);
        free.map(|part| part.size).max().unwrap_or(0)
    }

    /// Merges a part with the one before, if both are free. Returns whether they were.
    fn coalesce(&mut self, index: usize) -> bool {
        let Some([before, part]) = self.parts.get_mut(index.wrapping_sub(1)..=index) else {
            return false;
        };
        let are_free = before.is_free && part.is_free;
        if are_free {
            before.size += part.size;
            self.parts.remove(index);
        }
        are_free
    }
}

/// The spans of a cache.
#[derive(Debug, Default)]
pub(super) struct Spans {
    spans: Vec<Span>,
    /// Bytes of all free parts.
    free: u64,
}

impl Spans {
    pub(super) fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Bytes of all free parts.
    pub(super) fn free_bytes(&self) -> u64 {
        self.free
    }

    /// Hands out a part of `size` bytes, of the first span that has them.
    pub(super) fn take(&mut self, size: u64) -> Option<u64> {
        let address = self.spans.iter_mut().find_map(|span| span.take(size))?;
        self.free -= size;
        Some(address)
    }

    /// Takes a part back. Returns whether one of `size` bytes begins at the address.
    pub(super) fn put(&mut self, address: u64, size: u64) -> bool {
        let its = self.spans.iter_mut().find(|span| span.contains(address));
        let is_put = its.is_some_and(|span| span.put(address, size));
        self.free += if is_put { size } else { 0 };
        is_put
    }

    /// Takes the span, and hands out its first `size` bytes, if it has them. In the place of the
    /// fullest, which is returned, if there are many.
    pub(super) fn add(
        &mut self,
        span: &mut Option<Span>,
        size: u64,
    ) -> Option<(u64, Option<Span>)> {
        let address = span.as_mut()?.take(size)?;
        let span = span.take()?;
        let mut replaced = None;
        let by_number = self.spans.iter().enumerate();
        if by_number.len() == MOST_SPANS
            && let Some((fullest, _)) = by_number.min_by_key(|(_, span)| span.free)
        {
            let span = self.spans.swap_remove(fullest);
            self.free -= span.free;
            replaced = Some(span);
        }
        self.free += span.free;
        self.spans.push(span);
        Some((address, replaced))
    }

    /// Removes the span that an address lies in, which another thread or stream frees.
    pub(super) fn remove_at(&mut self, address: u64) -> Option<Span> {
        let index = self.spans.iter().position(|span| span.contains(address))?;
        let span = self.spans.swap_remove(index);
        self.free -= span.free;
        Some(span)
    }

    /// Removes all.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Span> + '_ {
        self.free = 0;
        self.spans.drain(..)
    }

    #[cfg(test)]
    /// Whether there is a free part with this address.
    pub(super) fn contains(&self, address: u64) -> bool {
        let mut parts = self.spans.iter().flat_map(Span::parts);
        parts.any(|part| part.is_free && part.address == address)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_span_that_had_too_many_parts_hands_out_all_that_is_free() {
        let mut span = Span::new(0, 1000, false);
        (0..63).for_each(|address| assert_eq!(span.take(1), Some(address)));
        assert_eq!(span.take(5), None, "it has 64 parts, of which the last is free");
        assert!(span.put(0, 1) && span.put(1, 1));
        assert_eq!(span.take(5), Some(63), "two parts became one");
    }

    #[test]
    fn a_part_comes_from_the_smallest_that_has_the_bytes_and_coalesces() {
        let mut span = Span::new(1000, 100, false);
        let parts: Vec<u64> = [30, 10, 20, 40].iter().filter_map(|&size| span.take(size)).collect();
        assert_eq!(parts, [1000, 1030, 1040, 1060]);
        assert_eq!((span.take(1), span.free), (None, 0));
        assert!(span.put(1000, 30) && span.put(1040, 20));
        assert_eq!(span.take(15), Some(1040), "20 bytes fit better than 30");
        assert!(!span.put(1000, 30), "it is free already");
        assert!(!span.put(1030, 11) && !span.put(1031, 10), "no such part");
        assert!(span.put(1030, 10) && span.put(1040, 15) && span.put(1060, 40));
        assert_eq!(span.parts(), [Part { address: 1000, size: 100, is_free: true }]);
    }

    #[test]
    fn a_span_that_an_address_lies_in_is_found_among_others() {
        let mut spans = Spans::default();
        let mut add = |start, size| spans.add(&mut Some(Span::new(start, 100, false)), size);
        assert_eq!(add(1000, 101).map(|added| added.0), None);
        assert_eq!(add(1000, 100).map(|added| added.0), Some(1000));
        assert_eq!(add(2000, 60).map(|added| added.0), Some(2000));
        assert_eq!((spans.take(60), spans.free_bytes()), (None, 40));
        assert!(spans.remove_at(999).is_none() && spans.remove_at(1100).is_none());
        assert_eq!(spans.remove_at(2099).map(|span| span.range()), Some((2000, 100)));
        assert!(spans.put(1000, 100) && !spans.put(2000, 60));
        assert_eq!(spans.free_bytes(), 100);
    }

    #[test]
    fn the_fullest_of_many_gives_way_to_a_new_one() {
        let mut spans = Spans::default();
        let sizes = (1..=MOST_SPANS as u64).map(|number| 10 + (number * 7) % 17);
        for (number, size) in (0..).zip(sizes.clone()) {
            let added = spans.add(&mut Some(Span::new(1000 * number, 100, false)), size);
            assert!(added.is_some_and(|(_, replaced)| replaced.is_none()));
        }
        let added = spans.add(&mut Some(Span::new(500, 100, false)), 10).expect("it has them");
        let replaced = added.1.expect("there are many");
        assert_eq!(Some(100 - replaced.free), sizes.max());
        assert_eq!(added.0, 500);
    }

    #[test]
    fn what_was_never_handed_out_stays_idle() {
        let mut span = Span::new(1000, 100, true);
        assert_eq!(span.idle_from(), Some(1000));
        assert_eq!((span.take(30), span.take(20)), (Some(1000), Some(1030)));
        assert!(span.put(1030, 20) && span.put(1000, 30));
        assert_eq!(span.idle_from(), Some(1050));
        assert_eq!((span.take(100), span.idle_from()), (Some(1000), None));
        assert_eq!(Span::new(1000, 100, false).idle_from(), None);
    }

    proptest! {
        #[test]
        fn parts_tile_the_span(calls in prop::collection::vec((1_u64..64, any::<prop::sample::Index>()), 1..200)) {
            let (start, size) = (4096, 1000);
            let mut span = Span::new(start, size, true);
            let mut used: Vec<(u64, u64)> = Vec::new();
            for (wanted, which) in calls {
                if wanted % 3 == 0 && !used.is_empty() {
                    let (address, size) = used.swap_remove(which.index(used.len()));
                    prop_assert!(span.put(address, size));
                } else if let Some(address) = span.take(wanted) {
                    used.push((address, wanted));
                }
                let mut next = start;
                let mut was_free = false;
                for part in span.parts() {
                    prop_assert_eq!(part.address, next);
                    prop_assert!(!(was_free && part.is_free));
                    prop_assert!(part.is_free || used.contains(&(part.address, part.size)));
                    (next, was_free) = (part.address + part.size, part.is_free);
                }
                prop_assert_eq!(next, start + size);
                let in_use: u64 = used.iter().map(|(_, size)| size).sum();
                prop_assert_eq!(span.free, size - in_use);
                let free = span.parts().iter().filter(|part| part.is_free);
                let largest = free.map(|part| part.size).max().unwrap_or(0);
                prop_assert!(largest <= span.largest || span.parts().len() == MOST_PARTS);
                let idle_from = span.idle_from().unwrap_or(start + size);
                prop_assert!(used.iter().all(|(address, size)| address + size <= idle_from));
                prop_assert_eq!(span.parts().iter().filter(|part| !part.is_free).count(), used.len());
            }
        }
    }
}
