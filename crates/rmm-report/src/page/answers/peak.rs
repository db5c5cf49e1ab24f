//! The peak: how much, when, and who held it.

use serde::Serialize;

use super::share::{Holder, Share, largest, live_at, shares};
use crate::page::view::View;

/// The most bytes that are live at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Peak {
    /// Bytes.
    pub bytes: u64,
    /// The first position at which that many are live.
    pub position: u32,
    /// Nanoseconds from the first event to there, if times are known.
    pub time_ns: Option<u64>,
    /// Blocks that are live there.
    pub blocks: u64,
    /// Positions at which at least nine tenths of it are live.
    pub near: u64,
    /// What is not exceeded at 95 % of the positions.
    pub usual_bytes: u64,
    /// The largest shares by tag, site, size and stream.
    pub shares: Vec<Share>,
    /// The largest blocks.
    pub largest: Vec<Holder>,
}

impl Peak {
    /// Of a view, whose live bytes at each position are `live`.
    pub(super) fn of(view: &View, live: &[u64]) -> Self {
        let bytes = live.iter().copied().max().unwrap_or(0);
        let first = live.iter().position(|&now| now == bytes).unwrap_or(0);
        let position = u32::try_from(first).unwrap_or(u32::MAX - 1);
        let blocks = live_at(view, position);
        let mut sorted = live.to_vec();
        let rank = sorted.len().saturating_sub(1) * 19 / 20;
        let usual_bytes = if sorted.is_empty() { 0 } else { *sorted.select_nth_unstable(rank).1 };
        Self {
            bytes,
            position,
            time_ns: view.time(position),
            blocks: blocks.len() as u64,
            near: live.iter().filter(|&&now| now >= bytes - bytes / 10).count() as u64,
            usual_bytes,
            shares: shares(view, &blocks),
            largest: largest(view, &blocks),
        }
    }

    /// Whether the peak is a short spike: memory is near it for less than one event in a hundred,
    /// and a fifth lower almost always.
    pub fn is_spike(&self, events: u32) -> bool {
        self.near * 100 < u64::from(events) && self.usual_bytes < self.bytes - self.bytes / 5
    }
}
