//! Tests of sizes that are no multiples of upstream's page: no more is mapped than the maximum, and
//! all that is mapped is allocated.

use rmm_adaptors::{
    ArenaMemoryResource, BinningMemoryResource, FallbackMemoryResource, FixedSizeMemoryResource,
    GrowthPolicy, LimitingResourceAdaptor, PoolMemoryResource, PoolPreset,
    StatisticsResourceAdaptor, ThreadSafeResourceAdaptor,
};
use rmm_core::{AnyResource, Error, ErrorKind, Resource};
use rmm_resources::{DefaultDeviceMemory, VirtualMemoryResource};
use rmm_sim::{Machine, Schedule};

use crate::support::{MIB, free, layout, stream};

const PAGE: usize = 2 * MIB;
/// All requests are of this size, which divides a page.
const PIECE: usize = 128 << 10;

/// The sizes of a suballocator.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    initial: usize,
    maximum: usize,
    step: usize,
}

type Upper = fn(AnyResource, Sizes) -> Result<AnyResource, Error>;

fn pool_of(
    preset: PoolPreset,
    growth: GrowthPolicy,
    upstream: AnyResource,
    sizes: Sizes,
) -> Result<PoolMemoryResource, Error> {
    let builder = PoolMemoryResource::builder(upstream).preset(preset).growth(growth);
    let builder = builder.initial_size(sizes.initial as u64);
    builder.soft_maximum_size(sizes.step as u64).maximum_size(sizes.maximum as u64).build()
}

const THROUGHPUT: PoolPreset = PoolPreset::Throughput;

/// Every suballocator with a maximum size, and what it does with the sizes.
const UPPERS: [(&str, Upper); 8] = [
    ("pool", |upstream, sizes| {
        pool_of(THROUGHPUT, GrowthPolicy::Geometric, upstream, sizes).map(AnyResource::new)
    }),
    ("exact pool", |upstream, sizes| {
        pool_of(PoolPreset::Compact, GrowthPolicy::Exact, upstream, sizes).map(AnyResource::new)
    }),
    ("low-latency pool", |upstream, sizes| {
        let preset = PoolPreset::LowLatency;
        pool_of(preset, GrowthPolicy::Geometric, upstream, sizes).map(AnyResource::new)
    }),
    ("pool in steps", |upstream, sizes| {
        let growth = GrowthPolicy::FixedStep(sizes.step as u64);
        pool_of(THROUGHPUT, growth, upstream, sizes).map(AnyResource::new)
    }),
    ("reservation", |upstream, sizes| {
        let none = Sizes { initial: 0, ..sizes };
        let pool = pool_of(THROUGHPUT, GrowthPolicy::Geometric, upstream, none)?;
        // No more than the pool may have, and what is left is allocated from the pool.
        let bytes = sizes.initial.min(sizes.maximum / PAGE * PAGE) / PIECE * PIECE;
        let reservation = pool.reserve(bytes as u64)?;
        Ok(AnyResource::new(FallbackMemoryResource::new(reservation, pool)))
    }),
    ("arena", |upstream, sizes| {
        let builder = ArenaMemoryResource::builder(upstream);
        let builder = builder.arena_size(sizes.initial.max(MIB).min(sizes.maximum) as u64);
        builder.maximum_size(sizes.maximum as u64).build().map(AnyResource::new)
    }),
    ("fixed size", |upstream, sizes| {
        let builder = FixedSizeMemoryResource::builder(upstream).block_size(PIECE as u64);
        let builder = builder.blocks((sizes.step / PIECE).clamp(1, sizes.maximum / PIECE));
        builder.maximum_size(sizes.maximum as u64).build().map(AnyResource::new)
    }),
    ("binning", |upstream, sizes| {
        let builder = FixedSizeMemoryResource::builder(upstream).block_size(PIECE as u64);
        let blocks = builder.blocks(1).maximum_size(sizes.maximum as u64).build()?;
        // Nothing is larger than the bin.
        let binning = BinningMemoryResource::builder(blocks.clone());
        Ok(AnyResource::new(binning.bin_of(PIECE as u64, blocks)?.build()))
    }),
];

type Lower = fn() -> AnyResource;

fn pages() -> VirtualMemoryResource {
    VirtualMemoryResource::new().expect("virtual memory")
}

