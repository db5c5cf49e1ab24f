//! What the counters call fragmentation is what a request cannot have.

use rmm_adaptors::PoolMemoryResource;
use rmm_core::{DeviceAccessible, DevicePtr, HasProperty, Resource};
use rmm_resources::{
    CudaMemoryResource, DefaultDeviceMemory, ManagedMemoryResource, VirtualMemoryResource,
};
use rmm_sim::{Machine, Schedule};

use crate::support::{MIB, free, layout, stream};

/// The most that a pool holds.
const MOST: usize = 32 * MIB;

/// Which of the blocks that fill a pool are freed: their size, and for each block in turn the
/// stream that frees it, if one does.
const PATTERNS: [(&str, usize, &[Option<usize>]); 5] = [
    ("every second block of two pages", 4 * MIB, &[Some(0), None]),
    ("pages that two streams free a part of each", 3 * MIB, &[Some(0), Some(1), None, None]),
    ("blocks across pages", 3 * MIB, &[Some(0), None]),
    ("one page in four, on another stream", 2 * MIB, &[Some(1), None, None, None]),
    ("everything, on two streams", 2 * MIB, &[Some(0), Some(1)]),
];

/// Fills a pool, frees by the pattern, and requests what the counters call available. Returns the
/// fragmentation.
fn after<U>(upstream: U, size: usize, pattern: &[Option<usize>]) -> f64
where
    U: Resource + HasProperty<DeviceAccessible> + PartialEq + 'static,
{
    let streams = [stream(), stream()];
    let builder = PoolMemoryResource::builder(upstream).maximum_size(MOST as u64);
    let pool = builder.build().expect("a pool");
    let blocks: Vec<DevicePtr> =
        (0..MOST / size).map_while(|_| pool.allocate(&streams[0], layout(size)).ok()).collect();
    streams[0].synchronize().expect("it is idle");
    let mut live = Vec::new();
    for (index, block) in blocks.into_iter().enumerate() {
        match pattern[index % pattern.len()] {
            Some(on) => free(&pool, &streams[on], block, size),
            None => live.push(block),
        }
    }
    let statistics = pool.statistics();
    let fragmentation = statistics.fragmentation();
    let largest = statistics.largest_free_bytes.max(statistics.whole_free_bytes);
    let free_bytes = statistics.reserved_bytes - statistics.live_bytes - statistics.cached_bytes;
    assert!(largest <= free_bytes, "{statistics:?}");
    let bytes = usize::try_from(largest).expect("a size");
    let block = pool.allocate(&streams[1], layout(bytes)).expect("the counters say so");
    free(&pool, &streams[1], block, bytes);
    for block in live {
        free(&pool, &streams[0], block, size);
    }
    fragmentation
}

#[test]
fn what_is_no_fragmentation_is_served_in_one_block() {
    for (what, size, pattern) in PATTERNS {
        for schedule in [Schedule::Eager, Schedule::Lazy] {
            let machine = Machine::builder().memory(64 << 20).schedule(schedule).enter();
            let pages = VirtualMemoryResource::new().expect("virtual memory");
            let over_pages = after(pages, size, pattern);
            let pages = DefaultDeviceMemory::of_device().expect("virtual memory");
            assert!((after(pages, size, pattern) - over_pages).abs() < 1e-9, "{what}");
            after(CudaMemoryResource::new(), size, pattern);
            after(ManagedMemoryResource::new(), size, pattern);
            // 1 of 3 MiB is in a page with another block.
            let expected = if what == "blocks across pages" { 1.0 / 3.0 } else { 0.0 };
            assert!((over_pages - expected).abs() < 1e-9, "{what}: {over_pages}");
            machine.assert_no_violations();
        }
    }
}
