//! Checkpoints: records of which blocks are live, from which the same blocks are made live again at
//! their addresses.

#![forbid(unsafe_code)]

use rmm_core::{DevicePtr, Error, StreamRef, fork};

use crate::suballocators::pool::heap::SegmentId;
use crate::suballocators::pool::state::core::PoolCore;
use crate::suballocators::pool::state::pool_state::PoolState;
use crate::suballocators::pool::values::checkpoint::{LiveBlock, PoolCheckpoint, Restored};
use crate::suballocators::pool::values::units::ListId;

/// The present place of a block of a checkpoint: segment, offset in bytes, size in bytes.
type Place = (SegmentId, u64, u64);

impl PoolState {
    /// The live blocks, by address.
    fn live_blocks(&self) -> Vec<LiveBlock> {
        let mut blocks: Vec<LiveBlock> = self
            .live
            .iter()
            .map(|(pointer, node)| {
                let block = self.heap.block(node);
                let start = self.base(block.segment).0 + block.offset;
                LiveBlock { start, size: block.size, pointer: pointer.0 }
            })
            .collect();
        blocks.sort_unstable();
        blocks
    }

    /// Where the blocks lie, which are in the order of their addresses; `None` if the pool has not
    /// the memory of one of them any more.
    fn places(&self, blocks: &[LiveBlock]) -> Option<Vec<Place>> {
        let mut ranges: Vec<(u64, Place)> = self
            .heap
            .ranges()
            .into_iter()
            .map(|place| (self.base(place.0).0 + place.1, place))
            .collect();
        ranges.sort_unstable_by_key(|&(start, _)| start);
        let place = |block: &LiveBlock| {
            let next = ranges.partition_point(|&(start, _)| start <= block.start);
            let (start, (segment, offset, size)) = *ranges.get(next.checked_sub(1)?)?;
            let into = block.start - start;
            let is_there = into + block.size <= size;
            is_there.then_some((segment, offset + into, block.size))
        };
        blocks.iter().map(place).collect()
    }

    /// Frees all live blocks into `list`, then makes the blocks of a checkpoint live at `places`.
    fn make_live_again(&mut self, list: ListId, blocks: &[LiveBlock], places: &[Place]) {
        let point = self.timeline.open(list);
        let freed = self.live.drain();
        self.statistics.frees += freed.len() as u64;
        for (_, node) in freed {
            self.heap.free(node, list, point);
        }
        self.timeline.note_rest(list);
        let mut before = None;
        for (block, &(segment, offset, size)) in blocks.iter().zip(places) {
            let from = before.filter(|&(its, _)| its == segment).map(|(_, node)| node);
            let claimed = self.heap.claim(segment, from, (offset, size));
            let node = claimed.expect("the memory is there, and all of it is free");
            before = Some((segment, node));
            self.live.insert(DevicePtr(block.pointer), node);
        }
        self.statistics.allocations += blocks.len() as u64;
        self.note_live();
    }
}

impl PoolCore {
    /// Records which blocks are live.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](rmm_core::ErrorKind::Unsupported) in a pool that is not for
    /// graphs.
    pub(crate) fn checkpoint(&self) -> Result<PoolCheckpoint, Error> {
        self.check_for_graphs()?;
        let state = self.lock();
        self.check_set_aside(&state)?;
        Ok(PoolCheckpoint { blocks: state.live_blocks() })
    }

    /// Makes the blocks of a checkpoint live, and all others free on the stream.
    ///
    /// # Errors
    /// Those of [`restore`](crate::PoolMemoryResource::restore). Then nothing has changed.
    pub(crate) fn restore(
        &self,
        checkpoint: &PoolCheckpoint,
        stream: StreamRef<'_>,
    ) -> Result<Restored, Error> {
        fork::check()?;
        self.check_for_graphs()?;
        self.check_memory()?;
        let Some(stream) = self.identified(Some(stream))? else {
            let why = "a default stream of another context has no memory here";
            return Err(Error::invalid_argument(self.name, why));
        };
        let mut state = self.lock();
        state.phase.check_awake(self.name)?;
        self.check_set_aside(&state)?;
        let list = self.list_of(&mut state, stream)?;
        let Some(places) = state.places(&checkpoint.blocks) else {
            let why = "the pool has released memory since the checkpoint, or it is another pool's";
            return Err(Error::invalid_argument(self.name, why));
        };
        let freed = state.live_blocks();
        state.make_live_again(list, &checkpoint.blocks, &places);
        Ok(Restored {
            freed: freed.iter().map(|block| DevicePtr(block.pointer)).collect(),
            live: checkpoint.blocks().collect(),
        })
    }

    fn check_set_aside(&self, state: &PoolState) -> Result<(), Error> {
        if state.set_aside.is_empty() {
            return Ok(());
        }
        let why = "a reservation holds part of the pool's memory: drop it first";
        Err(Error::unsupported(self.name, why))
    }

    fn check_for_graphs(&self) -> Result<(), Error> {
        if self.is_for_graphs() {
            return Ok(());
        }
        let why = "only a pool that was built for graphs has checkpoints";
        Err(Error::unsupported(self.name, why))
    }
}