/// Resources that allocate whole pages, directly and below adaptors.
const LOWERS: [(&str, Lower); 6] = [
    ("virtual", || AnyResource::new(pages())),
    ("backing", || DefaultDeviceMemory::of_device().expect("virtual memory")),
    ("limiting", || AnyResource::new(LimitingResourceAdaptor::new(pages(), 1 << 30))),
    ("statistics", || AnyResource::new(StatisticsResourceAdaptor::new(pages()))),
    ("thread-safe", || AnyResource::new(ThreadSafeResourceAdaptor::new(pages()))),
    ("fallback", || AnyResource::new(FallbackMemoryResource::new(pages(), pages()))),
];

/// Fills a suballocator, and checks what is mapped and what it has allocated.
fn check(lower: Lower, upper: Upper, sizes: Sizes, what: &str) {
    let machine = Machine::builder().memory(64 * MIB).schedule(Schedule::Eager).enter();
    let stream = stream();
    let resource = match upper(lower(), sizes) {
        Ok(resource) => resource,
        Err(error) => {
            assert!(sizes.maximum < PAGE, "{what}: {error}");
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{what}: {error}");
            assert!(error.to_string().contains("2097152"), "{what}: {error} names the page");
            return;
        }
    };
    assert!(machine.memory_in_use(0) <= sizes.maximum, "{what}: mapped when it was built");
    let mut blocks = Vec::new();
    while let Ok(block) = resource.allocate(&stream, layout(PIECE)) {
        blocks.push(block);
    }
    let whole = sizes.maximum / PAGE * PAGE;
    assert_eq!(blocks.len() * PIECE, whole, "{what}: allocated");
    assert_eq!(machine.memory_in_use(0), whole, "{what}: mapped");
    for block in blocks {
        free(&resource, &stream, block, PIECE);
    }
    drop(resource);
    assert_eq!(machine.memory_in_use(0), 0, "{what}: returned");
    machine.assert_no_violations();
}

#[test]
fn a_maximum_between_pages_is_kept_and_all_used() {
    let near = [PAGE - PIECE, PAGE, PAGE + 256, 2 * PAGE - 256, 2 * PAGE + PIECE, 5 * MIB];
    for (lower_name, lower) in LOWERS {
        for (upper_name, upper) in UPPERS {
            for maximum in near {
                for initial in [0, PIECE, MIB + 256, PAGE, 3 * MIB, 5 * MIB - 256, maximum] {
                    for step in [PIECE, 3 * MIB] {
                        if initial <= maximum {
                            let sizes = Sizes { initial, maximum, step };
                            let what = format!("{upper_name} over {lower_name}, {sizes:?}");
                            check(lower, upper, sizes, &what);
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn the_pool_says_the_maximum_that_it_keeps() {
    let _machine = Machine::builder().memory(64 * MIB).enter();
    let builder = || PoolMemoryResource::builder(pages());
    let pool = builder().maximum_size(5 << 20).build().expect("a pool");
    assert_eq!(pool.maximum_size(), Some(4 << 20));
    let error = pool.reserve(5 << 20).expect_err("it would map 6 MiB");
    assert_eq!(error.usage().and_then(|usage| usage.limit), Some(4 << 20), "{error}");
    let refused = builder().maximum_size(1 << 20).build().expect_err("no page fits");
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    // A limit of 0 is one that no request fits.
    let none = builder().maximum_size(0).build().expect("a pool");
    assert!(none.reserve(256).expect_err("there is none").is_out_of_memory());
}

#[test]
fn blocks_larger_than_a_page_fill_whole_pages() {
    let machine = Machine::builder().memory(64 * MIB).schedule(Schedule::Eager).enter();
    let stream = stream();
    for (maximum, blocks) in [(4, 1), (5, 1), (6, 2), (8, 2), (9, 2), (10, 3)] {
        let builder = FixedSizeMemoryResource::builder(pages()).block_size(3 << 20).blocks(1);
        let resource = builder.maximum_size(maximum << 20).build().expect("room for a block");
        let mut allocated = Vec::new();
        while let Ok(block) = resource.allocate(&stream, layout(3 * MIB)) {
            allocated.push(block);
        }
        let mapped = machine.memory_in_use(0) as u64;
        assert!(mapped <= maximum << 20, "{mapped} bytes mapped of {maximum} MiB");
        // A block of its own takes two pages.
        assert!(allocated.len() >= blocks / 2 + blocks % 2, "{maximum} MiB");
        for block in allocated {
            free(&resource, &stream, block, 3 * MIB);
        }
    }
    let builder = FixedSizeMemoryResource::builder(pages()).block_size(3 << 20).blocks(1);
    let error = builder.maximum_size(3 << 20).build().expect_err("a block takes 4 MiB");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
}
