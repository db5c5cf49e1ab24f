//! Tests that the figures printed of a resource are those that it counts itself.

use std::fmt::Write as _;

use rmm_adaptors::{
    ArenaMemoryResource, BinningMemoryResource, FallbackMemoryResource, FixedSizeMemoryResource,
    PoolMemoryResource, PoolStatistics,
};
use rmm_core::{AnyResource, CudaStream, DevicePtr, ErrorKind, Introspect as _, current_driver};
use rmm_resources::CudaAsyncMemoryResource;
use rmm_sim::{Machine, Schedule};
use rmm_spec::ResourceSpec;
use rmm_spec::stacks::STACKS;

use super::super::device::Work;
use super::super::options::ReplayOptions;
use super::*;
use crate::page::answers::Answers;
use crate::trace::read_from;

/// The values of the placeholders in the list of stacks: a pool of this size has to wait.
const VALUES: [(&str, &str); 3] = [("max", "6MiB"), ("bins", "12..14"), ("size", "64MiB")];

/// Stacks that the list does not have: each pool that has to wait, alone and below others.
const MORE: [&str; 9] = [
    "pool(max=6MiB)",
    "pool(virtual, max=6MiB)",
    "pool(managed, max=6MiB)",
    "statistics(pool(max=6MiB))",
    "limiting(tracking(pool(virtual, max=6MiB)), limit=1GiB)",
    "thread-safe(pool(managed, max=6MiB))",
    "binning(pool(max=8MiB), bins=12..13)",
    "pool(pool(max=12MiB), max=6MiB)",
    "fallback(pool(max=2MiB), pool(cuda, max=6MiB))",
];

/// Two streams that use most of a small pool in turn, and one request at an odd place that makes
/// any pool grow for the time of one event.
fn trace() -> Trace {
    let mut rows = String::from("Thread,Time,Action,Pointer,Size,Stream\n");
    let mut row = |action: &str, block: u64, size: u64, stream: u64| {
        writeln!(rows, "1,0,{action},{:#x},{size},{stream:#x}", (block + 1) << 32).expect("text");
    };
    for turn in 0..6 {
        let stream = 0x10 + turn % 2;
        for block in 0..4 {
            row("allocate", block, 1 << 20, stream);
        }
        if turn == 3 {
            row("allocate", 9, 900_000, stream);
            row("free", 9, 900_000, stream);
        }
        row("allocate", 5, 3000, stream);
        row("free", 5, 3000, stream);
        for block in 0..4 {
            row("free", block, 1 << 20, stream);
        }
    }
    read_from("log.csv", rows.as_bytes()).expect("a log")
}

/// Fills each block.
#[derive(Debug)]
struct Fill;

impl Work for Fill {
    fn enqueue(
        &self,
        _: &'static str,
        stream: &CudaStream,
        block: DevicePtr,
        bytes: usize,
    ) -> Result<(), Error> {
        // SAFETY: the block is allocated, and its stream exists.
        let code = unsafe { current_driver()?.cuMemsetD8Async(block, 0, bytes, stream.as_raw()) };
        rmm_core::check("cuMemsetD8Async", code)
    }
}

/// The waits that the resource counts itself.
fn waits_of(subject: &ReplaySubject) -> u64 {
    subject.stream_waits().unwrap_or(0)
}

/// The counters of each pool of the stack, found by its type; the lowest first.
fn pools(resource: &AnyResource) -> Vec<PoolStatistics> {
    if let Some(both) = resource.find::<FallbackMemoryResource>() {
        return [pools(both.upstream()), pools(both.fallback())].concat();
    }
    let mut of_stack: Vec<&PoolMemoryResource> =
        resource.stack().filter_map(|below| below.find()).collect();
    of_stack.dedup();
    let mut found: Vec<PoolStatistics> =
        of_stack.into_iter().rev().map(PoolMemoryResource::statistics).collect();
    if let Some(binning) = resource.find::<BinningMemoryResource>() {
        let bins = binning.bins().filter_map(|(_, bin)| bin.find::<FixedSizeMemoryResource>());
        found.extend(bins.map(FixedSizeMemoryResource::statistics));
    } else if let Some(blocks) = resource.find::<FixedSizeMemoryResource>() {
        found.push(blocks.statistics());
    } else if let Some(arena) = resource.find::<ArenaMemoryResource>() {
        found.push(arena.statistics());
    }
    found
}

