//! Random programs on several streams, some of which are captured at times and their graphs
//! launched while the pool serves other streams: no capture is invalidated, and no graph shares
//! memory with any other owner.

use proptest::prelude::*;
use rmm_adaptors::PoolMemoryResource;
use rmm_core::{CaptureScope, CudaStream, DevicePtr, Resource};
use rmm_resources::CudaMemoryResource;
use rmm_sim::{Machine, Schedule};

use crate::graph_support::{Executable, alone, begin, end, fill};
use crate::support::{Arena, MIB, Pool, base_seed, free, layout, stream};

/// The last of them is a blocking stream.
const STREAMS: usize = 4;

#[derive(Clone, Debug)]
enum Op {
    Allocate { stream: usize, granules: usize },
    Free { which: usize },
    Begin { stream: usize },
    End,
    Launch { which: usize, stream: usize },
    Synchronize { stream: usize },
    Trim,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let stream = 0..STREAMS;
    let granules = prop_oneof![Just(8usize), Just(64), 1usize..400];
    let op = prop_oneof![
        8 => (stream.clone(), granules).prop_map(|(stream, granules)| Op::Allocate { stream, granules }),
        7 => any::<usize>().prop_map(|which| Op::Free { which }),
        1 => stream.clone().prop_map(|stream| Op::Begin { stream }),
        1 => Just(Op::End),
        2 => (any::<usize>(), stream.clone()).prop_map(|(which, stream)| Op::Launch { which, stream }),
        1 => stream.prop_map(|stream| Op::Synchronize { stream }),
        1 => Just(Op::Trim),
    ];
    proptest::collection::vec(op, 1..150)
}

/// The resource under test.
trait Allocator: Resource {
    fn trim(&self) {}

    /// Releases the memory of the graphs, which are destroyed. Returns the live bytes after that.
    ///
    /// # Safety
    /// The contract of [`PoolMemoryResource::release_graph_memory`].
    unsafe fn release(&self) -> u64;
}

impl Allocator for Pool {
    fn trim(&self) {
        Pool::trim(self, 0);
    }

    unsafe fn release(&self) -> u64 {
        // SAFETY: the caller's contract.
        unsafe { self.release_graph_memory() };
        self.statistics().live_bytes
    }
}

impl Allocator for Arena {
    unsafe fn release(&self) -> u64 {
        // SAFETY: the caller's contract.
        unsafe { self.release_graph_memory() };
        self.statistics().live_bytes
    }
}

struct Live {
    pointer: DevicePtr,
    bytes: usize,
    stream: usize,
    /// The number of the capture in which it was allocated: the graph uses it until the end.
    graph: Option<usize>,
}

fn run<R: Allocator>(ops: &[Op], schedule: Schedule, make: impl FnOnce() -> R) {
    let _alone = alone();
    let machine = Machine::builder().memory(64 * MIB).schedule(schedule).enter();
    let pool = make();
    let streams: Vec<CudaStream> = (0..STREAMS)
        .map(|place| if place == 3 { CudaStream::new().expect("a stream") } else { stream() })
        .collect();
    let mut live: Vec<Live> = Vec::new();
    let mut graphs: Vec<Executable> = Vec::new();
    let mut captured: Option<(usize, CaptureScope)> = None;
    for op in ops {
        let on = captured.as_ref().map(|&(stream, _)| stream);
        match *op {
            Op::Allocate { stream, granules } => {
                let bytes = granules * 256;
                let Ok(pointer) = pool.allocate(&streams[stream], layout(bytes)) else {
                    continue;
                };
                fill(&streams[stream], pointer, bytes);
                live.push(Live {
                    pointer,
                    bytes,
                    stream,
                    graph: (on == Some(stream)).then_some(graphs.len()),
                });
            }
            Op::Free { which } if !live.is_empty() => {
                let which = which % live.len();
                // A graph's allocation is freed in its capture or at the end.
                if live[which].graph.is_some_and(|graph| on.is_none() || graph != graphs.len()) {
                    continue;
                }
                let block = live.swap_remove(which);
                fill(&streams[block.stream], block.pointer, block.bytes);
                free(&pool, &streams[block.stream], block.pointer, block.bytes);
            }
            Op::Begin { stream } if on.is_none() => {
                // The graph may be launched on any stream: earlier work of the captured stream must
                // have completed.
                streams[stream].synchronize().expect("nothing is captured");
                let scope = CaptureScope::announce();
                begin(&streams[stream]);
                captured = Some((stream, scope));
            }
            Op::End => {
                if let Some((stream, scope)) = captured.take() {
                    graphs.push(end(&streams[stream]));
                    drop(scope);
                }
            }
            Op::Launch { which, stream } if !graphs.is_empty() && on != Some(stream) => {
                graphs[which % graphs.len()].launch(&streams[stream]);
            }
            Op::Synchronize { stream } if on.is_none() => {
                streams[stream].synchronize().expect("nothing is captured");
            }
            Op::Trim => {
                pool.trim();
            }
            _ => {}
        }
    }
    if let Some((stream, _scope)) = captured {
        graphs.push(end(&streams[stream]));
    }
    drop(graphs);
    for stream in &streams {
        stream.synchronize().expect("nothing is captured");
    }
    for block in live {
        free(&pool, &streams[block.stream], block.pointer, block.bytes);
    }
    // SAFETY: no graph is left, and all work has completed.
    assert_eq!(unsafe { pool.release() }, 0);
    drop((pool, streams));
    machine.assert_no_violations();
    assert!(machine.leaks().is_empty(), "{:?}", machine.leaks());
}

fn pool(limit: u64) -> Pool {
    PoolMemoryResource::builder(CudaMemoryResource::new())
        .initial_size(limit / 2 / 256 * 256)
        .maximum_size(limit)
        .build()
        .expect("a pool")
}

fn arena(bytes: u64) -> Arena {
    Arena::builder(CudaMemoryResource::new()).arena_size(bytes).build().expect("an arena")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn graphs_share_pool_memory_with_no_one(ops in ops(), seed in any::<u64>(), granules in 100u64..3000) {
        run(&ops, Schedule::Seeded(seed ^ base_seed()), || pool(granules * 256));
    }

    #[test]
    fn graphs_share_no_memory_under_the_lazy_schedule(ops in ops(), granules in 100u64..3000) {
        run(&ops, Schedule::Lazy, || pool(granules * 256));
    }

    #[test]
    fn graphs_share_arena_memory_with_no_one(
        ops in ops(),
        lazy in any::<bool>(),
        seed in any::<u64>(),
        kib in 1024u64..6000,
    ) {
        let schedule = if lazy { Schedule::Lazy } else { Schedule::Seeded(seed ^ base_seed()) };
        run(&ops, schedule, || arena(kib << 10));
    }
}
