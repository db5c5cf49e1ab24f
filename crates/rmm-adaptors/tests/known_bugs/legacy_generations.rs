//! A block that is freed on the legacy default stream and allocated there again, with no work of
//! that stream in between. Programs rely on the implicit order: one blocking stream used the block
//! before the free, another one uses it after the allocation, and only work on the legacy stream
//! between the two would order them. The pool's generations change places with an event on the
//! legacy stream, which is that work.

use rmm_core::{Annotator, CudaStream, DevicePtr, StreamRef};
use rmm_sim::ViolationKind;

use crate::harness::{BLOCK, Bug, Harness, Report, assert_bug_is_found, fill, id};

/// Blocks freed on the legacy stream: those of the young generation are not ordered yet.
struct Pool {
    bug: Bug,
    annotator: Annotator,
    young: Vec<DevicePtr>,
    old: Vec<DevicePtr>,
}

impl Pool {
    fn new(bug: Bug) -> Self {
        let annotator = Annotator::new("generations");
        Self { bug, annotator, young: Vec::new(), old: Vec::new() }
    }

    fn allocate(&mut self, legacy: StreamRef<'_>) -> DevicePtr {
        if self.old.is_empty() {
            if self.bug == Bug::Fixed {
                drop(legacy.record_event().expect("an event"));
            }
            std::mem::swap(&mut self.young, &mut self.old);
        }
        let block = self.old.pop().expect("a block was freed");
        self.annotator.allocated(block, BLOCK, Some(legacy));
        block
    }

    fn free(&mut self, legacy: StreamRef<'_>, block: DevicePtr) {
        self.annotator.freed(block, BLOCK, Some(legacy));
        self.young.push(block);
    }
}

/// Allocates a block on the legacy stream, uses it on a blocking one, and frees it on the legacy
/// stream.
fn use_a_block(pool: &mut Pool, harness: &Harness, user: &CudaStream) {
    let legacy = StreamRef::legacy();
    pool.annotator.allocated(harness.block(0), BLOCK, Some(legacy));
    fill(user, harness.block(0));
    pool.free(legacy, harness.block(0));
}

#[test]
fn a_legacy_free_is_reused_without_work_on_the_stream() {
    assert_bug_is_found(|harness, bug| {
        let mut pool = Pool::new(bug);
        let [first, second] = [(); 2].map(|()| CudaStream::new().expect("a blocking stream"));
        use_a_block(&mut pool, harness, &first);
        let block = pool.allocate(StreamRef::legacy());
        fill(&second, block);
        Report {
            kind: ViolationKind::UseBeforeAllocation,
            first: Some(id(StreamRef::legacy())),
            second: Some(id(&second)),
        }
    });
}

/// The same with the stream of another thread, which is a blocking stream, too.
#[test]
fn a_legacy_free_is_reused_on_a_thread_s_stream() {
    assert_bug_is_found(|harness, bug| {
        let mut pool = Pool::new(bug);
        let first = CudaStream::new().expect("a blocking stream");
        use_a_block(&mut pool, harness, &first);
        let block = pool.allocate(StreamRef::legacy());
        fill(StreamRef::per_thread(), block);
        Report {
            kind: ViolationKind::UseBeforeAllocation,
            first: Some(id(StreamRef::legacy())),
            second: Some(id(StreamRef::per_thread())),
        }
    });
}
