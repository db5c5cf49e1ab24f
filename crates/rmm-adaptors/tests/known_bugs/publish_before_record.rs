//! CUB's caching allocator inserts a freed block into the shared list under its lock, and records
//! the block's event after it has released the lock. A thread that searches in between finds an
//! event that was never recorded, which the driver reports as complete, and allocates the block for
//! another stream.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use rmm_core::{Annotator, CudaEvent, DevicePtr, StreamId, StreamRef};
use rmm_sim::{Machine, ViolationKind};

use crate::harness::{BLOCK, Bug, Report, assert_bug_is_found, fill, id, stream};

struct Cached {
    block: DevicePtr,
    stream: StreamId,
    ready: Arc<CudaEvent>,
}

struct Cache {
    bug: Bug,
    annotator: Annotator,
    list: Mutex<Vec<Cached>>,
}

impl Cache {
    fn publish(&self, cached: Cached) {
        self.list.lock().unwrap_or_else(PoisonError::into_inner).push(cached);
    }

    /// A cached block of the same stream, or one whose event is complete.
    fn allocate(&self, stream: StreamRef<'_>) -> Option<DevicePtr> {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        let is_usable = |cached: &Cached| {
            cached.stream == stream.id() || cached.ready.is_complete().unwrap_or(false)
        };
        let found = list.iter().position(is_usable)?;
        let block = list.swap_remove(found).block;
        drop(list);
        self.annotator.allocated(block, BLOCK, Some(stream));
        Some(block)
    }

    /// Frees a block; `between` runs between the two steps.
    fn free(&self, stream: StreamRef<'_>, block: DevicePtr, between: impl FnOnce()) {
        self.annotator.freed(block, BLOCK, Some(stream));
        let ready = Arc::new(CudaEvent::new().expect("an event"));
        let cached = Cached { block, stream: stream.id(), ready: Arc::clone(&ready) };
        if self.bug == Bug::Present {
            self.publish(cached);
            between();
            ready.record(stream).expect("a record");
        } else {
            ready.record(stream).expect("a record");
            between();
            self.publish(cached);
        }
    }
}

/// Another thread allocates a block, uses it and frees it. Returns the identity of its stream.
fn take_elsewhere(machine: &Machine, cache: &Cache) -> Option<u64> {
    let take = || {
        let _entered = machine.enter();
        let stream = stream();
        if let Some(block) = cache.allocate(stream.as_stream_ref()) {
            fill(&stream, block);
            cache.free(stream.as_stream_ref(), block, || ());
        }
        Some(id(&stream))
    };
    thread::scope(|scope| scope.spawn(take).join()).expect("the thread ends")
}

#[test]
fn a_block_is_reused_before_its_event_is_recorded() {
    assert_bug_is_found(|harness, bug| {
        let cache = Cache { bug, annotator: Annotator::new("cub"), list: Mutex::default() };
        let stream = stream();
        let block = harness.block(0);
        cache.annotator.allocated(block, BLOCK, Some(stream.as_stream_ref()));
        fill(&stream, block);
        let mut other = None;
        cache.free(stream.as_stream_ref(), block, || {
            other = take_elsewhere(&harness.machine, &cache);
        });
        // From now on the event is valid, in whichever order the steps were.
        take_elsewhere(&harness.machine, &cache);
        Report { kind: ViolationKind::AllocatedInUse, first: Some(id(&stream)), second: other }
    });
}
