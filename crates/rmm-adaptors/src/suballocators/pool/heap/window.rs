//! The cheapest range for a block in a run of free blocks and gaps: a sliding window over the run.

#![forbid(unsafe_code)]

/// A free block or a gap in a run of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) offset: u64,
    /// Bytes; those of a gap are whole pages.
    pub(super) size: u64,
    pub(super) is_gap: bool,
}

impl Span {
    /// How much of it a window takes that still needs `needed` bytes: all of a free block, whole
    /// pages of a gap.
    fn taken(&self, needed: u64, page: u64) -> u64 {
        if self.is_gap { needed.next_multiple_of(page).min(self.size) } else { self.size }
    }

    /// How much of that is unmapped.
    fn missing(&self, taken: u64) -> u64 {
        if self.is_gap { taken } else { 0 }
    }
}

/// A range of a segment, and how many of its bytes are unmapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Window {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) missing: u64,
}

/// Spans `first..last` of a run, with their bytes and how many of these are unmapped.
#[derive(Clone, Copy, Debug, Default)]
struct Slice {
    first: usize,
    last: usize,
    bytes: u64,
    missing: u64,
}

impl Slice {
    /// Adds the part behind it.
    fn push(&mut self, run: &[Span]) {
        let part = &run[self.last];
        self.last += 1;
        self.bytes += part.size;
        self.missing += part.missing(part.size);
    }

    /// Removes its first part.
    fn pop(&mut self, run: &[Span]) {
        let part = &run[self.first];
        self.first += 1;
        self.bytes -= part.size;
        self.missing -= part.missing(part.size);
    }
}

/// The range in a run for a block of `size` bytes, at least one, that needs the least memory to be
/// mapped, and of equal ranges the first. It contains each free block completely or not at all, and
/// whole pages of gaps.
///
/// A best window starts where a span starts, or ends where a free block ends. For either kind, the
/// other border moves up as this one does: O(spans).
pub(super) fn best_window(run: &[Span], size: u64, page: u64) -> Option<Window> {
    let mut best: Option<Window> = None;
    let mut consider = |window: Window| {
        if best.is_none_or(|best| window.missing < best.missing) {
            best = Some(window);
        }
    };
    // The spans completely in the window that starts with a span: all but the last.
    let mut from = Slice::default();
    // The spans completely in the window that ends with a span: all but the first.
    let mut up_to = Slice::default();
    for (index, part) in run.iter().enumerate() {
        // From the start of a span upwards.
        while let Some(next) = run.get(from.last)
            && from.bytes + next.size < size
        {
            from.push(run);
        }
        if let Some(last) = run.get(from.last) {
            let taken = last.taken(size - from.bytes, page);
            let missing = from.missing + last.missing(taken);
            consider(Window { start: part.offset, end: last.offset + taken, missing });
        }
        if from.last > index {
            from.pop(run);
        } else {
            // A span that is large enough by itself.
            from = Slice { first: index + 1, last: index + 1, ..Slice::default() };
        }
        // From the end of a free block downwards.
        up_to.push(run);
        while up_to.first <= index && up_to.bytes >= size {
            up_to.pop(run);
        }
        if !part.is_gap
            && let Some(first) = up_to.first.checked_sub(1).map(|first| &run[first])
        {
            let taken = first.taken(size - up_to.bytes, page);
            let missing = up_to.missing + first.missing(taken);
            let start = first.offset + first.size - taken;
            consider(Window { start, end: part.offset + part.size, missing });
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PAGE: u64 = 8;

    /// Tries every window: from each part upwards, and from each free block downwards.
    fn best_of_all(run: &[Span], size: u64) -> Option<Window> {
        let mut windows = Vec::new();
        for (index, part) in run.iter().enumerate() {
            let (mut covered, mut missing) = (0, 0);
            for last in &run[index..] {
                let taken = last.taken(size - covered, PAGE);
                missing += last.missing(taken);
                covered += taken;
                if covered >= size {
                    windows.push(Window { start: part.offset, end: last.offset + taken, missing });
                    break;
                }
            }
            let (mut covered, mut missing) = (0, 0);
            for first in run[..=index].iter().rev().take_while(|_| !part.is_gap) {
                let taken = first.taken(size - covered, PAGE);
                missing += first.missing(taken);
                covered += taken;
                if covered >= size {
                    let start = first.offset + first.size - taken;
                    windows.push(Window { start, end: part.offset + part.size, missing });
                    break;
                }
            }
        }
        // The first of the least: `min_by_key` keeps it.
        windows.into_iter().min_by_key(|window| window.missing)
    }

    fn run(parts: &[(u64, bool)]) -> Vec<Span> {
        let mut offset = 0;
        let mut run = Vec::new();
        for &(size, is_gap) in parts {
            run.push(Span { offset, size, is_gap });
            offset += size;
        }
        run
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_window_is_the_best_of_all(
            parts in proptest::collection::vec((1u64..5, 1u64..30, any::<bool>()), 0..24),
            size in 1u64..120,
        ) {
            let part = |(pages, bytes, is_gap)| (if is_gap { pages * PAGE } else { bytes }, is_gap);
            let run = run(&parts.into_iter().map(part).collect::<Vec<_>>());
            prop_assert_eq!(best_window(&run, size, PAGE), best_of_all(&run, size));
        }
    }

    #[test]
    fn a_long_run_is_searched_in_linear_time() {
        // With a step for each pair of parts this would take an hour.
        let parts: Vec<(u64, bool)> = (0..1_000_000).map(|n| (PAGE, n % 2 == 0)).collect();
        let size = 500_000 * PAGE;
        let window = best_window(&run(&parts), size, PAGE);
        assert_eq!(window.map(|window| window.missing), Some(size / 2));
    }
}
