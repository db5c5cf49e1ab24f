//! Tests of threads that share a pool: blocks that one thread hands to another, and default streams
//! that end with their thread.

use std::alloc::Layout;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Barrier, mpsc};
use std::thread;

use crate::support::base_seed;
use crate::tag_kernels::Mismatches;
use rmm_adaptors::{PoolMemoryResource, PoolStatistics};
use rmm_core::{CudaEvent, CudaStream, Device, DevicePtr, Error, Resource, StreamFlags};
use rmm_resources::CudaMemoryResource;
use rmm_sim::{Machine, Schedule};

type Pool = PoolMemoryResource;

const THREADS: u64 = 4;
const SEEDS: u64 = 8;
const KIB: usize = 1 << 10;

/// A pseudo-random number generator.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound).expect("a small number")
    }
}

/// A tagged block, and the event after its last use.
struct Parcel {
    block: Block,
    used: CudaEvent,
}

#[derive(Clone, Copy)]
struct Block {
    pointer: DevicePtr,
    layout: Layout,
    tag: u64,
}

/// The state of one thread.
struct Shop<'a> {
    machine: &'a Machine,
    pool: &'a Pool,
    mismatches: &'a Mismatches,
}

impl Shop<'_> {
    fn allocate(&self, stream: &CudaStream, bytes: usize, tag: u64) -> Result<Block, Error> {
        let layout = Layout::from_size_align(bytes, 256).expect("a small size");
        let pointer = self.pool.allocate(stream, layout)?;
        crate::tag_kernels::write(self.machine, stream, pointer, bytes, tag);
        Ok(Block { pointer, layout, tag })
    }

    fn free(&self, stream: &CudaStream, Block { pointer, layout, tag }: Block) {
        crate::tag_kernels::check(
            self.machine,
            stream,
            pointer,
            layout.size(),
            tag,
            self.mismatches,
        );
        // SAFETY: allocated with this layout; all uses are on this stream, or ordered before it by
        // an event.
        unsafe { self.pool.deallocate(stream, pointer, layout) };
    }

    /// Receives blocks from another thread.
    fn receive(&self, stream: &CudaStream, Parcel { block, used }: Parcel) {
        stream.wait(&used).expect("it is of this device");
        self.free(stream, block);
    }
}

/// Allocates, frees, and sends blocks to the next thread.
fn work(
    shop: &Shop<'_>,
    mut numbers: Numbers,
    thread: u64,
    out: SyncSender<Parcel>,
    incoming: Receiver<Parcel>,
) {
    let stream = CudaStream::with_flags(StreamFlags::NON_BLOCKING, 0).expect("a stream");
    let mut live: Vec<Block> = Vec::new();
    for step in 0..400 {
        for parcel in incoming.try_iter() {
            shop.receive(&stream, parcel);
        }
        let bytes = 256 * (1 + numbers.below(256));
        match shop.allocate(&stream, bytes, thread << 32 | step) {
            Ok(block) => live.push(block),
            // This thread may hold just the memory that the others wait for.
            Err(error) => assert!(error.is_out_of_memory(), "{error}"),
        }
        while live.len() > 6 || (numbers.below(2) == 0 && !live.is_empty()) {
            let block = live.swap_remove(numbers.below(live.len() as u64));
            if numbers.below(3) > 0 {
                shop.free(&stream, block);
                continue;
            }
            crate::tag_kernels::write(
                shop.machine,
                &stream,
                block.pointer,
                block.layout.size(),
                block.tag,
            );
            let used = CudaEvent::new().expect("an event");
            used.record(&stream).expect("it is of this device");
            if let Err(mpsc::TrySendError::Full(parcel)) = out.try_send(Parcel { block, used }) {
                shop.receive(&stream, parcel);
            }
        }
        if numbers.below(50) == 0 {
            stream.synchronize().expect("all work can be done");
        }
    }
    drop(out);
    for block in live {
        shop.free(&stream, block);
    }
    for parcel in incoming {
        shop.receive(&stream, parcel);
    }
}

