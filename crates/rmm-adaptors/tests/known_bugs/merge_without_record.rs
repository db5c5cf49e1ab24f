//! RMM #2490: a stream that ran out of blocks waited for another and took over its whole free list, but did not record its own
//! event anew. A third stream that took a block from the merged list waited for an event of before the merge, and worked on memory
//! that the first stream was still at work on.

use rmm_core::{Annotator, CudaEvent, CudaStream, DevicePtr};
use rmm_sim::ViolationKind;

use crate::stage::{BLOCK, Bug, Report, fill, id, is_found, stream};

/// A free list for each stream, and the event after the last free that it holds.
struct Pool {
    bug: Bug,
    annotator: Annotator,
    lists: Vec<List>,
}

struct List {
    stream: CudaStream,
    event: CudaEvent,
    blocks: Vec<DevicePtr>,
}

impl Pool {
    fn list(&mut self, stream: &CudaStream) -> usize {
        if let Some(known) = self.lists.iter().position(|list| list.stream == *stream) {
            return known;
        }
        let event = CudaEvent::new().expect("an event");
        self.lists.push(List { stream: stream.clone(), event, blocks: Vec::new() });
        self.lists.len() - 1
    }

    fn allocate(&mut self, stream: &CudaStream) -> DevicePtr {
        let own = self.list(stream);
        if self.lists[own].blocks.is_empty() {
            self.merge_another(own);
        }
        let block = self.lists[own].blocks.pop().expect("somebody has freed blocks");
        self.annotator.handed_out(block, BLOCK, Some(stream.as_ref()));
        block
    }

    fn merge_another(&mut self, own: usize) {
        let other = self.lists.iter().position(|list| !list.blocks.is_empty());
        let other = other.expect("somebody has freed blocks");
        let (stream, blocks) =
            (self.lists[own].stream.clone(), std::mem::take(&mut self.lists[other].blocks));
        stream.as_ref().wait(&self.lists[other].event).expect("a wait");
        self.lists[own].blocks.extend(blocks);
        if self.bug == Bug::Fixed {
            self.lists[own].event.record(stream.as_ref()).expect("a record");
        }
    }

    fn free(&mut self, stream: &CudaStream, block: DevicePtr) {
        self.annotator.taken_back(block, BLOCK, Some(stream.as_ref()));
        let own = self.list(stream);
        self.lists[own].blocks.push(block);
        self.lists[own].event.record(stream.as_ref()).expect("a record");
    }
}

#[test]
fn a_third_stream_takes_merged_blocks_while_the_first_is_at_work() {
    is_found(|stage, bug| {
        let mut pool = Pool { bug, annotator: Annotator::new("merging"), lists: Vec::new() };
        let (first, second, third) = (stream(), stream(), stream());
        for place in 0..2 {
            let block = stage.block(place);
            pool.annotator.handed_out(block, BLOCK, Some(first.as_ref()));
            fill(&first, block);
            pool.free(&first, block);
        }
        fill(&second, pool.allocate(&second)); // takes over both
        fill(&third, pool.allocate(&third)); // takes over the one that is left
        Report {
            kind: ViolationKind::HandedOutInUse,
            first: Some(id(&first)),
            second: Some(id(&third)),
        }
    });
}
