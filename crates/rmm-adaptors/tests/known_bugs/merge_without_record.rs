//! RMM #2490: a stream that ran out of blocks waited for another stream and took over its whole
//! free list, but did not record its own event again. A third stream that allocated a block of the
//! merged list waited for an event from before the merge, and used memory that the first stream was
//! still using.

use rmm_core::{CudaStream, DevicePtr};
use rmm_sim::ViolationKind;

use crate::harness::{BLOCK, Bug, Report, assert_bug_is_found, fill, id, stream};
use crate::merging_lists::MergingLists;

fn take(lists: &mut MergingLists, stream: &CudaStream) -> DevicePtr {
    lists.allocate(stream.as_stream_ref()).expect("an order").expect("a block was freed")
}

#[test]
fn a_third_stream_reuses_merged_blocks_too_early() {
    assert_bug_is_found(|harness, bug| {
        let mut lists = MergingLists::new(BLOCK, bug == Bug::Fixed);
        let (first, second, third) = (stream(), stream(), stream());
        for place in 0..2 {
            lists.add(first.as_stream_ref(), harness.block(place)).expect("an event");
        }
        for block in [(); 2].map(|()| take(&mut lists, &first)) {
            fill(&first, block);
            lists.free(first.as_stream_ref(), block).expect("a record");
        }
        fill(&second, take(&mut lists, &second)); // takes over both
        fill(&third, take(&mut lists, &third)); // takes over the one that is left
        Report {
            kind: ViolationKind::AllocatedInUse,
            first: Some(id(&first)),
            second: Some(id(&third)),
        }
    });
}
