//! Tests that no avoidable allocation failure occurs: random programs near the limit, in which a
//! model judges each failure. The model knows only the live blocks, and treats everything between
//! them as free, on whichever stream they were freed and whatever the device still does.

use proptest::prelude::*;
use rmm_adaptors::{GrowthPolicy, PoolBlock, PoolMemoryResource, PoolPreset, ReleasePolicy};
use rmm_core::{Introspect, SynchronousResource};
use rmm_resources::{CudaMemoryResource, VirtualMemoryResource};
use rmm_sim::{Machine, Schedule};

use crate::harness::{Allocator, Fixture, Runner};
use crate::programs::{Op, ops};
use crate::support::Arena;

const PAGE: u64 = 2 << 20;

const PRESETS: [PoolPreset; 3] =
    [PoolPreset::Throughput, PoolPreset::Compact, PoolPreset::Deterministic];

/// Memory that a release policy has returned must not be missing later.
const POLICIES: [ReleasePolicy; 3] = [
    ReleasePolicy::Never,
    ReleasePolicy::Above { bytes: 2 << 20 },
    ReleasePolicy::Unused { operations: 10 },
];

/// Runs a program over the resource of `make`. From there on, `judge` examines each failed
/// allocation: the live blocks as addresses and bytes, and the bytes that were requested.
fn run<R: Allocator, J: Fn(&R, &[(u64, u64)], u64) + 'static>(
    ops: &[Op],
    granule: usize,
    make: impl FnOnce() -> (R, J),
) {
    let machine = Machine::builder().memory(64 << 20).schedule(Schedule::Lazy).build();
    let entered = machine.enter();
    let (resource, judge) = make();
    let mut runner = Runner::sharing(Fixture::in_granules(&machine, resource, granule), 0);
    runner.judge_failures(judge);
    for op in ops {
        runner.step(op);
    }
    runner.finish();
    assert_eq!(runner.failed_calls, 0, "no driver call fails here");
    drop(runner);
    machine.assert_no_violations();
    drop(entered);
}

/// The free ranges between the live ones, which are sorted, from `start` to `end`.
fn gaps(start: u64, end: u64, live: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let starts = std::iter::once(start).chain(live.iter().map(|&(at, bytes)| at + bytes));
    let ends = live.iter().map(|&(at, _)| at).chain([end]);
    starts.zip(ends).filter(|(start, end)| start < end).collect()
}

/// One upstream block or several that are contiguous.
struct Segment {
    base: u64,
    bytes: u64,
    live: Vec<(u64, u64)>,
}

/// The own map of a pool or an arena, after it was compared with what the program knows. Blocks of
/// up to 1 MiB may be larger than requested, by less than a sixteenth.
fn segments(pool: &impl SynchronousResource, known: &[(u64, u64)]) -> Vec<Segment> {
    let mut segments: Vec<Segment> = Vec::new();
    let mut number = None;
    for block in pool.try_value::<Vec<PoolBlock>>().expect("a map") {
        let base = block.segment_base.0;
        if number.replace(block.segment) != Some(block.segment) {
            segments.push(Segment { base, bytes: 0, live: Vec::new() });
        }
        let segment = segments.last_mut().expect("there is one now");
        segment.bytes += block.size;
        if block.is_live {
            segment.live.push((base + block.offset, block.size));
        }
    }
    let mut live: Vec<(u64, u64)> =
        segments.iter().flat_map(|segment| segment.live.iter().copied()).collect();
    live.sort_unstable();
    assert_eq!(live.len(), known.len(), "what is handed out is what the program has");
    for (block, asked) in live.iter().zip(known) {
        assert!(block.0 == asked.0 && block.1 >= asked.1, "{block:?} for {asked:?}");
        assert!((block.1 - asked.1) * 16 < block.1, "{block:?} for {asked:?}");
    }
    segments
}

