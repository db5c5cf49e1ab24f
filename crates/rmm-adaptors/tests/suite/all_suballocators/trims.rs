//! Trimming a suballocator whose streams are still busy.

use rmm_sim::{Machine, Schedule};

use super::drained::assert_drained_equals_fresh;
use crate::harness::Allocator;
use crate::programs::MOST_GRANULES;
use crate::suballocators::{GRANULE, LEAST, Make, Upstream};
use crate::support::{base_seed, free, layout, stream, write};

const LIMIT: u64 = 4 * LEAST;

/// Trims before and after the streams have run, with blocks freed on each of them.
pub(super) fn count_pending_frees<R: Allocator>(make: Make<R>) {
    for schedule in [Schedule::Lazy, Schedule::Eager, Schedule::Seeded(base_seed())] {
        for is_stream_ordered in [false, true] {
            let machine = Machine::builder().memory(64 << 20).schedule(schedule).enter();
            let resource = make(Upstream::new(is_stream_ordered), LIMIT).expect("there is memory");
            resource.trim();
            // What an unused suballocator keeps.
            let kept = resource.reserved();
            let streams = [stream(), stream(), stream()];
            let sizes = [8, 64, MOST_GRANULES].map(|granules| granules * GRANULE);
            for bytes in sizes {
                for stream in &streams {
                    let block = resource.allocate(stream, layout(bytes)).expect("room");
                    (0..3).for_each(|tag| write(&machine, stream, block, tag));
                    free(&resource, stream, block, bytes);
                }
            }
            let (reserved, given) = (resource.reserved(), resource.trim());
            assert_eq!(resource.reserved() + given, reserved, "{schedule:?}: it says what it gave");
            machine.run_all();
            resource.trim();
            assert_eq!(resource.reserved(), kept, "{schedule:?}: all free memory is returned");
            assert_drained_equals_fresh(&resource, make, LIMIT);
            drop((resource, streams));
            machine.assert_no_violations();
            assert!(machine.leaks().is_empty(), "{:?}", machine.leaks());
        }
    }
}
