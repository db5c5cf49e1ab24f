//! No block is handed out while another stream may still use it: random programs on several streams, in which each block is
//! written when it is allocated and read back, in stream order, just before it is freed.

use std::alloc::Layout;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;
use rmm_adaptors::PoolMemoryResource;
use rmm_core::{CudaEvent, CudaStream, DevicePtr, Resource, StreamFlags, SyncResource};
use rmm_resources::CudaMemoryResource;
use rmm_sim::{Kernel, Machine, Schedule};

#[derive(Clone, Debug)]
enum Op {
    Allocate {
        stream: usize,
        granules: usize,
    },
    /// Allocates for anybody, writes on one stream.
    AllocateSync {
        stream: usize,
        granules: usize,
    },
    Free {
        which: usize,
    },
    /// Frees on another stream than that of the last use, which waits first.
    FreeElsewhere {
        which: usize,
        stream: usize,
    },
    Replace {
        stream: usize,
    },
    Synchronize {
        stream: usize,
    },
    Wait {
        stream: usize,
        other: usize,
    },
    Trim,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let (stream, which) = (0usize..4, any::<usize>());
    // Some sizes come often, so that blocks are passed on as they are.
    let granules = prop_oneof![Just(8usize), Just(64), 1usize..400];
    let op = prop_oneof![
        8 => (stream.clone(), granules.clone()).prop_map(|(stream, granules)| Op::Allocate { stream, granules }),
        1 => (stream.clone(), granules).prop_map(|(stream, granules)| Op::AllocateSync { stream, granules }),
        7 => which.clone().prop_map(|which| Op::Free { which }),
        2 => (which, stream.clone()).prop_map(|(which, stream)| Op::FreeElsewhere { which, stream }),
        1 => stream.clone().prop_map(|stream| Op::Replace { stream }),
        1 => stream.clone().prop_map(|stream| Op::Synchronize { stream }),
        1 => (stream.clone(), stream).prop_map(|(stream, other)| Op::Wait { stream, other }),
        1 => Just(Op::Trim),
    ];
    proptest::collection::vec(op, 1..150)
}

struct Live {
    pointer: DevicePtr,
    layout: Layout,
    tag: u64,
    /// Kept: a block may outlive its place among the streams.
    stream: CudaStream,
}

struct World {
    machine: Machine,
    pool: PoolMemoryResource<CudaMemoryResource>,
    streams: Vec<CudaStream>,
    live: Vec<Live>,
    next_tag: u64,
    wrong: Arc<AtomicU64>,
}

fn new_stream() -> CudaStream {
    CudaStream::with_flags(StreamFlags::NON_BLOCKING, 0).unwrap()
}

impl World {
    fn write(&self, stream: &CudaStream, pointer: DevicePtr, bytes: usize, tag: u64) {
        // The first and the last word of the block carry the tag.
        let last = DevicePtr(pointer.0 + bytes as u64 - 8);
        let kernel = Kernel::new("write", move |memory| {
            memory.write(pointer, &tag.to_le_bytes()).unwrap();
            memory.write(last, &tag.to_le_bytes()).unwrap();
        });
        self.machine.launch(stream.as_raw(), kernel.writes(pointer, bytes)).unwrap();
    }

    fn check(&self, stream: &CudaStream, pointer: DevicePtr, bytes: usize, tag: u64) {
        let wrong = Arc::clone(&self.wrong);
        let last = DevicePtr(pointer.0 + bytes as u64 - 8);
        let kernel = Kernel::new("check", move |memory| {
            for place in [pointer, last] {
                let mut found = [0; 8];
                memory.read(place, &mut found).unwrap();
                if u64::from_le_bytes(found) != tag {
                    wrong.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        self.machine.launch(stream.as_raw(), kernel.reads(pointer, bytes)).unwrap();
    }

    fn allocate(&mut self, stream: usize, granules: usize, sync: bool) {
        let stream = self.streams[stream].clone();
        let layout = Layout::from_size_align(granules * 256, 256).unwrap();
        let allocated = if sync {
            self.pool.allocate_sync(layout)
        } else {
            self.pool.allocate(stream.as_ref(), layout)
        };
        let Ok(pointer) = allocated else { return };
        let tag = self.next_tag;
        self.next_tag += 1;
        self.write(&stream, pointer, layout.size(), tag);
        self.live.push(Live { pointer, layout, tag, stream });
    }

    fn free(&mut self, which: usize, elsewhere: Option<usize>) {
        if self.live.is_empty() {
            return;
        }
        let Live { pointer, layout, tag, mut stream } =
            self.live.swap_remove(which % self.live.len());
        if let Some(other) = elsewhere {
            let event = CudaEvent::new().unwrap();
            event.record(stream.as_ref()).unwrap();
            stream = self.streams[other].clone();
            stream.as_ref().wait(&event).unwrap();
        }
        self.check(&stream, pointer, layout.size(), tag);
        // SAFETY: allocated with this layout; all uses are on this stream or ordered before by the event.
        unsafe { self.pool.deallocate(stream.as_ref(), pointer, layout) };
    }

    fn step(&mut self, op: &Op) {
        match *op {
            Op::Allocate { stream, granules } => self.allocate(stream, granules, false),
            Op::AllocateSync { stream, granules } => self.allocate(stream, granules, true),
            Op::Free { which } => self.free(which, None),
            Op::FreeElsewhere { which, stream } => self.free(which, Some(stream)),
            Op::Replace { stream } => self.streams[stream] = new_stream(),
            Op::Synchronize { stream } => self.streams[stream].synchronize().unwrap(),
            Op::Wait { stream, other } => {
                let event = CudaEvent::new().unwrap();
                event.record(self.streams[other].as_ref()).unwrap();
                self.streams[stream].as_ref().wait(&event).unwrap();
            }
            Op::Trim => {
                self.pool.trim(0);
            }
        }
    }
}

fn run(ops: &[Op], schedule: Schedule, limit: usize) {
    let machine = Machine::builder().memory(64 << 20).schedule(schedule).build();
    let entered = machine.enter();
    let pool =
        PoolMemoryResource::builder(CudaMemoryResource::new()).maximum_size(limit).build().unwrap();
    let streams = (0..4).map(|_| new_stream()).collect();
    let wrong = Arc::new(AtomicU64::new(0));
    let mut world = World {
        machine: machine.clone(),
        pool,
        streams,
        live: Vec::new(),
        next_tag: 1,
        wrong: Arc::clone(&wrong),
    };
    for op in ops {
        world.step(op);
    }
    while !world.live.is_empty() {
        world.free(0, None);
    }
    let World { pool, streams, .. } = world;
    machine.run_all();
    assert_eq!(wrong.load(Ordering::Relaxed), 0, "a block was overwritten while it was in use");
    assert_eq!(pool.statistics().live_bytes, 0);
    assert_eq!(pool.statistics().unknown_frees, 0);
    drop((pool, streams));
    assert!(machine.violations().is_empty(), "{:?}", machine.violations());
    assert!(machine.leaks().is_empty(), "{:?}", machine.leaks());
    drop(entered);
}

/// The seed of the run's schedules, so that more of them can be tried: `RMM_SIM_SEED`.
fn base_seed() -> u64 {
    std::env::var("RMM_SIM_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn blocks_are_never_shared(ops in ops(), seed in any::<u64>(), granules in 100usize..3000) {
        run(&ops, Schedule::Seeded(seed ^ base_seed()), granules * 256);
    }

    #[test]
    fn blocks_are_never_shared_when_everything_is_late(ops in ops(), granules in 100usize..3000) {
        run(&ops, Schedule::Adversarial, granules * 256);
    }
}