/// The judge of separate upstream blocks: each is one range, and can be returned if no block in it
/// is live.
fn judge_pieces<R: SynchronousResource>(limit: u64) -> impl Fn(&R, &[(u64, u64)], u64) {
    move |pool, known, asked| {
        let mut held = 0;
        for Segment { base, bytes, live } in segments(pool, known) {
            for (start, end) in gaps(base, base + bytes, &live) {
                assert!(end - start < asked, "{asked} bytes fit between {start:#x} and {end:#x}");
            }
            held += if live.is_empty() { 0 } else { bytes };
        }
        assert!(held + asked > limit, "{held} bytes are held of {limit}, {asked} asked for");
    }
}

/// The judge of a pool of pages: each without a live block can be unmapped, and mapped again at any
/// address.
fn judge_pages(limit: u64) -> impl Fn(&PoolMemoryResource, &[(u64, u64)], u64) {
    move |pool, known, asked| {
        let pages = |start: u64, end: u64| start / PAGE..end.div_ceil(PAGE);
        let mut live_pages: Vec<u64> =
            known.iter().flat_map(|&(at, bytes)| pages(at, at + bytes)).collect();
        let segments = segments(pool, known);
        live_pages.extend(segments.iter().flat_map(|segment| {
            segment.live.iter().flat_map(|&(at, bytes)| pages(at, at + bytes))
        }));
        live_pages.sort_unstable();
        live_pages.dedup();
        let missing = |start: u64| {
            let missing =
                pages(start, start + asked).filter(|page| live_pages.binary_search(page).is_err());
            missing.count() as u64
        };
        // Wherever a block fits best, one of its ends is that of a gap or of a page.
        let places = segments.iter().flat_map(|Segment { base, live, .. }| {
            gaps(*base, u64::MAX / 2, live).into_iter().flat_map(|(start, end)| {
                let firsts = [start, start.next_multiple_of(PAGE)];
                let lasts = [end, end / PAGE * PAGE].map(|end| end.saturating_sub(asked));
                let places = firsts.into_iter().chain(lasts);
                places.filter(move |&place| place >= start && place + asked <= end)
            })
        });
        let least = places.map(missing).min().unwrap_or(asked.div_ceil(PAGE));
        let held = (live_pages.len() as u64 + least) * PAGE;
        assert!(held > limit, "{held} bytes of {limit} would do for {asked} more");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_pool_has_no_avoidable_failure(
        ops in ops(150),
        granules in 100usize..1500,
        initial in 0usize..=100,
        is_exact in any::<bool>(),
        preset in 0..PRESETS.len(),
        policy in 0..POLICIES.len(),
        granule in prop_oneof![Just(256), Just(2048)],
    ) {
        let limit = (granules * granule) as u64;
        let growth = if is_exact { GrowthPolicy::Exact } else { GrowthPolicy::Geometric };
        let make = || {
            let builder = PoolMemoryResource::builder(CudaMemoryResource::new());
            let builder = builder.maximum_size(limit).initial_size((initial * granule) as u64);
            let pool = builder.growth(growth).preset(PRESETS[preset]).release(POLICIES[policy]).build().expect("a pool");
            (pool, judge_pieces(limit))
        };
        run(&ops, granule, make);
    }

    #[test]
    fn a_pool_of_pages_has_no_avoidable_failure(
        ops in ops(150),
        pages in 1u64..20,
        preset in 0..PRESETS.len(),
        policy in 0..POLICIES.len(),
        granule in prop_oneof![Just(2048), Just(16 << 10)],
    ) {
        let limit = pages * PAGE;
        let make = || {
            let builder = PoolMemoryResource::builder(VirtualMemoryResource::new().expect("pages"));
            let pool = builder.maximum_size(limit).preset(PRESETS[preset]).release(POLICIES[policy]).build().expect("a pool");
            (pool, judge_pages(limit))
        };
        run(&ops, granule, make);
    }

    #[test]
    fn an_arena_has_no_avoidable_failure(
        ops in ops(150),
        kib in 1024usize..5000,
        granule in prop_oneof![Just(256), Just(2048), Just(8192)],
    ) {
        let bytes = kib << 10;
        let make = || {
            let arena = Arena::builder(CudaMemoryResource::new()).arena_size(bytes as u64).build().expect("an arena");
            (arena, judge_pieces(bytes as u64))
        };
        run(&ops, granule, make);
    }
}
