//! How much a pool asks upstream for, and how much it retains.

#![forbid(unsafe_code)]

use super::policy::{GrowthPolicy, PoolPreset, ReleasePolicy, SpanPolicy};
use super::units::GRANULE;

/// The granularity of physical memory.
const PAGE: u64 = 2 << 20;
/// Upper bound on growth beyond a request.
const LARGEST_STEP: u64 = 256 << 20;

/// Upper bound on in-place growth beyond what is missing.
const LARGEST_EXTENSION: u64 = 256 << 20;
/// The same where calls count more than bytes.
const LARGEST_DOUBLING: u64 = 1 << 30;
/// Upper bound on the bytes mapped by one call, in most requests.
const LARGEST_PIECE: u64 = 128 << 20;
/// The same in a compact pool.
const LARGEST_COMPACT_PIECE: u64 = 32 << 20;
/// The most pieces that are mapped for one request, about a millisecond's.
const MOST_PIECES: u64 = 24;

/// What a pool keeps beyond the peak use where memory can be extended: a twenty-first, so less
/// than 5 %.
const SURPLUS_FRACTION: u64 = 21;
/// The least that it keeps beyond, in small pools.
const LEAST_SURPLUS: u64 = 8 << 20;
/// While a program loads what it needs, small pools keep an eighth, up to this many bytes.
const LARGEST_LOADING_EIGHTH: u64 = 32 << 20;

/// Upper bound on one request to upstream: a layout holds no more.
const MOST: u64 = isize::MAX as u64;

/// How a program uses a pool that grows in place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pace {
    /// No block was ever freed into the heap: the program loads what it needs.
    Loading,
    /// Some were.
    Steady,
}

/// The limits of a pool, and the size of its steps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Growth {
    pub(crate) initial_size: u64,
    /// Up to here the pool grows before it makes a stream wait, if the hard limit is not lower.
    pub(crate) soft_limit: u64,
    pub(crate) policy: GrowthPolicy,
    pub(crate) preset: PoolPreset,
    pub(crate) spans: SpanPolicy,
    pub(crate) release: ReleasePolicy,
    /// The size of all blocks, a multiple of the granule, if they are all of one size.
    pub(crate) block: Option<u64>,
    /// The granularity of upstream, a power of two of at least [`GRANULE`]: it rounds requests up
    /// to this, so every request of the pool is a multiple.
    pub(crate) page: u64,
    /// Whether the pool grows in place: its upstream has the interface for it, and blocks may span
    /// two upstream blocks.
    pub(crate) extends: bool,
    /// The size of each segment, a multiple of the page, if it was set.
    pub(crate) segment: Option<u64>,
    /// Whether segments stay until the pool's end.
    pub(crate) is_pinned: bool,
}

impl Growth {
    /// The unit of all block sizes.
    fn unit(&self) -> u64 {
        self.block.unwrap_or(GRANULE)
    }

    /// The fewest bytes that upstream can be asked for to have `bytes` bytes.
    pub(crate) fn whole_pages(&self, bytes: u64) -> u64 {
        bytes.checked_next_multiple_of(self.page).unwrap_or(bytes)
    }

    /// The most bytes that upstream can be asked for, within the limit, when `held` are reserved.
    /// They hold whole blocks, of which the last may end within a page.
    pub(crate) fn room(&self, held: u64, limit: u64) -> u64 {
        let pages = limit.saturating_sub(held).min(MOST) / self.page * self.page;
        self.whole_pages(pages / self.unit() * self.unit())
    }

    /// The bytes to ask for, in whole pages, when `held` are reserved and `needed` are needed, or
    /// `None` if the limit leaves no room.
    pub(crate) fn chunk_size(&self, held: u64, needed: u64, limit: u64) -> Option<u64> {
        let room = self.room(held, limit);
        if needed > room {
            return None;
        }
        let wanted = match self.policy {
            GrowthPolicy::Geometric => {
                let step = (held / 8).clamp(PAGE, LARGEST_STEP);
                needed.max(step).checked_next_multiple_of(PAGE)
            }
            GrowthPolicy::FixedStep(step) => needed.checked_next_multiple_of(step),
            GrowthPolicy::Exact => Some(needed),
        };
        Some(self.whole_pages(wanted.unwrap_or(needed)).min(room))
    }

