//! RMM #1655: ordinary memory of the host, which the device uses as it is, went back to the host's
//! allocator while work on the stream of the free was still to use it. The next `malloc` of any
//! thread may get it.

use rmm_core::{Annotator, DevicePtr, StreamRef};
use rmm_sim::ViolationKind;

use crate::stage::{BLOCK, Bug, Report, fill, id, is_found, stream};

/// An allocator of one block of the host's memory. No stream orders the host, so all it tells is
/// without one.
struct System {
    bug: Bug,
    annotator: Annotator,
    block: DevicePtr,
}

impl System {
    fn allocate(&self) -> DevicePtr {
        self.annotator.allocated(self.block, BLOCK, None);
        self.block
    }

    fn free(&self, stream: StreamRef<'_>, block: DevicePtr) {
        if self.bug == Bug::Fixed {
            stream.synchronize().expect("the stream can be waited for");
        }
        self.annotator.freed(block, BLOCK, None);
    }
}

#[test]
fn host_memory_is_freed_before_the_streams_work_on_it() {
    is_found(|stage, bug| {
        let system = System { bug, annotator: Annotator::new("system"), block: stage.host_block() };
        let stream = stream();
        let block = system.allocate();
        fill(&stream, block);
        system.free(stream.as_stream_ref(), block);
        Report { kind: ViolationKind::FreedInUse, first: Some(id(&stream)), second: None }
    });
}
