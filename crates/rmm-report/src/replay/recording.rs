//! What a replay shows on a page: each block with its address in the resource, and the memory
//! below.

use std::collections::{BTreeMap, HashMap};

use rmm_adaptors::{PoolBlock, PoolStatistics};
use rmm_core::{DevicePtr, StreamId};

use super::subject::Meter;
use crate::page::{NEVER, View, ViewBlock, ViewCounted, ViewLimit, ViewSegment};
use crate::trace::{Before, Trace};

/// The most blocks of pools that are looked at to know their memory; beyond it memory is noted
/// once in [`RARELY`] events only.
const LOOKED_AT: usize = 1 << 24;
const RARELY: usize = 1 << 12;

/// A view under construction.
#[derive(Debug)]
pub(super) struct Recording<'a> {
    trace: &'a Trace,
    view: View,
    /// The block that each slot holds.
    slots: Vec<usize>,
    /// Memory that is there now: its index among the segments, by address and size.
    memory: BTreeMap<(u64, u64), usize>,
    reserved: Vec<(u32, u64)>,
    waits: u64,
    host_waits: u64,
    looked_at: usize,
    noted: usize,
    /// The names of the replay's streams.
    streams: HashMap<StreamId, String>,
    /// What pools counted where the most is held so far.
    most: (u64, Option<ViewCounted>),
}

impl<'a> Recording<'a> {
    /// Of a trace, whose streams are these in the replay.
    pub(super) fn of(trace: &'a Trace, streams: impl IntoIterator<Item = StreamId>) -> Self {
        let names = trace.streams.iter().map(|handle| format!("{handle:#x}"));
        Self {
            trace,
            streams: streams.into_iter().zip(names).collect(),
            most: (0, None),
            view: View::of_log(trace),
            slots: vec![usize::MAX; trace.blocks as usize],
            memory: BTreeMap::new(),
            reserved: Vec::new(),
            waits: 0,
            host_waits: 0,
            looked_at: 0,
            noted: 0,
        }
    }

    /// A block from before the first event is allocated.
    pub(super) fn begin(&mut self, before: &Before, address: DevicePtr) {
        let block = ViewBlock { address: address.0, ..ViewBlock::of_before(before) };
        self.hold(before.block, block);
    }

    /// An event allocated a block.
    pub(super) fn allocate(&mut self, index: usize, slot: u32, address: DevicePtr) {
        if let Some(block) = View::block_of(self.trace, index, address.0) {
            self.hold(slot, block);
        }
    }

    fn hold(&mut self, slot: u32, block: ViewBlock) {
        self.slots[slot as usize] = self.view.blocks.len();
        self.view.blocks.push(block);
    }

    /// An event freed a block.
    pub(super) fn free(&mut self, index: usize, slot: u32) {
        if let Some(block) = self.view.blocks.get_mut(self.slots[slot as usize]) {
            block.end = position(index + 1);
        }
    }

    /// An event failed, of a resource that may have this limit.
    pub(super) fn fail(&mut self, index: usize, text: &str, limit: Option<ViewLimit>) {
        self.view.fail(self.trace, index, text.to_owned(), limit);
    }

    /// Notes the memory after this number of events.
    pub(super) fn note(&mut self, events: usize, reserved: u64, meter: &Meter<'_>) {
        let at = position(events);
        note_waits(meter.waits(), &mut self.waits, at, &mut self.view.waits);
        note_waits(meter.host_waits(), &mut self.host_waits, at, &mut self.view.host_waits);
        if self.reserved.last().is_some_and(|&(_, known)| known == reserved) {
            return;
        }
        self.reserved.push((at, reserved));
        if self.looked_at < LOOKED_AT || events >= self.noted + RARELY {
            let (counters, blocks) = (meter.counters(), meter.blocks());
            self.looked_at += blocks.len();
            self.noted = events;
            self.note_memory(at, &ranges(&blocks));
            if reserved > self.most.0 {
                self.most = (reserved, Some(self.counted(at, &counters, &blocks)));
            }
        }
    }

    /// Notes what pools count after this number of events.
    pub(super) fn count(&mut self, events: usize, meter: &Meter<'_>) {
        let (counters, blocks) = (meter.counters(), meter.blocks());
        let counted = self.counted(position(events), &counters, &blocks);
        self.add(counted);
    }

    fn add(&mut self, counted: ViewCounted) {
        // The caches were full at the first time.
        if self.view.counted.iter().all(|known| known.position != counted.position) {
            self.view.counted.push(counted);
        }
    }

    fn counted(&self, at: u32, counters: &[PoolStatistics], blocks: &[PoolBlock]) -> ViewCounted {
        ViewCounted::of(at, counters, blocks, |block| {
            let owner = block.owner;
            let known = owner.and_then(|owner| self.streams.get(&owner).cloned());
            known.or(owner.map(|owner| owner.to_string())).unwrap_or_default()
        })
    }

    fn note_memory(&mut self, at: u32, ranges: &[(u64, u64)]) {
        let gone = |key: &(u64, u64)| ranges.binary_search(key).is_err();
        let ended: Vec<_> = self.memory.keys().copied().filter(gone).collect();
        for key in ended {
            if let Some(index) = self.memory.remove(&key) {
                self.view.segments[index].end = at;
            }
        }
        for &(address, size) in ranges {
            let segments = &mut self.view.segments;
            self.memory.entry((address, size)).or_insert_with(|| {
                segments.push(ViewSegment { address, size, start: at, end: NEVER });
                segments.len() - 1
            });
        }
    }

    pub(super) fn into_view(mut self) -> View {
        if let Some(counted) = self.most.1.take() {
            self.add(counted);
        }
        View { reserved: Some(self.reserved), ..self.view }
    }
}

/// Notes waits that are more than those before.
fn note_waits(now: u64, before: &mut u64, at: u32, noted: &mut Vec<(u32, u64)>) {
    if now > *before {
        noted.push((at, now - *before));
        *before = now;
    }
}

fn position(events: usize) -> u32 {
    u32::try_from(events).unwrap_or(NEVER - 1)
}

/// The ranges of addresses that the blocks of pools cover, neighbours in a segment joined, sorted.
pub(crate) fn ranges(blocks: &[PoolBlock]) -> Vec<(u64, u64)> {
    let mut sorted: Vec<(usize, u64, u64)> = blocks
        .iter()
        .map(|block| (block.segment, block.segment_base.0 + block.offset, block.size))
        .collect();
    sorted.sort_unstable();
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    let mut segment = usize::MAX;
    for (of, address, size) in sorted {
        match ranges.last_mut() {
            Some(last) if of == segment && last.0 + last.1 == address => last.1 += size,
            _ => ranges.push((address, size)),
        }
        segment = of;
    }
    ranges.sort_unstable();
    ranges
}
