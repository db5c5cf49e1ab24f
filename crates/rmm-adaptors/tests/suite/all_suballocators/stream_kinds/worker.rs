//! One thread of a program.

use std::alloc::Layout;
use std::iter::Sum;
use std::ops::AddAssign;
use std::sync::PoisonError;

use rmm_core::{CudaEvent, DevicePtr};

use super::Program;
use super::lanes::Lane;
use crate::harness::Allocator;
use crate::programs::MOST_GRANULES;
use crate::suballocators::GRANULE;
use crate::tag_kernels;

/// The most blocks that a thread holds.
const HELD: usize = 12;

/// Counts of what was done.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Figures {
    pub(super) allocations: u64,
    /// Moves and frees that nothing but the legacy stream's rules orders.
    pub(super) implicit: u64,
    /// Streams that were destroyed right after a call.
    pub(super) destroyed: u64,
    /// Blocks that went to another thread.
    pub(super) handed_over: u64,
}

impl AddAssign for Figures {
    fn add_assign(&mut self, other: Self) {
        self.allocations += other.allocations;
        self.implicit += other.implicit;
        self.destroyed += other.destroyed;
        self.handed_over += other.handed_over;
    }
}

impl Sum for Figures {
    fn sum<I: Iterator<Item = Self>>(figures: I) -> Self {
        figures.fold(Self::default(), |mut sum, next| {
            sum += next;
            sum
        })
    }
}

/// What the next use of a block has to follow.
enum Last {
    /// The work of a stream.
    On(Lane),
    /// An event, also of a stream that is gone or of another thread.
    Event(CudaEvent),
}

/// A tagged block.
pub(super) struct Block {
    pointer: DevicePtr,
    layout: Layout,
    tag: u64,
    last: Last,
}

pub(super) struct Worker<'a, R> {
    program: &'a Program<'a, R>,
    random: u64,
    next_tag: u64,
    live: Vec<Block>,
    figures: Figures,
}

