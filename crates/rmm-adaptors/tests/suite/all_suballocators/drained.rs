//! Comparison of a drained suballocator with a fresh one.

use rmm_core::{Device, DevicePtr};

use crate::harness::Allocator;
use crate::suballocators::{GRANULE, Make, Upstream};
use crate::support::{free, layout, stream};

/// Allocates all memory on a new stream, in blocks of each of these sizes in turn, and frees it.
/// Returns the number of blocks of each size.
fn counts<R: Allocator>(resource: &R, sizes: &[usize]) -> Vec<usize> {
    let (stream, mut blocks): (_, Vec<(DevicePtr, usize)>) = (stream(), Vec::new());
    let count = |&bytes: &usize| {
        let before = blocks.len();
        while let Ok(block) = resource.allocate(&stream, layout(bytes)) {
            blocks.push((block, bytes));
        }
        blocks.len() - before
    };
    let counts = sizes.iter().map(count).collect();
    for (block, bytes) in blocks {
        free(resource, &stream, block, bytes);
    }
    counts
}

/// Sizes of blocks, in bytes.
fn sizes(limit: u64) -> [[usize; 3]; 2] {
    let limit = usize::try_from(limit).expect("a small size");
    let large = [limit, limit / 2, limit / 4];
    let small = [300 * GRANULE, 64 * GRANULE, 8 * GRANULE];
    [large, small]
}

/// Asserts that a suballocator without live blocks serves the same requests as a fresh one.
pub(super) fn assert_drained_equals_fresh<R: Allocator>(resource: &R, make: Make<R>, limit: u64) {
    let fresh = make(Upstream::new(false), limit).expect("a fresh one");
    for drained in [resource, &fresh] {
        // The first trim records events for streams without one, and waits for nothing.
        drained.trim();
        Device::synchronize_current().expect("all work can be done");
        drained.trim();
    }
    for sizes in sizes(limit) {
        assert_eq!(counts(resource, &sizes), counts(&fresh, &sizes), "blocks of {sizes:?}");
    }
}

/// Like [`assert_drained_equals_fresh`], after failures of the driver: the progress of some streams
/// is unknown until memory is so short that the suballocator waits for the device.
pub(super) fn assert_drains_to_fresh<R: Allocator>(resource: &R, make: Make<R>, limit: u64) {
    for sizes in sizes(limit) {
        counts(resource, &sizes);
    }
    assert_drained_equals_fresh(resource, make, limit);
}
