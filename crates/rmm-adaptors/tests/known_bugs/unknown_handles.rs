//! Raw handles of unknown lifetime, which a caller passes with each call: the pool keeps blocks by
//! context and handle. The owner destroys a stream, the driver gives its handle to the next one,
//! and that one takes the blocks for its own. The driver's id of the stream (`cuStreamGetId`) is
//! what makes the key unique.

use std::collections::HashMap;

use rmm_core::{Annotator, Context, CudaEvent, CudaStream, DevicePtr, StreamLifetime, StreamRef};
use rmm_sim::ViolationKind;
use rmm_sys::CuStream;

use crate::harness::{BLOCK, Bug, Report, assert_bug_is_found, fill, id, stream};

/// The context, the handle and, without the bug, the driver's id.
type Key = (usize, usize, Option<u64>);

struct Pool {
    bug: Bug,
    annotator: Annotator,
    free: HashMap<Key, Vec<DevicePtr>>,
}

/// A stream as a call from C names it: by a handle that was valid when the call was made.
fn named(handle: CuStream) -> CudaStream {
    // SAFETY: the callers keep the stream until the call is over.
    unsafe { CudaStream::adopt(handle, StreamLifetime::Unknown) }.expect("it exists")
}

impl Pool {
    fn key(&self, stream: StreamRef<'_>) -> Key {
        let context = Context::current().expect("a context").as_raw().addr();
        (context, stream.as_raw().addr(), (self.bug == Bug::Fixed).then(|| id(stream)))
    }

    fn allocate(&mut self, handle: CuStream) -> DevicePtr {
        let stream = named(handle);
        let stream = stream.as_stream_ref();
        let own = self.free.get_mut(&self.key(stream)).and_then(Vec::pop);
        let block = own.or_else(|| {
            let block = self.free.values_mut().find_map(Vec::pop)?;
            // One event for all streams, since that of the block may be gone.
            let event = CudaEvent::new().expect("an event");
            let context = Context::current().expect("a context").as_raw();
            // SAFETY: both exist.
            let code = unsafe { rmm_sim::driver().cuCtxRecordEvent(context, event.as_raw()) };
            assert!(code.is_success(), "{code:?}");
            stream.wait(&event).expect("a wait");
            Some(block)
        });
        let block = block.expect("a block was freed");
        self.annotator.allocated(block, BLOCK, Some(stream));
        block
    }

    fn free(&mut self, handle: CuStream, block: DevicePtr) {
        let stream = named(handle);
        let stream = stream.as_stream_ref();
        self.annotator.freed(block, BLOCK, Some(stream));
        self.free.entry(self.key(stream)).or_default().push(block);
    }
}

#[test]
fn a_reused_raw_handle_is_taken_for_the_old_stream() {
    assert_bug_is_found(|harness, bug| {
        let annotator = Annotator::new("raw handles");
        let mut pool = Pool { bug, annotator, free: HashMap::new() };
        let (first, block) = (stream(), harness.block(0));
        let (gone, handle) = (id(&first), first.as_raw());
        pool.annotator.allocated(block, BLOCK, Some(first.as_stream_ref()));
        fill(&first, block);
        pool.free(handle, block);
        drop(first);
        let heir = stream();
        assert_eq!(heir.as_raw(), handle, "the handle is given again at once");
        fill(&heir, pool.allocate(heir.as_raw()));
        Report { kind: ViolationKind::AllocatedInUse, first: Some(gone), second: Some(id(&heir)) }
    });
}