    /// The bytes to map for in-place growth, in whole pages, when `held` are reserved and `missing`
    /// are needed, or `None` if the limit leaves no room. Steps are small: they are as cheap as
    /// large ones, and what they add is contiguous with the rest.
    pub(crate) fn extension(&self, held: u64, missing: u64, limit: u64, pace: Pace) -> Option<u64> {
        let room = self.room(held, limit);
        let missing = self.whole_pages(missing);
        if missing > room {
            return None;
        }
        let wanted = match (self.policy, self.preset) {
            (GrowthPolicy::FixedStep(step), _) => missing.checked_next_multiple_of(step),
            (GrowthPolicy::Exact, _) | (GrowthPolicy::Geometric, PoolPreset::Compact) => None,
            (GrowthPolicy::Geometric, PoolPreset::LowLatency) => {
                Some(missing.max(held.clamp(PAGE, LARGEST_DOUBLING)))
            }
            (GrowthPolicy::Geometric, PoolPreset::Throughput | PoolPreset::Deterministic) => {
                let ahead = match pace {
                    Pace::Loading => loading_surplus(held),
                    Pace::Steady => held / 64,
                };
                Some(missing.max(ahead.clamp(PAGE, LARGEST_EXTENSION)))
            }
        };
        Some(wanted.map_or(missing, |bytes| self.whole_pages(bytes)).min(room))
    }

    /// Upper bound on the bytes of a piece when `held` are reserved and `missing` are mapped: large
    /// pieces take fewer calls, small ones are idle more often.
    pub(crate) fn piece_size(&self, held: u64, missing: u64) -> u64 {
        let page = self.page;
        if let Some(segment) = self.segment {
            return segment;
        }
        let most = match self.preset {
            PoolPreset::Compact => (held / 128).min(LARGEST_COMPACT_PIECE),
            // A small pool is short of whole pieces sooner.
            PoolPreset::Throughput | PoolPreset::Deterministic if held < 1 << 30 => held / 64,
            PoolPreset::Throughput | PoolPreset::Deterministic => (held / 32).min(LARGEST_PIECE),
            PoolPreset::LowLatency => missing,
        };
        (most / page * page).max((missing / MOST_PIECES).next_multiple_of(page)).max(page)
    }

    /// Upper bound on the bytes of a piece while a program loads what it needs: that stays.
    /// Otherwise as [`piece_size`](Self::piece_size).
    pub(crate) fn coarse_piece_size(&self, held: u64, missing: u64) -> u64 {
        // What does not stay is released in whole pieces.
        let has_size = self.segment.is_some();
        if has_size || self.preset == PoolPreset::Compact || self.release != ReleasePolicy::Never {
            return self.piece_size(held, missing);
        }
        // A step may be a little more than the surplus of what is held before it.
        let step = loading_surplus(held);
        let most = (step + step / 8).min(LARGEST_EXTENSION) / self.page * self.page;
        self.piece_size(held, missing).max(most)
    }

    /// The bytes that the pool retains for a program whose peak was `peak`: half as much again (or
    /// none with the compact preset), and the initial size, which may still be needed.
    pub(crate) fn retain_target(&self, peak: u64) -> u64 {
        let more = if self.preset == PoolPreset::Compact { 0 } else { peak / 2 };
        peak.saturating_add(more).saturating_add(self.initial_size)
    }

    /// The bytes that a pool over memory that can be extended retains for a program whose peak was
    /// `peak`: it fragments less, and pieces go back from anywhere.
    pub(crate) fn retain_target_extendable(&self, peak: u64, pace: Pace) -> u64 {
        peak.saturating_add(self.surplus(peak, pace)).saturating_add(self.initial_size)
    }

    /// What [`retain_target_extendable`](Self::retain_target_extendable) adds to the peak.
    fn surplus(&self, peak: u64, pace: Pace) -> u64 {
        match (self.preset, pace) {
            (PoolPreset::Compact, _) => 0,
            (PoolPreset::LowLatency, _) => peak,
            (PoolPreset::Throughput | PoolPreset::Deterministic, Pace::Loading) => {
                loading_surplus(peak).max(LEAST_SURPLUS)
            }
            (PoolPreset::Throughput | PoolPreset::Deterministic, Pace::Steady) => {
                (peak / SURPLUS_FRACTION).max(LEAST_SURPLUS)
            }
        }
    }

    /// The bytes up to which the pool may grow, where memory can be extended, when to stay below
    /// [`retain_target_extendable`](Self::retain_target_extendable) would take many calls.
    pub(crate) fn retain_limit(&self, peak: u64, pace: Pace) -> u64 {
        let target = self.retain_target_extendable(peak, pace);
        match self.preset {
            PoolPreset::Compact | PoolPreset::LowLatency => target,
            PoolPreset::Throughput | PoolPreset::Deterministic => {
                target.max(peak.saturating_add(peak / 5).saturating_add(self.initial_size))
            }
        }
    }
}

