//! What a suballocator can hand out at once.

use rmm_core::{Device, DevicePtr};

use crate::kinds::{GRANULE, Make, Upstream};
use crate::short::{free, layout, stream};
use crate::world::Allocator;

/// Takes what there is, for a stream that is new to it, in blocks of these sizes, one size after
/// the other; gives it back, and tells how many there were of each.
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
fn sizes(limit: usize) -> [[usize; 3]; 2] {
    let large = [limit, limit / 2, limit / 4];
    let small = [300 * GRANULE, 64 * GRANULE, 8 * GRANULE];
    [large, small]
}

/// Asserts that a suballocator that has nothing to hand back any more serves whatever a fresh one
/// does.
pub(super) fn is_as_good_as_new<R: Allocator>(resource: &R, make: Make<R>, limit: usize) {
    let fresh = make(Upstream::new(false), limit).expect("a fresh one");
    for drained in [resource, &fresh] {
        // The first one marks the ends of streams that were not asked before, and waits for
        // nothing.
        drained.trim();
        Device::synchronize_current().expect("all work can be done");
        drained.trim();
    }
    for sizes in sizes(limit) {
        assert_eq!(counts(resource, &sizes), counts(&fresh, &sizes), "blocks of {sizes:?}");
    }
}

/// As [`is_as_good_as_new`], after failures of the driver: what some streams have done is not known
/// then, and stays so until memory is so short that the device is waited for.
pub(super) fn gets_as_good_as_new<R: Allocator>(resource: &R, make: Make<R>, limit: usize) {
    for sizes in sizes(limit) {
        counts(resource, &sizes);
    }
    is_as_good_as_new(resource, make, limit);
}
