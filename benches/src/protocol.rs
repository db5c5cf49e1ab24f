//! Reproducible random operation lists: any implementation can rebuild them bit for bit, so
//! allocators are timed on the same work.

#![forbid(unsafe_code)]

/// The `splitmix64` generator.
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// The sequence that starts from `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

/// One call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Op {
    /// Whether it allocates; otherwise it frees.
    pub is_allocation: bool,
    /// Where the block is kept while it is live.
    pub slot: usize,
    /// Bytes; a free has those of its allocation.
    pub size: usize,
    /// The stream of the call.
    pub stream: usize,
}

/// What a random list should be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RandomOps {
    /// The seed of the random numbers.
    pub seed: u64,
    /// Steps, to which come the frees of what is live after the last.
    pub steps: usize,
    /// Sizes are from two to this power ...
    pub lowest_exponent: u32,
    /// ... to below two to this power.
    pub highest_exponent: u32,
    /// The most bytes live at once.
    pub most_bytes: usize,
    /// The most blocks live at once.
    pub most_blocks: usize,
    /// Blocks are spread over this many streams; a block is freed on the stream that it was
    /// allocated on.
    pub streams: usize,
}

impl RandomOps {
    /// The list of one thread: sizes from 256 B to 16 MiB, up to 8 GiB and 4,096 blocks live. It
    /// has its seed for one stream, for eight, and for 256.
    pub fn single_thread(streams: usize) -> Self {
        Self {
            seed: match streams {
                1 => 42,
                256 => 44,
                _ => 43,
            },
            steps: 100_000,
            lowest_exponent: 8,
            highest_exponent: 24,
            most_bytes: 8 << 30,
            most_blocks: 4096,
            streams,
        }
    }

    /// The list of thread number `thread` among several: sizes from 256 B to 1 MiB, up to 256 MiB
    /// and 256 blocks live.
    pub fn of_thread(thread: usize) -> Self {
        Self {
            seed: 100 + thread as u64,
            steps: 50_000,
            lowest_exponent: 8,
            highest_exponent: 20,
            most_bytes: 256 << 20,
            most_blocks: 256,
            streams: 1,
        }
    }

    /// The list of thread number `thread` among several that use large blocks: 1 MiB to 64 MiB, up
    /// to 512 MiB and 16 blocks live.
    pub fn large_of_thread(thread: usize) -> Self {
        Self {
            seed: 200 + thread as u64,
            steps: 20_000,
            lowest_exponent: 20,
            highest_exponent: 26,
            most_bytes: 512 << 20,
            most_blocks: 16,
            streams: 1,
        }
    }

    /// Large blocks: 2 MiB to 256 MiB, up to 8 GiB and 64 blocks live.
    pub fn large() -> Self {
        Self {
            seed: 44,
            steps: 20_000,
            lowest_exponent: 21,
            highest_exponent: 28,
            most_blocks: 64,
            ..Self::single_thread(1)
        }
    }

    /// Blocks that their streams work on: 64 KiB to 64 MiB, up to 8 GiB and 1,024 blocks live, on
    /// eight streams.
    pub fn busy() -> Self {
        Self {
            seed: 45,
            steps: 20_000,
            lowest_exponent: 16,
            highest_exponent: 26,
            most_blocks: 1024,
            ..Self::single_thread(8)
        }
    }

    /// The list whose allocations a pool grows by: sizes from 256 B to 16 MiB, more of them live
    /// than there are steps.
    pub fn growing() -> Self {
        Self { seed: 46, steps: 200_000, most_blocks: 1 << 20, ..Self::single_thread(1) }
    }

    /// The list whose allocations are made in bursts: sizes from 256 B to 1 MiB.
    pub fn burst() -> Self {
        Self { seed: 48, most_blocks: 1 << 20, most_bytes: 2 << 30, ..Self::of_thread(0) }
    }

    /// The list whose calls are timed one by one: a million of 256 B to 64 KiB, up to 100,000
    /// blocks live.
    pub fn timed() -> Self {
        Self {
            seed: 47,
            steps: 1_000_000,
            highest_exponent: 16,
            most_blocks: 100_000,
            ..Self::single_thread(1)
        }
    }

    /// Builds the list.
    pub fn build(&self) -> Vec<Op> {
        let mut random = SplitMix64::new(self.seed);
        let mut ops = Vec::with_capacity(self.steps + self.most_blocks);
        let mut live: Vec<Op> = Vec::new();
        let mut free_slots: Vec<usize> = Vec::new();
        let (mut slots, mut live_bytes) = (0, 0);
        let exponents = self.highest_exponent.saturating_sub(self.lowest_exponent).max(1);
        for _ in 0..self.steps {
            let above = below(random.next_u64(), exponents as usize);
            let base = (1usize << self.lowest_exponent) << above;
            let size = base + below(random.next_u64(), base);
            let choice = random.next_u64();
            let may_allocate =
                live_bytes + size <= self.most_bytes && live.len() < self.most_blocks;
            if live.is_empty() || (may_allocate && choice & 1 == 1) {
                let slot = free_slots.pop().unwrap_or_else(|| {
                    slots += 1;
                    slots - 1
                });
                let op = Op {
                    is_allocation: true,
                    slot,
                    size,
                    stream: below(choice >> 1, self.streams),
                };
                live_bytes += size;
                live.push(op);
                ops.push(op);
            } else {
                let freed = live.swap_remove(below(choice >> 8, live.len()));
                live_bytes -= freed.size;
                free_slots.push(freed.slot);
                ops.push(Op { is_allocation: false, ..freed });
            }
        }
        ops.extend(live.into_iter().map(|op| Op { is_allocation: false, ..op }));
        ops
    }
}