/// What a pool maps and keeps beyond what a program that loads has used: one step and one piece,
/// since a step costs 50 us whatever its size.
fn loading_surplus(bytes: u64) -> u64 {
    (bytes / SURPLUS_FRACTION).max((bytes / 8).min(LARGEST_LOADING_EIGHTH))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn growth(policy: GrowthPolicy, block: Option<u64>) -> Growth {
        Growth {
            initial_size: 0,
            soft_limit: u64::MAX,
            policy,
            preset: PoolPreset::Throughput,
            spans: SpanPolicy::Off,
            release: ReleasePolicy::Never,
            block,
            page: GRANULE,
            extends: false,
            segment: None,
            is_pinned: false,
        }
    }

    #[test]
    fn steps_are_pages_within_the_limit() {
        let growth = growth(GrowthPolicy::Geometric, None);
        assert_eq!(growth.chunk_size(0, 256, u64::MAX), Some(PAGE));
        assert_eq!(growth.chunk_size(0, PAGE + 256, u64::MAX), Some(2 * PAGE));
        assert_eq!(growth.chunk_size(1 << 30, 256, u64::MAX), Some(128 << 20));
        assert_eq!(growth.chunk_size(1 << 40, 256, u64::MAX), Some(LARGEST_STEP));
        assert_eq!(growth.chunk_size(PAGE, 1024, PAGE + 1024), Some(1024));
        assert_eq!(growth.chunk_size(PAGE, 1280, PAGE + 1024), None);
        let most = MOST / GRANULE * GRANULE;
        assert_eq!(growth.chunk_size(0, most, u64::MAX), Some(most));
    }

    #[test]
    fn steps_follow_the_policy() {
        let fixed = growth(GrowthPolicy::FixedStep(4096), None);
        assert_eq!(fixed.chunk_size(0, 256, u64::MAX), Some(4096));
        assert_eq!(fixed.chunk_size(1 << 30, 4352, u64::MAX), Some(8192));
        assert_eq!(fixed.chunk_size(4096, 512, 4096 + 1024), Some(1024), "the limit leaves less");
        let exact = growth(GrowthPolicy::Exact, None);
        assert_eq!(exact.chunk_size(1 << 30, 768, u64::MAX), Some(768));
    }

    #[test]
    fn extensions_are_small_and_of_whole_pages() {
        let growth = Growth { page: PAGE, ..growth(GrowthPolicy::Geometric, None) };
        let any = u64::MAX;
        assert_eq!(growth.extension(0, 256, any, Pace::Steady), Some(PAGE));
        assert_eq!(growth.extension(1 << 30, PAGE, any, Pace::Steady), Some(16 << 20));
        assert_eq!(growth.extension(1 << 40, PAGE, any, Pace::Steady), Some(LARGEST_EXTENSION));
        for (held, step) in [(0, PAGE), (32 * PAGE, 4 * PAGE), (200 * PAGE, 16 * PAGE)] {
            assert_eq!(growth.extension(held, PAGE, any, Pace::Loading), Some(step));
        }
        assert_eq!(growth.extension(21 << 30, PAGE, any, Pace::Loading), Some(LARGEST_EXTENSION));
        assert_eq!(growth.extension(PAGE, PAGE, 2 * PAGE + 256, Pace::Steady), Some(PAGE));
        assert_eq!(growth.extension(PAGE, PAGE + 256, 2 * PAGE + 256, Pace::Steady), None);
        let coarse = Growth { page: 16 * PAGE, ..growth };
        assert_eq!(coarse.extension(0, 256, any, Pace::Steady), Some(16 * PAGE));
        let compact = Growth { preset: PoolPreset::Compact, ..growth };
        assert_eq!(compact.extension(1 << 30, PAGE, any, Pace::Steady), Some(PAGE));
        let quick = Growth { preset: PoolPreset::LowLatency, ..growth };
        assert_eq!(quick.extension(64 << 20, PAGE, any, Pace::Steady), Some(64 << 20));
        assert_eq!(quick.extension(1 << 40, PAGE, any, Pace::Steady), Some(LARGEST_DOUBLING));
    }

    #[test]
    fn pieces_grow_with_the_pool_and_the_request() {
        let growth = Growth { page: PAGE, ..growth(GrowthPolicy::Geometric, None) };
        let compact = Growth { preset: PoolPreset::Compact, ..growth };
        let quick = Growth { preset: PoolPreset::LowLatency, ..growth };
        assert_eq!(growth.piece_size(0, PAGE), PAGE);
        assert_eq!(growth.piece_size(1 << 40, PAGE), LARGEST_PIECE);
        assert_eq!(growth.piece_size(0, 48 * PAGE), 2 * PAGE, "24 calls at most");
        assert_eq!(compact.piece_size(1 << 40, PAGE), LARGEST_COMPACT_PIECE);
        assert_eq!(compact.piece_size(1 << 30, PAGE), 8 << 20);
        assert_eq!(quick.piece_size(0, 48 * PAGE), 48 * PAGE);
    }

    #[test]
    fn little_is_kept_beyond_the_peak() {
        let growth = growth(GrowthPolicy::Geometric, None);
        let compact = Growth { preset: PoolPreset::Compact, ..growth };
        let quick = Growth { preset: PoolPreset::LowLatency, ..growth };
        let kept = |growth: Growth, pace| growth.retain_target_extendable(64 << 30, pace);
        for pace in [Pace::Loading, Pace::Steady] {
            assert_eq!(kept(growth, pace), (64 << 30) + (64 << 30) / 21);
        }
        let small = |pace| growth.retain_target_extendable(128 << 20, pace) >> 20;
        assert_eq!((small(Pace::Loading), small(Pace::Steady)), (128 + 16, 128 + 8));
        for pace in [Pace::Loading, Pace::Steady] {
            assert_eq!((kept(compact, pace), kept(quick, pace)), (64 << 30, 128 << 30));
            assert_eq!(compact.retain_limit(8000, pace), 8000);
        }
        assert_eq!(growth.retain_target_extendable(0, Pace::Steady), LEAST_SURPLUS);
        assert_eq!(growth.retain_target_extendable(0, Pace::Loading), LEAST_SURPLUS);
        assert_eq!(growth.retain_limit(5 << 30, Pace::Steady), 6 << 30);
        assert_eq!(growth.retain_limit(0, Pace::Steady), LEAST_SURPLUS, "no less than the target");
    }

    #[test]
    fn pieces_hold_whole_blocks() {
        let blocks = growth(GrowthPolicy::FixedStep(3072), Some(1024));
        assert_eq!(blocks.chunk_size(0, 1024, u64::MAX), Some(3072));
        assert_eq!(blocks.chunk_size(3072, 1024, 6143), Some(2048));
    }

    #[test]
    fn chunks_are_whole_pages_within_the_limit() {
        let any = u64::MAX;
        for policy in [GrowthPolicy::Geometric, GrowthPolicy::Exact, GrowthPolicy::FixedStep(768)] {
            let growth = Growth { page: PAGE, ..growth(policy, None) };
            assert_eq!(growth.chunk_size(0, 256, any), Some(PAGE), "{policy:?}");
            assert_eq!(growth.chunk_size(0, PAGE + 256, any), Some(2 * PAGE), "{policy:?}");
            assert_eq!(growth.chunk_size(PAGE, 256, 2 * PAGE + 256), Some(PAGE), "{policy:?}");
            assert_eq!(growth.chunk_size(PAGE, 256, 2 * PAGE - 256), None, "{policy:?}");
            let blocks = Growth { block: Some(PAGE + PAGE / 2), ..growth };
            assert_eq!(blocks.chunk_size(0, PAGE + PAGE / 2, any), Some(2 * PAGE), "{policy:?}");
            assert_eq!(blocks.chunk_size(0, PAGE + PAGE / 2, PAGE + PAGE / 2), None, "{policy:?}");
        }
        // Of a room for two blocks and a part of a third, the pages of two.
        let step = GrowthPolicy::FixedStep(9 * PAGE);
        let blocks = Growth { page: PAGE, ..growth(step, Some(PAGE + PAGE / 2)) };
        assert_eq!(blocks.chunk_size(0, PAGE + PAGE / 2, 4 * PAGE), Some(3 * PAGE));
    }

    #[test]
    fn a_step_is_no_more_than_one_call_can_ask_for() {
        let all = growth(GrowthPolicy::FixedStep(u64::MAX / 256 * 256), None);
        let most = (isize::MAX as u64) / GRANULE * GRANULE;
        assert_eq!(all.chunk_size(0, 256, u64::MAX), Some(most));
    }
}
