//! RMM #2448, #2449: `allocate_sync` of nearly every suballocator was an allocation on the default
//! stream and no more. That stream waited for the memory's former user, the caller did not; on
//! return the memory was used on a stream that is ordered with neither.

use rmm_core::{Annotator, CudaEvent, DevicePtr, StreamRef};
use rmm_sim::ViolationKind;

use crate::stage::{BLOCK, Bug, Report, fill, id, is_found, stream};

/// Freed blocks of all streams, each with the event after its free.
struct Pool {
    bug: Bug,
    annotator: Annotator,
    free: Vec<(DevicePtr, CudaEvent)>,
}

impl Pool {
    fn take(&mut self, stream: StreamRef<'_>) -> DevicePtr {
        let (block, event) = self.free.pop().expect("somebody has freed blocks");
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
fn memory_for_everybody_is_still_in_use_when_it_is_returned() {
    is_found(|stage, bug| {
        let mut pool = Pool { bug, annotator: Annotator::new("no wait"), free: Vec::new() };
        let (first, second) = (stream(), stream());
        pool.annotator.allocated(stage.block(0), BLOCK, Some(first.as_stream_ref()));
        fill(&first, stage.block(0));
        pool.free(first.as_stream_ref(), stage.block(0));
        // In a stream's order all is well, with the bug and without it.
        let block = pool.allocate(first.as_stream_ref());
        fill(&first, block);
        pool.free(first.as_stream_ref(), block);
        stage.machine.assert_no_violations();
        fill(&second, pool.allocate_sync());
        Report { kind: ViolationKind::AllocatedInUse, first: Some(id(&first)), second: None }
    });
}
