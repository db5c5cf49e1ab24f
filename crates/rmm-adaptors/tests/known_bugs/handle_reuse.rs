//! RMM #2251, #2252: free lists and events were keyed by stream handle. The driver reuses the
//! handle of a destroyed stream at once; the new stream found the blocks of the destroyed one in
//! its own list and took them without waiting.

use std::collections::HashMap;

use rmm_core::{Annotator, CudaEvent, CudaStream, DevicePtr, StreamId, StreamRef};
use rmm_sim::ViolationKind;

use crate::harness::{BLOCK, Bug, Report, assert_bug_is_found, fill, id, stream};

/// How the pool identifies a stream.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Key {
    Handle(usize),
    Id(StreamId),
}

/// Blocks by the stream that freed them, each with the event after its free.
struct Pool {
    bug: Bug,
    annotator: Annotator,
    free: HashMap<Key, Vec<(DevicePtr, CudaEvent)>>,
}

impl Pool {
    fn key(&self, stream: StreamRef<'_>) -> Key {
        match self.bug {
            Bug::Present => Key::Handle(stream.as_raw().addr()),
            Bug::Fixed => Key::Id(stream.id()),
        }
    }

    fn allocate(&mut self, stream: StreamRef<'_>) -> DevicePtr {
        let own = self.free.get_mut(&self.key(stream)).and_then(Vec::pop);
        let block = own.map(|(block, _)| block).or_else(|| {
            let (block, event) = self.free.values_mut().find_map(Vec::pop)?;
            stream.wait(&event).expect("a wait");
            Some(block)
        });
        let block = block.expect("a block was freed");
        self.annotator.allocated(block, BLOCK, Some(stream));
        block
    }

    fn free(&mut self, stream: StreamRef<'_>, block: DevicePtr) {
        self.annotator.freed(block, BLOCK, Some(stream));
        let event = stream.record_event().expect("an event");
        self.free.entry(self.key(stream)).or_default().push((block, event));
    }
}

/// Frees a block on a stream and destroys the stream. Returns its identity and its handle.
fn leave_a_block(pool: &mut Pool, block: DevicePtr) -> (Option<u64>, usize) {
    let gone: CudaStream = stream();
    pool.annotator.allocated(block, BLOCK, Some(gone.as_stream_ref()));
    fill(&gone, block);
    pool.free(gone.as_stream_ref(), block);
    (Some(id(&gone)), gone.as_raw().addr())
}

#[test]
fn a_reused_handle_inherits_blocks_of_the_old_stream() {
    assert_bug_is_found(|harness, bug| {
        let annotator = Annotator::new("by handle");
        let mut pool = Pool { bug, annotator, free: HashMap::new() };
        let (gone, handle) = leave_a_block(&mut pool, harness.block(0));
        let heir = stream();
        assert_eq!(heir.as_raw().addr(), handle, "the handle is given again at once");
        fill(&heir, pool.allocate(heir.as_stream_ref()));
        Report { kind: ViolationKind::AllocatedInUse, first: gone, second: Some(id(&heir)) }
    });
}
