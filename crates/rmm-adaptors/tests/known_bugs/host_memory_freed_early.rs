//! RMM #1655: pageable host memory, which the device accesses directly, was freed to the host
//! allocator while the stream of the free still had work to do on it. The next `malloc` of any
//! thread may return it.

use rmm_core::{Annotator, DevicePtr, StreamRef};
use rmm_sim::ViolationKind;

use crate::harness::{BLOCK, Bug, Report, assert_bug_is_found, fill, id, stream};

/// An allocator of one block of host memory. The host is ordered by no stream, so allocation has
/// none.
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
fn host_memory_is_freed_while_the_stream_uses_it() {
    assert_bug_is_found(|harness, bug| {
        let system =
            System { bug, annotator: Annotator::new("system"), block: harness.host_block() };
        let stream = stream();
        let block = system.allocate();
        fill(&stream, block);
        system.free(stream.as_stream_ref(), block);
        Report { kind: ViolationKind::FreedInUse, first: Some(id(&stream)), second: None }
    });
}
