//! The changes of what is live, in order, and the bytes after each event.

use crate::page::view::{NEVER, View, ViewBlock};

/// The starts and ends of blocks, in order; at the same position ends come first.
#[derive(Debug)]
pub(crate) struct Changes<'a> {
    view: &'a View,
    /// Indices of blocks that end, by their end.
    ends: Vec<u32>,
    started: usize,
    ended: usize,
}

impl<'a> Changes<'a> {
    /// Those of a view, whose blocks are sorted by their start.
    pub(crate) fn of(view: &'a View) -> Self {
        let is_freed = |&index: &u32| view.blocks[index as usize].end != NEVER;
        let mut ends: Vec<u32> = (0..).take(view.blocks.len()).filter(is_freed).collect();
        ends.sort_unstable_by_key(|&index| view.blocks[index as usize].end);
        Self { view, ends, started: 0, ended: 0 }
    }
}

impl<'a> Iterator for Changes<'a> {
    /// The position, the block, and whether it is live from there on.
    type Item = (u32, &'a ViewBlock, bool);

    fn next(&mut self) -> Option<Self::Item> {
        let start = self.view.blocks.get(self.started);
        let end = self.ends.get(self.ended).and_then(|&index| self.view.blocks.get(index as usize));
        match (start, end) {
            (Some(start), Some(end)) if end.end > start.start => {
                self.started += 1;
                Some((start.start, start, true))
            }
            (_, Some(end)) => {
                self.ended += 1;
                Some((end.end, end, false))
            }
            (Some(start), None) => {
                self.started += 1;
                Some((start.start, start, true))
            }
            (None, None) => None,
        }
    }
}

/// Live bytes at each position, from 0.
pub(super) fn after_each_event(view: &View) -> Vec<u64> {
    let mut live = vec![0; view.events as usize + 1];
    let mut now = 0_u64;
    let mut next = 0;
    for (position, block, is_live) in Changes::of(view) {
        let position = (position as usize).min(live.len());
        live[next.min(position)..position].fill(now);
        next = next.max(position);
        now = if is_live {
            now.saturating_add(block.aligned())
        } else {
            now.saturating_sub(block.aligned())
        };
    }
    let next = next.min(live.len());
    live[next..].fill(now);
    live
}
