//! The answers to six questions about memory, as figures.
//!
//! | question | module |
//! |---|---|
//! | What was the peak, when, and who held it? | [`peak`] |
//! | Which request failed, and what would have let it succeed? | [`failed`] |
//! | Does memory grow, and what grows? | [`growth`] |
//! | Leak or fragmentation? | [`split`] |
//! | Which pool, settings and amount of memory? | [`settings`] |
//! | What changed between two runs? | [`compare`] |
//!
//! Bytes are counted with each block rounded up to 256, the alignment of every allocation.

pub mod compare;
pub mod failed;
pub mod growth;
mod live;
pub mod peak;
pub mod settings;
pub mod share;
pub mod split;
pub mod words;

use serde::Serialize;

use super::view::{NEVER, View};
use failed::Failed;
use growth::Growth;
use peak::Peak;
use settings::Settings;
use split::Split;

/// What is known of one view.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answers {
    /// The log or the program.
    pub log: String,
    /// The resource; `None` where the addresses are those that were recorded.
    pub resource: Option<String>,
    /// How many events there are.
    pub events: u32,
    /// Nanoseconds from the first event to the last, if times are known.
    pub duration_ns: Option<u64>,
    /// The peak.
    pub peak: Peak,
    /// The first failure.
    pub failed: Option<Failed>,
    /// What grows.
    pub growth: Growth,
    /// What is held at the moment that matters: at the first failure, else when most was held.
    pub split: Split,
    /// How much memory is needed.
    pub settings: Settings,
    /// Blocks that are not freed, and their bytes; none if the program still runs.
    pub leaked_blocks: u64,
    /// Their bytes.
    pub leaked_bytes: u64,
}

impl Answers {
    /// Answers the questions about one view.
    pub fn of(view: &View) -> Self {
        let live = live::after_each_event(view);
        let peak = Peak::of(view, &live);
        let failed = Failed::of(view, &live);
        let growth = Growth::of(view, &live);
        let moment = match (&failed, view.most_reserved()) {
            (Some(failed), _) => failed.position,
            (None, Some(position)) => position,
            (None, None) => peak.position,
        };
        let left = view.blocks.iter().filter(|block| block.end == NEVER && !view.is_open());
        let (leaked_blocks, leaked_bytes): (u64, u64) = left
            .fold((0, 0), |(blocks, bytes), block| {
                (blocks + 1, bytes.saturating_add(block.aligned()))
            });
        Self {
            log: view.log.clone(),
            resource: view.resource.clone(),
            events: view.events,
            duration_ns: view.times.last().copied(),
            split: Split::of(view, moment),
            settings: Settings::of(view, &peak, failed.as_ref()),
            peak,
            failed,
            growth,
            leaked_blocks,
            leaked_bytes,
        }
    }
}

impl View {
    /// The first position at which the most is held from the driver, if that is known.
    fn most_reserved(&self) -> Option<u32> {
        let reserved = self.reserved.as_ref()?;
        let most = reserved.iter().map(|&(_, bytes)| bytes).max()?;
        reserved.iter().find(|&&(_, bytes)| bytes == most).map(|&(position, _)| position)
    }

    /// Bytes held from the driver at a position, if that is known.
    pub(crate) fn reserved_at(&self, position: u32) -> Option<u64> {
        let reserved = self.reserved.as_ref()?;
        let after = reserved.partition_point(|&(changed, _)| changed <= position);
        Some(after.checked_sub(1).map_or(0, |last| reserved[last].1))
    }

    fn is_open(&self) -> bool {
        self.ending == super::view::Ending::Open
    }
}

#[cfg(test)]
#[path = "answers/tests.rs"]
mod tests;
