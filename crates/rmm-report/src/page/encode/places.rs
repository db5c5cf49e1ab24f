//! Places on the map: addresses without the gaps between the ranges that are used.

use crate::page::view::{ViewBlock, ViewSegment};

/// The most pages of a map; where there are more, pages are larger.
const MOST: usize = 1 << 18;
/// The smallest and the largest page, as powers of two.
const SMALLEST: u32 = 12;
const LARGEST: u32 = 50;
/// A map has at least this number of pages, if its blocks have.
const FEW: usize = 64;

/// The pages that blocks and memory are in, in the order of their addresses.
#[derive(Debug)]
pub(super) struct Places {
    /// The unit of places: addresses and sizes of memory are multiples of it.
    pub(super) unit: u64,
    /// Bytes of a page.
    pub(super) page: u64,
    /// Numbers of pages, ascending.
    pages: Vec<u64>,
}

impl Places {
    /// The pages of some blocks and segments.
    pub(super) fn of(blocks: &[&ViewBlock], segments: &[ViewSegment]) -> Self {
        let blocks = blocks.iter().map(|block| (block.address, block.size.max(1)));
        let ranges: Vec<(u64, u64)> =
            blocks.chain(segments.iter().map(|segment| (segment.address, segment.size))).collect();
        let bits = ranges.iter().fold(0, |bits, (address, _)| bits | address);
        let unit = if bits.is_multiple_of(256) { 256 } else { 1 << bits.trailing_zeros().min(4) };
        // Smaller pages where a few large ones would be all.
        let mut exponent = 21;
        let mut pages = pages(&ranges, exponent, MOST);
        while exponent > SMALLEST && pages.as_ref().is_some_and(|pages| pages.len() < FEW) {
            exponent -= 3;
            pages = self::pages(&ranges, exponent, MOST);
        }
        while pages.is_none() && exponent < LARGEST {
            exponent += 3;
            pages = self::pages(&ranges, exponent, MOST);
        }
        Self { unit, page: 1 << exponent, pages: pages.unwrap_or_default() }
    }

    /// Where an address is, in units.
    pub(super) fn of_address(&self, address: u64) -> u64 {
        let number = address / self.page;
        let rank = self.pages.partition_point(|&page| page < number) as u64;
        rank * (self.page / self.unit) + address % self.page / self.unit
    }

    /// The numbers of the pages, as differences.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u64> {
        let mut previous = 0;
        self.pages.iter().map(move |&page| {
            let delta = page - previous;
            previous = page;
            delta
        })
    }
}

/// The pages of ranges, if they are not too many.
fn pages(ranges: &[(u64, u64)], exponent: u32, most: usize) -> Option<Vec<u64>> {
    let span = |&(address, size): &(u64, u64)| {
        (address >> exponent, address.saturating_add(size - size.min(1)) >> exponent)
    };
    let mut spans: Vec<(u64, u64)> = ranges.iter().map(span).collect();
    spans.sort_unstable();
    spans.dedup();
    let mut pages: Vec<u64> = Vec::new();
    for (first, last) in spans {
        let first = pages.last().map_or(first, |&known: &u64| first.max(known + 1));
        if last < first {
            continue;
        }
        if last - first >= most as u64 || pages.len() >= most {
            return None;
        }
        pages.extend(first..=last);
    }
    Some(pages)
}
