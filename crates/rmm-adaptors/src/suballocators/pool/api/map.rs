//! A map of a pool's memory: all of its blocks, listed in parts between which other threads may
//! have the pool's lock.

use crate::suballocators::pool::heap::{Block, BlockCursor};
use crate::suballocators::pool::state::core::PoolCore;
use crate::suballocators::pool::state::pool_state::PoolState;
use crate::suballocators::pool::values::statistics::PoolBlock;

/// Blocks that are listed before the lock is released, if another thread waits for it: some tens of
/// microseconds.
const PART: usize = 2048;

/// How often the list begins anew because the heap has changed meanwhile. After that the lock is
/// held throughout.
const ATTEMPTS: usize = 4;

impl PoolCore {
    /// All blocks, by segment and address, as they are at one time.
    pub(crate) fn blocks(&self) -> Vec<PoolBlock> {
        self.blocks_in_parts(|| ())
    }

    /// All blocks, by segment and address, as they are at one time. Calls `paused` whenever others
    /// had the time to take the lock.
    fn blocks_in_parts(&self, mut paused: impl FnMut()) -> Vec<PoolBlock> {
        let mut state = self.lock();
        for attempt in 1.. {
            self.flush_caches(&mut state);
            let (changes, mut cursor) = (state.heap.changes(), BlockCursor::default());
            let mut blocks = Vec::new();
            loop {
                let before = blocks.len();
                let part = std::iter::from_fn(|| state.heap.next_block(&mut cursor)).take(PART);
                blocks.extend(part.map(|block| state.map_entry(block)));
                if blocks.len() < before + PART {
                    return blocks;
                }
                if attempt < ATTEMPTS && self.state.is_waited_for() {
                    drop(state);
                    self.state.let_others_in();
                    paused();
                    state = self.lock();
                    if state.heap.changes() != changes {
                        break;
                    }
                }
            }
        }
        unreachable!("the last attempt ends with the list")
    }
}

impl PoolState {
    fn map_entry(&self, block: Block) -> PoolBlock {
        let owner = block.free_in.and_then(|list| self.timeline.owner(list));
        PoolBlock {
            segment: block.segment.index(),
            segment_base: self.base(block.segment),
            offset: block.offset,
            size: block.size,
            is_live: block.free_in.is_none(),
            owner: owner.map(|(stream, _)| stream),
            owner_handle: owner.map(|(_, handle)| handle),
        }
    }
}

#[cfg(all(test, not(rmm_loom)))]
mod tests {
    use std::alloc::Layout;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::thread;
    use std::time::{Duration, Instant};

    use rmm_core::SynchronousResource;
    use rmm_resources::CudaMemoryResource;

    use super::*;
    use crate::PoolMemoryResource;

    /// Longer than any thread is kept from running.
    const LONG: Duration = Duration::from_secs(60);
    const BLOCKS: usize = 40 * PART;

    /// Lists the blocks again and again beside a thread that takes the lock all the time, until
    /// that has had it in several pauses of one call.
    fn lets_others_in(pool: &PoolMemoryResource, check: impl Fn(&[PoolBlock])) {
        let (taken, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
        thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    drop(pool.inner.core.lock());
                    taken.fetch_add(1, Ordering::Relaxed);
                }
            });
            let start = Instant::now();
            let mut most = 0;
            while most < 3 && start.elapsed() < LONG {
                let (mut pauses, mut before) = (0, usize::MAX);
                let blocks = pool.inner.core.blocks_in_parts(|| {
                    let now = taken.load(Ordering::Relaxed);
                    pauses += usize::from(now > before);
                    before = now;
                });
                check(&blocks);
                most = most.max(pauses);
            }
            is_over.store(true, Ordering::Relaxed);
            assert!(most >= 3, "the other thread had the lock in {most} pauses at most");
        });
    }

    #[test]
    fn other_threads_have_the_lock_while_blocks_are_listed() {
        let machine = rmm_sim::Machine::builder().memory(1 << 30).checks(false).enter();
        let builder = PoolMemoryResource::builder(CudaMemoryResource::new());
        let pool = builder.initial_size(64 << 20).build().expect("there is memory");
        let layout = Layout::from_size_align(256, 256).expect("a layout");
        let allocated: Vec<_> =
            (0..BLOCKS).map(|_| pool.allocate_sync(layout).expect("there is memory")).collect();
        let free = |block| {
            // SAFETY: allocated above with this layout, and not used.
            unsafe { pool.deallocate_sync(block, layout) };
        };
        lets_others_in(&pool, |blocks| {
            assert_eq!(blocks.iter().filter(|block| block.is_live).count(), BLOCKS);
            assert!(blocks.is_sorted_by_key(|block| (block.segment, block.offset)));
        });
        // A map is of one time, whatever others change meanwhile.
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                let _entered = machine.enter();
                while !is_over.load(Ordering::Relaxed) {
                    free(pool.allocate_sync(layout).expect("there is memory"));
                }
            });
            for _ in 0..20 {
                let blocks = pool.blocks();
                let live = blocks.iter().filter(|block| block.is_live).count();
                assert!((BLOCKS..=BLOCKS + 1).contains(&live), "{live} live blocks");
                let end_to_end =
                    |pair: &[PoolBlock]| pair[0].offset + pair[0].size == pair[1].offset;
                assert!(blocks.windows(2).all(end_to_end), "the blocks tile the segment");
            }
            is_over.store(true, Ordering::Relaxed);
        });
        allocated.into_iter().for_each(free);
    }
}
