//! The statistics of a client against a simple model, in random programs.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr;

use rmm_rs::frameworks::client::counts::{ClientStat, ClientStatistics};
use rmm_rs::frameworks::client::{rmm_rs_client_reset_accumulated, rmm_rs_client_reset_peaks};

use super::fixtures::*;

/// Streams of a program.
const STREAMS: usize = 4;

/// What the statistics should be.
#[derive(Default)]
struct Model {
    expected: ClientStatistics,
    /// Requested bytes of allocated and of pending blocks.
    allocated: BTreeMap<usize, usize>,
    pending: BTreeMap<usize, usize>,
}

fn add(stats: &mut [ClientStat; 3], requested: usize, amount: usize) {
    let amount = i64::try_from(amount).expect("a small number");
    for class in [0, if requested <= MIB { 1 } else { 2 }] {
        let stat = &mut stats[class];
        stat.current += amount;
        stat.allocated += amount;
        stat.peak = stat.peak.max(stat.current);
    }
}

fn subtract(stats: &mut [ClientStat; 3], requested: usize, amount: usize) {
    let amount = i64::try_from(amount).expect("a small number");
    for class in [0, if requested <= MIB { 1 } else { 2 }] {
        stats[class].current -= amount;
        stats[class].freed += amount;
    }
}

fn rounded(requested: usize) -> usize {
    requested.div_ceil(512) * 512
}

impl Model {
    /// Follows what the client has returned by itself.
    fn follow(&mut self, client: &Client) {
        let blocks = client.walk(ptr::null());
        let still: Vec<usize> = blocks
            .iter()
            .filter(|block| block.is_pending == 1)
            .map(|block| block.pointer.addr())
            .collect();
        let gone: Vec<usize> =
            self.pending.keys().copied().filter(|block| !still.contains(block)).collect();
        for block in gone {
            let requested = self.pending.remove(&block).expect("it is a key");
            subtract(&mut self.expected.active, requested, 1);
            subtract(&mut self.expected.active_bytes, requested, rounded(requested));
            subtract(&mut self.expected.requested_bytes, requested, requested);
        }
        let live: Vec<usize> = blocks
            .iter()
            .filter(|block| block.is_pending == 0)
            .map(|block| block.pointer.addr())
            .collect();
        assert_eq!(live, self.allocated.keys().copied().collect::<Vec<_>>());
        assert_eq!(still, self.pending.keys().copied().collect::<Vec<_>>());
    }

    fn allocate(&mut self, block: usize, requested: usize) {
        add(&mut self.expected.allocation, requested, 1);
        add(&mut self.expected.allocated_bytes, requested, rounded(requested));
        add(&mut self.expected.requested_bytes, requested, requested);
        add(&mut self.expected.active, requested, 1);
        add(&mut self.expected.active_bytes, requested, rounded(requested));
        assert_eq!(self.allocated.insert(block, requested), None);
    }

    fn free(&mut self, block: usize) {
        let requested = self.allocated.remove(&block).expect("it is allocated");
        subtract(&mut self.expected.allocation, requested, 1);
        subtract(&mut self.expected.allocated_bytes, requested, rounded(requested));
        // If it is not pending, the client has returned it.
        self.pending.insert(block, requested);
    }

    fn for_each(&mut self, act: impl FnMut(&mut ClientStat)) {
        let all = &mut self.expected;
        let fields = [
            &mut all.allocation,
            &mut all.allocated_bytes,
            &mut all.requested_bytes,
            &mut all.active,
            &mut all.active_bytes,
        ];
        fields.into_iter().flatten().for_each(act);
    }
}