/// `number` modulo `bound`, which is not zero.
fn below(number: u64, bound: usize) -> usize {
    // The remainder is below a `usize`.
    usize::try_from(number % bound.max(1) as u64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allocation(slot: usize, size: usize, stream: usize) -> Op {
        Op { is_allocation: true, slot, size, stream }
    }

    fn free(slot: usize, size: usize, stream: usize) -> Op {
        Op { is_allocation: false, ..allocation(slot, size, stream) }
    }

    #[test]
    fn the_numbers_are_those_of_splitmix64() {
        let first = |seed| {
            let mut random = SplitMix64::new(seed);
            [random.next_u64(), random.next_u64(), random.next_u64()]
        };
        assert_eq!(first(0), [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4, 0x06c4_5d18_8009_454f]);
        assert_eq!(
            first(42),
            [0xbdd7_3226_2feb_6e95, 0x28ef_e333_b266_f103, 0x4752_6757_130f_9f52]
        );
    }

    #[test]
    fn the_lists_are_those_of_the_protocol() {
        let one = RandomOps::single_thread(1).build();
        let start = [allocation(0, 12_547, 0), free(0, 12_547, 0), allocation(0, 4_075_428, 0)];
        assert_eq!(one[..3], start);
        assert_eq!((one.len(), one.last()), (100_372, Some(&free(128, 15_211, 0))));

        let eight = RandomOps::single_thread(8).build();
        assert_eq!(
            eight[3..6],
            [allocation(1, 1632, 0), allocation(2, 1037, 5), allocation(3, 114_733, 3)]
        );
        assert_eq!((eight.len(), eight.last()), (100_074, Some(&free(124, 11_468, 2))));

        let thread = RandomOps::of_thread(0).build();
        assert_eq!((thread.len(), thread.last()), (50_060, Some(&free(104, 463_246, 0))));
        let bytes: usize = thread.iter().filter(|op| op.is_allocation).map(|op| op.size).sum();
        assert_eq!(bytes, 3_274_308_572);
    }

    #[test]
    fn the_lists_of_the_other_workloads_are_those_of_the_peers() {
        let of = |asked: RandomOps| {
            let ops = asked.build();
            let last = *ops.last().unwrap();
            let bytes: usize = ops.iter().filter(|op| op.is_allocation).map(|op| op.size).sum();
            (ops.len(), bytes, last)
        };
        let many = RandomOps::single_thread(256);
        assert_eq!(of(many), (100_036, 79_010_144_336, free(53, 479_726, 101)));
        assert_eq!(of(RandomOps::large()), (20_014, 568_520_468_364, free(24, 4_112_143, 0)));
        assert_eq!(of(RandomOps::busy()), (20_024, 104_812_682_966, free(74, 2_334_371, 5)));
        assert_eq!(of(RandomOps::growing()), (200_226, 158_233_715_893, free(502, 14_281_589, 0)));
        assert_eq!(of(RandomOps::burst()), (50_376, 3_304_935_593, free(195, 2_579, 0)));
        assert_eq!(of(RandomOps::timed()), (1_000_356, 6_129_809_348, free(542, 335, 0)));
    }

    #[test]
    fn a_list_keeps_its_bounds_and_frees_everything_on_its_stream() {
        let asked =
            RandomOps { most_bytes: 32 << 20, most_blocks: 20, ..RandomOps::single_thread(3) };
        let mut live: Vec<Option<Op>> = vec![None; asked.most_blocks];
        let mut streams = [0; 3];
        for op in asked.build() {
            let held = &mut live[op.slot];
            if op.is_allocation {
                assert!((1 << 8..1 << 24).contains(&op.size), "{op:?}");
                assert_eq!(held.replace(op), None, "the slot is taken");
                streams[op.stream] += 1;
            } else {
                assert_eq!(held.take(), Some(Op { is_allocation: true, ..op }));
            }
            let bytes: usize = live.iter().flatten().map(|op| op.size).sum();
            assert!(bytes <= asked.most_bytes, "{bytes} bytes are live");
        }
        assert!(live.iter().all(Option::is_none), "something was not freed");
        assert!(streams.iter().all(|&blocks| blocks > 1000), "{streams:?}");
    }
}