/// Runs threads in a ring, on a pool that is too small for all of them. Returns the pool's
/// statistics.
fn hammer(schedule: Schedule, seed: u64) -> PoolStatistics {
    let machine = Machine::builder().memory(64 << 20).schedule(schedule).build();
    let entered = machine.enter();
    let limit = 768 << 10;
    let pool =
        Pool::builder(CudaMemoryResource::new()).maximum_size(limit).build().expect("a pool");
    let mismatches = Mismatches::default();
    let (senders, mut receivers): (Vec<_>, Vec<_>) = (0..THREADS).map(|_| sync_channel(8)).unzip();
    receivers.rotate_left(1);
    let shop = &Shop { machine: &machine, pool: &pool, mismatches: &mismatches };
    thread::scope(|scope| {
        for ((thread, out), incoming) in (1..).zip(senders).zip(receivers) {
            let numbers = Numbers((seed << 8 | thread).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
            scope.spawn(move || {
                let _entered = shop.machine.enter();
                work(shop, numbers, thread, out, incoming);
            });
        }
    });
    machine.run_all();
    assert_eq!(mismatches.count(), 0, "a block was overwritten while it was in use (seed {seed})");
    let statistics = pool.statistics();
    assert_eq!((statistics.live_bytes, statistics.unknown_frees), (0, 0), "seed {seed}");
    assert!(statistics.peak_reserved_bytes <= limit, "seed {seed}: {statistics:?}");
    drop(pool);
    machine.assert_no_violations();
    assert!(machine.leaks().is_empty(), "{:?}", machine.leaks());
    drop(entered);
    statistics
}

#[test]
fn blocks_are_handed_over_and_never_shared() {
    let (mut waits, mut allocations) = (0, 0);
    for seed in base_seed()..base_seed() + SEEDS {
        for schedule in [Schedule::Seeded(seed), Schedule::Lazy] {
            let statistics = hammer(schedule, seed);
            waits += statistics.stream_waits + statistics.host_waits;
            allocations += statistics.allocations;
        }
    }
    assert!(waits > 0, "the limit is low enough to make streams wait");
    assert!(allocations > 1000, "most requests are served: {allocations}");
}

#[test]
fn threads_end_with_their_default_streams() {
    for seed in base_seed()..base_seed() + SEEDS {
        for schedule in [Schedule::Seeded(seed), Schedule::Lazy] {
            default_streams_end(schedule);
        }
    }
}

/// Waves of threads that work on their own default streams and send blocks to a thread that stays.
fn default_streams_end(schedule: Schedule) {
    let machine = Machine::builder().memory(64 << 20).schedule(schedule).build();
    let _entered = machine.enter();
    let limit = 512 * KIB;
    let pool = Pool::builder(CudaMemoryResource::new())
        .maximum_size(limit as u64)
        .build()
        .expect("a pool");
    let mismatches = Mismatches::default();
    let shop = &Shop { machine: &machine, pool: &pool, mismatches: &mismatches };
    let stays = CudaStream::with_flags(StreamFlags::NON_BLOCKING, 0).expect("a stream");
    for wave in 0..6u64 {
        let (out, incoming) = mpsc::channel();
        let started = Barrier::new(usize::try_from(THREADS).expect("a small number"));
        thread::scope(|scope| {
            for thread in 1..=THREADS {
                let (out, started) = (out.clone(), &started);
                scope.spawn(move || {
                    let _entered = shop.machine.enter();
                    let _current =
                        Device::new(0).and_then(Device::make_current).expect("the device is there");
                    let stream = CudaStream::per_thread();
                    started.wait();
                    for step in 0..20 {
                        let tag = wave << 32 | thread << 16 | step;
                        let Ok(block) = shop.allocate(&stream, 16 * KIB, tag) else { continue };
                        if step % 5 > 0 {
                            shop.free(&stream, block);
                            continue;
                        }
                        let used = CudaEvent::new().expect("an event");
                        used.record(&stream).expect("it is of this device");
                        out.send(Parcel { block, used }).expect("the receiver is alive");
                    }
                });
            }
            drop(out);
            for parcel in incoming {
                shop.receive(&stays, parcel);
                // The staying thread allocates too: from the memory of running and of ended
                // threads.
                if let Ok(block) = shop.allocate(&stays, 40 * KIB, u64::MAX) {
                    shop.free(&stays, block);
                }
            }
        });
    }
    // What the ended threads freed is not lost: all of it can be allocated as one block.
    let all = shop.allocate(&stays, limit, 1).expect("everything was freed");
    shop.free(&stays, all);
    machine.run_all();
    assert_eq!(mismatches.count(), 0, "a block was overwritten while it was in use ({schedule:?})");
    assert_eq!(pool.statistics().live_bytes, 0);
    drop((pool, stays));
    machine.assert_no_violations();
}