impl<'a, R: Allocator> Worker<'a, R> {
    pub(super) fn new(program: &'a Program<'a, R>, seed: u64, number: u64) -> Self {
        let random = (seed + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let next_tag = number << 32 | 1;
        Self { program, random, next_tag, live: Vec::new(), figures: Figures::default() }
    }

    /// Takes steps, and leaves some blocks to threads that come after it.
    pub(super) fn run(mut self, steps: u64) -> Figures {
        for _ in 0..steps {
            self.step();
        }
        while self.live.len() > 2 {
            self.free();
        }
        while !self.live.is_empty() {
            self.hand_over();
        }
        self.figures
    }

    pub(super) fn free_all(&mut self) {
        while !self.live.is_empty() {
            self.free();
        }
    }

    /// Takes a block that another thread has handed over.
    pub(super) fn take_in(&mut self, block: Block) {
        self.live.push(block);
    }

    fn step(&mut self) {
        match self.below(20) {
            0..=5 => self.allocate(),
            6..=9 => self.free(),
            10..=12 => self.use_elsewhere(),
            13 | 14 => self.allocate_on_a_stream_that_ends(),
            15 | 16 => self.free_on_a_stream_that_ends(),
            17 => self.hand_over(),
            18 => {
                let handed_over = &self.program.handed_over;
                let block = handed_over.lock().unwrap_or_else(PoisonError::into_inner).pop();
                self.live.extend(block);
            }
            _ => match self.below(4) {
                0 => drop(self.program.resource.trim()),
                _ => self.pick().stream().synchronize().expect("all work can be done"),
            },
        }
        if self.live.len() > HELD {
            self.free();
        }
    }

    fn below(&mut self, bound: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        usize::try_from(self.random >> 11).expect("64 bits") % bound
    }

    fn pick(&mut self) -> Lane {
        let number = self.below(1 << 20);
        self.program.lanes.pick(number).clone()
    }

    /// A stream of others that is about to be destroyed.
    fn transient(&mut self) -> Lane {
        self.figures.destroyed += 1;
        let (kind, is_blocking) = (self.below(3), self.below(2) == 0);
        Lane::foreign(kind, is_blocking)
    }

    fn take(&mut self) -> Option<Block> {
        let count = self.live.len();
        (count > 0).then(|| self.below(count)).map(|which| self.live.swap_remove(which))
    }

    fn allocate_on(&mut self, lane: Lane) -> Option<Block> {
        // Some sizes are frequent, so that blocks are reused without splitting.
        let granules = [8, 8, 64, 1 + self.below(MOST_GRANULES)][self.below(4)];
        let layout = Layout::from_size_align(granules * GRANULE, 256).expect("a small size");
        let pointer = match self.program.resource.allocate(&lane.stream(), layout) {
            Ok(pointer) => pointer,
            Err(error) => {
                assert!(error.is_out_of_memory(), "{error}");
                return None;
            }
        };
        self.figures.allocations += 1;
        let block = Block { pointer, layout, tag: 0, last: Last::On(lane) };
        Some(block)
    }

    /// Writes a new tag on a lane, which the block is on from now on.
    fn write_on(&mut self, block: &mut Block, lane: Lane) {
        self.order(block, &lane);
        block.tag = self.next_tag;
        self.next_tag += 1;
        let (machine, bytes) = (self.program.machine, block.layout.size());
        tag_kernels::write(machine, &lane.stream(), block.pointer, bytes, block.tag);
        block.last = Last::On(lane);
    }

    /// The first use may be on another stream: then none of its own separates the allocation from
    /// the frees before it.
    fn allocate(&mut self) {
        let (lane, other) = (self.pick(), self.pick());
        let Some(mut block) = self.allocate_on(lane.clone()) else { return };
        let user = if self.below(2) == 0 { lane } else { other };
        self.write_on(&mut block, user);
        self.live.push(block);
    }

    /// Orders a lane after the last use of a block, without an event where the driver does.
    fn order(&mut self, block: &Block, lane: &Lane) {
        match &block.last {
            Last::On(last) if last.is_implicitly_before(lane) => self.figures.implicit += 1,
            Last::On(last) => lane.wait(&last.record()),
            Last::Event(event) => lane.wait(event),
        }
    }

    /// Checks a block on a lane, which it is on from now on.
    fn check_on(&mut self, block: &mut Block, lane: Lane) {
        self.order(block, &lane);
        let Program { machine, mismatches, .. } = self.program;
        let bytes = block.layout.size();
        tag_kernels::check(machine, &lane.stream(), block.pointer, bytes, block.tag, mismatches);
        block.last = Last::On(lane);
    }

    fn use_elsewhere(&mut self) {
        let Some(mut block) = self.take() else { return };
        let lane = self.pick();
        self.check_on(&mut block, lane.clone());
        if self.below(2) == 0 {
            self.write_on(&mut block, lane);
        }
        self.live.push(block);
    }

    /// Frees on a lane after all uses.
    fn free_on(&mut self, block: &Block, lane: &Lane) {
        self.order(block, lane);
        // SAFETY: allocated with this layout; the lane is ordered after all uses.
        unsafe { self.program.resource.deallocate(&lane.stream(), block.pointer, block.layout) };
    }

    /// Checks a block where it is, and frees it there or on another lane.
    fn free(&mut self) {
        let Some(mut block) = self.take() else { return };
        let (checked, freed) = (self.pick(), self.pick());
        let own = match &block.last {
            Last::On(lane) => lane.clone(),
            Last::Event(_) => checked,
        };
        self.check_on(&mut block, own.clone());
        let lane = if self.below(2) == 0 { own } else { freed };
        self.free_on(&block, &lane);
    }

    /// The block stays behind an event when its stream is destroyed.
    fn allocate_on_a_stream_that_ends(&mut self) {
        let lane = self.transient();
        if let Some(mut block) = self.allocate_on(lane.clone()) {
            self.write_on(&mut block, lane.clone());
            block.last = Last::Event(lane.record());
            self.live.push(block);
        }
    }

    fn free_on_a_stream_that_ends(&mut self) {
        let Some(mut block) = self.take() else { return };
        let lane = self.transient();
        self.check_on(&mut block, lane.clone());
        self.free_on(&block, &lane);
        if self.below(2) == 0 {
            // What the allocator took back is given again at once, to the same stream.
            if let Some(mut block) = self.allocate_on(lane.clone()) {
                self.write_on(&mut block, lane.clone());
                block.last = Last::Event(lane.record());
                self.live.push(block);
            }
        }
    }

    fn hand_over(&mut self) {
        let Some(mut block) = self.take() else { return };
        if let Last::On(lane) = &block.last {
            block.last = Last::Event(lane.record());
        }
        self.figures.handed_over += 1;
        let handed_over = &self.program.handed_over;
        handed_over.lock().unwrap_or_else(PoisonError::into_inner).push(block);
    }
}