fn random_program(seed: u64) {
    let mut numbers = Numbers::new(seed);
    let client = Client::of_spec("pool(cuda)");
    let streams: [_; STREAMS] =
        [Stream::new(), Stream::new(), Stream::legacy(), Stream::blocking()];
    let mut model = Model::default();
    // Each with its own stream, and the one that used it last.
    let mut blocks: Vec<(*mut c_void, usize, usize)> = Vec::new();
    for _ in 0..300 {
        match numbers.below(10) {
            0..4 => {
                let own = numbers.below(STREAMS);
                let sizes = [1, 511, 512, 513, 5000, MIB, MIB + 1, 3 * MIB];
                let requested = sizes[numbers.below(sizes.len())];
                let block = client.allocate(&streams[own], requested);
                model.follow_before_allocation(&client, block);
                model.allocate(block.addr(), requested);
                streams[own].fill(block, requested);
                blocks.push((block, own, own));
            }
            4..6 if !blocks.is_empty() => {
                let index = numbers.below(blocks.len());
                let (block, own, last) = blocks[index];
                let other = numbers.below(STREAMS);
                if other != own {
                    streams[other].wait_for(&streams[last]);
                    streams[other].fill(block, 1);
                    blocks[index].2 = other;
                }
                record(block, &streams[other]);
            }
            6..9 if !blocks.is_empty() => {
                let (block, ..) = blocks.swap_remove(numbers.below(blocks.len()));
                free(block);
                model.free(block.addr());
            }
            _ => match numbers.below(4) {
                0 => client.settle(),
                1 => client.poll(),
                2 => {
                    ok(c!(rmm_rs_client_reset_peaks(client.0)));
                    model.for_each(|stat| stat.peak = stat.current);
                }
                _ => {
                    ok(c!(rmm_rs_client_reset_accumulated(client.0)));
                    model.for_each(|stat| (stat.allocated, stat.freed) = (0, 0));
                }
            },
        }
        model.follow(&client);
        assert_eq!(client.statistics(), model.expected, "seed {seed}");
    }
    for (block, ..) in blocks {
        free(block);
        model.free(block.addr());
    }
    client.settle();
    model.follow(&client);
    assert_eq!(client.statistics(), model.expected, "seed {seed}");
    assert!(model.pending.is_empty());
}

impl Model {
    /// Follows the returns that came before an allocation, in which the new block is not there yet.
    fn follow_before_allocation(&mut self, client: &Client, new: *mut c_void) {
        self.allocated.insert(new.addr(), 0);
        // A pending block may have come back, and be this one.
        let reused = self.pending.remove(&new.addr());
        if let Some(requested) = reused {
            subtract(&mut self.expected.active, requested, 1);
            subtract(&mut self.expected.active_bytes, requested, rounded(requested));
            subtract(&mut self.expected.requested_bytes, requested, requested);
        }
        self.follow(client);
        self.allocated.remove(&new.addr());
    }
}

#[test]
fn statistics_are_those_of_a_simple_model() {
    let _test = Test::begin();
    for seed in 0..24 {
        random_program(seed);
    }
}

#[test]
fn a_reset_of_peaks_and_one_of_sums_leave_the_current_values() {
    let _test = Test::begin();
    let client = Client::of_spec("pool(cuda)");
    let stream = Stream::new();
    let (kept, freed) = (client.allocate(&stream, 1000), client.allocate(&stream, 2 * MIB));
    free(freed);
    let before = client.statistics();
    let large = i64::try_from(2 * MIB).expect("a small number");
    let bytes = [
        ClientStat { current: 1024, peak: 1024 + large, allocated: 1024 + large, freed: large },
        ClientStat { current: 1024, peak: 1024, allocated: 1024, freed: 0 },
        ClientStat { current: 0, peak: large, allocated: large, freed: large },
    ];
    assert_eq!(before.allocated_bytes, bytes);
    assert_eq!(before.requested_bytes[1].current, 1000);

    ok(c!(rmm_rs_client_reset_peaks(client.0)));
    let peaks = client.statistics().allocated_bytes;
    assert_eq!(peaks, bytes.map(|stat| ClientStat { peak: stat.current, ..stat }));

    ok(c!(rmm_rs_client_reset_accumulated(client.0)));
    let sums = client.statistics().allocated_bytes;
    assert_eq!(sums, peaks.map(|stat| ClientStat { allocated: 0, freed: 0, ..stat }));
    free(kept);
    let last = client.statistics().allocated_bytes[0];
    assert_eq!(last, ClientStat { current: 0, peak: 1024, allocated: 0, freed: 1024 });
}
