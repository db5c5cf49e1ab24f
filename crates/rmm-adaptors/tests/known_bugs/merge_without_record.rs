//! RMM #2490: a stream that ran out of blocks waited for another and took over its whole free list,
//! but did not record its own event anew. A third stream that took a block from the merged list
//! waited for an event of before the merge, and worked on memory that the first stream was still at
//! work on.

use rmm_core::{CudaStream, DevicePtr};
use rmm_sim::ViolationKind;

use crate::merging_lists::MergingLists;
use crate::stage::{BLOCK, Bug, Report, fill, id, is_found, stream};

fn take(lists: &mut MergingLists, stream: &CudaStream) -> DevicePtr {
    lists.allocate(stream.as_stream_ref()).expect("an order").expect("somebody has freed blocks")
}

#[test]
fn a_third_stream_takes_merged_blocks_while_the_first_is_at_work() {
    is_found(|stage, bug| {
        let mut lists = MergingLists::new(BLOCK, bug == Bug::Fixed);
        let (first, second, third) = (stream(), stream(), stream());
        for place in 0..2 {
            lists.add(first.as_stream_ref(), stage.block(place)).expect("an event");
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
