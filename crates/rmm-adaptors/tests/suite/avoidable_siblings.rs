//! Tests that no avoidable allocation failure occurs with several pools on one device: random
//! programs near the device's memory, in which a model judges each failure. The model knows only
//! the live blocks: everything else that any of the pools holds could be returned.

use std::rc::Rc;

use proptest::prelude::*;
use rmm_adaptors::{GrowthPolicy, LimitingResourceAdaptor, PoolMemoryResource, PoolPreset};
use rmm_core::AnyResource;
use rmm_resources::{CudaMemoryResource, VirtualMemoryResource};
use rmm_sim::{Machine, Schedule};

use crate::harness::{Fixture, Runner};
use crate::programs::{Op, STREAMS, ops};

type Pool = PoolMemoryResource;

const PAGE: u64 = 2 << 20;
/// Bytes of a granule: a block is of up to 399.
const GRANULE: usize = 16 << 10;

const PRESETS: [PoolPreset; 3] =
    [PoolPreset::Throughput, PoolPreset::Compact, PoolPreset::Deterministic];

/// Of what a pool is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// Upstream blocks of `cudaMalloc`.
    Blocks,
    /// Pages of virtual memory.
    Pages,
}

/// Where a block starts, its bytes, and whether it is live.
type Block = (u64, u64, bool);

/// A pool and its kind.
#[derive(Clone)]
struct Held {
    pool: Pool,
    kind: Kind,
}

impl Held {
    /// The bytes that live blocks keep the pool from returning, and the longest range in what
    /// remains that needs no more of upstream. Upstream blocks take up whole `units`.
    fn needs(&self, unit: u64) -> (u64, u64) {
        let (mut held, mut longest) = (0, 0);
        let mut segments: Vec<(usize, Vec<Block>)> = Vec::new();
        for block in self.pool.blocks() {
            let block_of = (block.segment_base.0 + block.offset, block.size, block.is_live);
            match segments.last_mut() {
                Some((segment, blocks)) if *segment == block.segment => blocks.push(block_of),
                _ => segments.push((block.segment, vec![block_of])),
            }
        }
        for (_, blocks) in segments {
            if self.kind == Kind::Pages {
                let live = blocks.iter().filter(|(.., is_live)| *is_live);
                let mut pages: Vec<u64> =
                    live.flat_map(|&(at, size, _)| at / PAGE..(at + size).div_ceil(PAGE)).collect();
                pages.dedup();
                held += pages.len() as u64 * PAGE;
            } else if blocks.iter().any(|(.., is_live)| *is_live) {
                held += blocks.iter().map(|(_, size, _)| size).sum::<u64>().next_multiple_of(unit);
            }
            let (mut free, mut end) = (0, 0);
            for (at, size, is_live) in blocks {
                free = if is_live { 0 } else { size + if at == end { free } else { 0 } };
                (end, longest) = (at + size, longest.max(free));
            }
        }
        (held, longest)
    }
}

/// Pools on one machine, each with its own thread's part of the program. The driver gives memory in
/// pages, a limit in bytes: `unit` is what an upstream block takes up a multiple of.
fn run(
    programs: &[Vec<Op>],
    memory_pages: u64,
    make: impl Fn(usize) -> (AnyResource, Kind),
    preset: impl Fn(usize) -> PoolPreset,
    (limit, unit): (u64, u64),
) -> u64 {
    let memory = usize::try_from(memory_pages * PAGE).expect("it is little");
    let machine = Machine::builder().memory(memory).schedule(Schedule::Lazy).build();
    let entered = machine.enter();
    let all: Rc<Vec<Held>> = Rc::new(
        (0..programs.len())
            .map(|number| {
                let (upstream, kind) = make(number);
                let builder = PoolMemoryResource::builder(upstream).preset(preset(number));
                let pool = builder.growth(GrowthPolicy::Geometric).build().expect("a pool");
                Held { pool, kind }
            })
            .collect(),
    );
    let mut runners: Vec<Runner<Pool>> = (0..programs.len())
        .map(|number| {
            let fixture = Fixture::in_granules(&machine, all[number].pool.clone(), GRANULE);
            let mut runner = Runner::on_streams(fixture, number as u64, STREAMS);
            let all = Rc::clone(&all);
            runner.judge_failures(move |_, _, asked| {
                let (_, longest) = all[number].needs(unit);
                assert!(longest < asked, "{asked} bytes fit into {longest} free ones");
                let held: u64 = all.iter().map(|pool| pool.needs(unit).0).sum();
                // Blocks of pages take up whole pages.
                let asked = match all[number].kind {
                    Kind::Pages => asked.next_multiple_of(PAGE),
                    Kind::Blocks => asked.next_multiple_of(unit),
                };
                assert!(
                    held + asked > limit,
                    "{held} bytes are held of {limit}, {asked} asked for"
                );
            });
            runner
        })
        .collect();
    let longest = programs.iter().map(Vec::len).max().unwrap_or(0);
    for step in 0..longest {
        for (runner, program) in runners.iter_mut().zip(programs) {
            if let Some(op) = program.get(step) {
                runner.step(op);
            }
        }
    }
    let refused = runners.iter().map(|runner| runner.failed_allocations).sum();
    for mut runner in runners {
        runner.finish();
        assert_eq!(runner.failed_calls, 0, "no driver call fails here");
    }
    drop(all);
    machine.assert_no_violations();
    assert!(machine.leaks().is_empty(), "{:?}", machine.leaks());
    drop(entered);
    refused
}

fn upstream_of(kind: Kind) -> AnyResource {
    match kind {
        Kind::Blocks => AnyResource::new(CudaMemoryResource::new()),
        Kind::Pages => AnyResource::new(VirtualMemoryResource::new().expect("pages")),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn several_pools_have_no_avoidable_failure(
        programs in proptest::collection::vec(ops(120), 2..4),
        pages in 8_u64..40,
        kinds in 0_u8..8,
        presets in 0_usize..27,
    ) {
        let kind = |number: usize| if kinds >> number & 1 == 0 { Kind::Blocks } else { Kind::Pages };
        let preset = |number: usize| PRESETS[presets / 3_usize.pow(u32::try_from(number).unwrap()) % 3];
        run(&programs, pages, |number| (upstream_of(kind(number)), kind(number)), preset, (pages * PAGE, PAGE));
    }

    #[test]
    fn pools_over_one_limit_have_no_avoidable_failure(
        programs in proptest::collection::vec(ops(120), 2..4),
        pages in 8_u64..30,
        presets in 0_usize..27,
    ) {
        let limit = LimitingResourceAdaptor::new(CudaMemoryResource::new(), pages * PAGE);
        let preset = |number: usize| PRESETS[presets / 3_usize.pow(u32::try_from(number).unwrap()) % 3];
        let make = |_| (AnyResource::new(limit.clone()), Kind::Blocks);
        run(&programs, pages * 2, make, preset, (pages * PAGE, 1));
    }
}

/// The model is not idle: programs at the limit are refused now and then.
#[test]
fn programs_of_several_pools_reach_the_limit() {
    use crate::programs::drawn;
    let programs: Vec<Vec<Op>> = (0..3).map(|thread| drawn(ops(400), 7, thread)).collect();
    let make = |_| (upstream_of(Kind::Blocks), Kind::Blocks);
    let refused = run(&programs, 8, make, |_| PoolPreset::Throughput, (8 * PAGE, PAGE));
    assert!(refused > 0);
}
