//! Tests of the `Debug` output and of reports.

use rmm_adaptors::{
    AlignedResourceAdaptor, FallbackMemoryResource, LimitingResourceAdaptor,
    StatisticsResourceAdaptor, TaggedResourceAdaptor, ThreadSafeResourceAdaptor,
    TrackingResourceAdaptor,
};
use rmm_core::SynchronousResource;
use rmm_resources::CudaMemoryResource;

use super::scripted::{Scripted, free_sync};
use crate::support::layout;

/// A resource at the bottom whose `Debug` output has no lock.
#[test]
fn debug_output_shows_counts_and_no_locks() {
    let below = || LimitingResourceAdaptor::new((), 4096);
    let cuda = || LimitingResourceAdaptor::new(CudaMemoryResource::new(), 4096);
    for shown in [
        format!("{:?}", below()),
        format!("{:?}", AlignedResourceAdaptor::new(below(), 4096).unwrap()),
        format!("{:?}", FallbackMemoryResource::new(cuda(), cuda())),
        format!("{:?}", StatisticsResourceAdaptor::new(below())),
        format!("{:?}", TaggedResourceAdaptor::new(below())),
        format!("{:?}", ThreadSafeResourceAdaptor::new(below())),
        format!("{:?}", TrackingResourceAdaptor::new(below())),
    ] {
        assert!(shown.contains("limit: 4096"), "{shown}");
        for lock in ["Biased", "FirstThread", "Mutex", "Atomic", "poisoned", "is_revoked"] {
            assert!(!shown.contains(lock), "{lock}: {shown}");
        }
    }
}

#[test]
fn a_report_counts_one_block_in_the_singular() {
    let tracked = TrackingResourceAdaptor::builder(Scripted::default()).on_finding(|_| ());
    let block = tracked.allocate_sync(layout(64)).unwrap();
    assert!(tracked.report().to_string().starts_with("64 B in 1 block\n"), "{}", tracked.report());
    free_sync(&tracked, block, layout(64));
    assert!(tracked.report().to_string().starts_with("0 B in 0 blocks"), "{}", tracked.report());
}
