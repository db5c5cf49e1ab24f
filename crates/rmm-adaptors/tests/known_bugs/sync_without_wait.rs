//! RMM #2448, #2449: `allocate_sync` of nearly every suballocator only allocated on the default
//! stream. That stream waited for the former user of the memory; the caller did not, and then used
//! the memory on a stream that is ordered with neither.

use rmm_core::{Annotator, CudaEvent, DevicePtr, StreamRef};
use rmm_sim::ViolationKind;

use crate::harness::{BLOCK, Bug, Report, assert_bug_is_found, fill, id, stream};

/// The freed blocks of all streams, each with the event after its free.
struct Pool {
    bug: Bug,
    annotator: Annotator,
    free: Vec<(DevicePtr, CudaEvent)>,
}

impl Pool {
    fn take(&mut self, stream: StreamRef<'_>) -> DevicePtr {
        let (block, event) = self.free.pop().expect("a block was freed");
        stream.wait(&event).expect("a wait");
        block
    }

    fn allocate(&mut self, stream: StreamRef<'_>) -> DevicePtr {
        let block = self.take(stream);
        self.annotator.allocated(block, BLOCK, Some(stream));
        block
    }

    fn allocate_sync(&mut self) -> DevicePtr {
        let block = self.take(StreamRef::legacy());
        if self.bug == Bug::Fixed {
            StreamRef::legacy().synchronize().expect("it can be waited for");
        }
        self.annotator.allocated(block, BLOCK, None);
        block
    }

    fn free(&mut self, stream: StreamRef<'_>, block: DevicePtr) {
        self.annotator.freed(block, BLOCK, Some(stream));
        self.free.push((block, stream.record_event().expect("an event")));
    }
}

#[test]
fn synchronous_memory_is_returned_while_in_use() {
    assert_bug_is_found(|harness, bug| {
        let mut pool = Pool { bug, annotator: Annotator::new("no wait"), free: Vec::new() };
        let (first, second) = (stream(), stream());
        pool.annotator.allocated(harness.block(0), BLOCK, Some(first.as_stream_ref()));
        fill(&first, harness.block(0));
        pool.free(first.as_stream_ref(), harness.block(0));
        // In stream order there is no violation, with the bug or without it.
        let block = pool.allocate(first.as_stream_ref());
        fill(&first, block);
        pool.free(first.as_stream_ref(), block);
        harness.machine.assert_no_violations();
        fill(&second, pool.allocate_sync());
        Report { kind: ViolationKind::AllocatedInUse, first: Some(id(&first)), second: None }
    });
}