#[test]
fn every_stack_is_reported_as_it_counts_itself() {
    let trace = trace();
    let specs = STACKS.iter().map(|stack| stack.spec_with(&VALUES)).chain(MORE.map(str::to_owned));
    let (mut with_waits, mut with_maps) = (0, 0);
    for spec in specs {
        let _machine = Machine::builder().schedule(Schedule::Lazy).enter();
        let resource = match spec.parse::<ResourceSpec>().expect("a specification").build() {
            Ok(resource) => resource,
            Err(error) if error.kind() == ErrorKind::Unsupported => continue,
            Err(error) => panic!("{spec}: {error}"),
        };
        let subject = ReplaySubject::new(resource);
        let player =
            Player::new(&trace, ReplayOptions::default()).expect("streams").with_work(&Fill);
        let found = observe(&trace, &player, &subject, &|_| ()).expect("the driver answers");
        assert_eq!((found.failures, found.first_failure), (0, None), "{spec}");

        let pools = pools(&subject.resource);
        let [is_several, is_one] = [spec.starts_with("fallback"), !pools.is_empty()];
        if is_several {
            let peaks: u64 = pools.iter().map(|pool| pool.peak_reserved_bytes).sum();
            assert!(found.peak_reserved <= peaks, "{spec}");
        } else if is_one {
            assert_eq!(found.peak_reserved, pools[0].peak_reserved_bytes, "{spec}");
            assert_eq!(found.pool_peak_live, Some(pools[0].peak_live_bytes), "{spec}");
        } else if let Some(pool) = subject.resource.find::<CudaAsyncMemoryResource>() {
            assert_eq!(found.peak_reserved, pool.peak_reserved_bytes().expect("it counts"));
        }
        assert!(found.peak_reserved >= found.peak_live, "{spec}: {}", found.peak_reserved);

        let waits: u64 = pools.iter().map(|pool| pool.stream_waits).sum();
        assert_eq!(subject.stream_waits().unwrap_or(0), waits, "{spec}");
        assert_eq!(subject.stream_waits().is_none(), spec.contains("cuda-async"), "{spec}");
        with_waits += usize::from(waits > 0);

        let view = &found.view;
        assert_eq!(view.segments.is_empty(), pools.is_empty(), "{spec}: its memory");
        with_maps += usize::from(!view.segments.is_empty());
        let shown = view.reserved.iter().flatten().map(|&(_, bytes)| bytes).max();
        assert!(shown <= Some(found.peak_reserved), "{spec}: {shown:?}");
        let counted: u64 = view.waits.iter().map(|&(_, waits)| waits).sum();
        assert_eq!(counted, waits_of(&subject), "{spec}: its waits");
        let answers = Answers::of(view);
        assert_eq!(answers.peak.bytes, found.peak_live, "{spec}");
    }
    assert!(with_waits >= 10, "only {with_waits} stacks waited");
    assert!(with_maps >= 24, "only {with_maps} stacks have pools");
}

#[test]
fn a_failure_is_told_without_figures_that_a_page_has_itself() {
    for (spec, memory, text) in [
        ("pool(cuda, max=2MiB)", 1 << 30, "out of memory: pool could not allocate; "),
        ("limiting(cuda, limit=2MiB)", 1 << 30, "out of memory: limiting could not allocate; "),
        ("cuda", 2 << 20, "out of memory: cuMemAlloc_v2 could not allocate: "),
    ] {
        let _machine = Machine::builder().memory(memory).enter();
        let resource = spec.parse::<ResourceSpec>().expect("a specification").build();
        let subject = ReplaySubject::new(resource.expect("a resource"));
        let trace = trace();
        let player = Player::new(&trace, ReplayOptions::default()).expect("streams");
        let found = observe(&trace, &player, &subject, &|_| ()).expect("the driver answers");
        let failure = &found.view.failures[0];
        assert!(failure.text.starts_with(text), "{}", failure.text);
        for figure in ["stream #", "1048576", "reserved"] {
            assert!(!failure.text.contains(figure), "{}", failure.text);
        }
        // The terminal has all of it.
        let said = found.first_failure.expect("it failed");
        assert!(said.contains("1.0 MiB (1048576 bytes, alignment 256)"), "{said}");
    }
}
