//! RMM #1393, #1395: the arena keeps one arena for each thread's default stream and one for each
//! other stream. It searched only the arenas of the class of the freeing stream, so it did not find
//! a block of the other class. Once the block is found, its arena's stream must wait for the stream
//! of the free, since it is not ordered after that one.

use rmm_core::{Annotator, CudaStream, DevicePtr, StreamRef};
use rmm_sim::ViolationKind;

use crate::harness::{BLOCK, Bug, Harness, Report, assert_bug_is_found, fill, id, stream};

/// How blocks of the other class are freed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Frees {
    /// They are not searched for.
    InOneClass,
    /// They are found, but the stream of the free is not waited for.
    WithoutWaiting,
    Properly,
}

/// One block for one stream: the smallest arena.
struct Arena {
    stream: CudaStream,
    block: DevicePtr,
    is_free: bool,
}

struct Arenas {
    frees: Frees,
    annotator: Annotator,
    all: Vec<Arena>,
}

impl Arenas {
    fn allocate(&mut self, stream: StreamRef<'_>) -> DevicePtr {
        let own = self.all.iter_mut().find(|arena| arena.stream.as_stream_ref() == stream);
        let arena = own.filter(|arena| arena.is_free).expect("every stream has a block");
        arena.is_free = false;
        self.annotator.allocated(arena.block, BLOCK, Some(stream));
        arena.block
    }

    fn free(&mut self, stream: StreamRef<'_>, block: DevicePtr) {
        let Self { frees, all, .. } = self;
        let is_in_reach = |arena: &Arena| {
            let same_class = arena.stream.is_per_thread_default() == stream.is_per_thread_default();
            same_class || *frees != Frees::InOneClass
        };
        let owner = all.iter_mut().find(|arena| arena.block == block && is_in_reach(arena));
        // Not found in this class.
        let Some(arena) = owner else { return };
        if *frees == Frees::Properly && arena.stream.as_stream_ref() != stream {
            stream.synchronize().expect("it can be waited for");
        }
        self.annotator.freed(block, BLOCK, Some(stream));
        arena.is_free = true;
    }
}

/// A block of one class is used and freed on a stream of the other, and allocated again; then all
/// memory is freed.
fn run(harness: &Harness, frees: Frees, from: &CudaStream, to: &CudaStream) {
    let arena = |(place, stream): (usize, &CudaStream)| Arena {
        stream: stream.clone(),
        block: harness.block(place),
        is_free: true,
    };
    let all = [from, to].into_iter().enumerate().map(arena).collect();
    let mut arenas = Arenas { frees, annotator: Annotator::new("arenas"), all };
    let block = arenas.allocate(from.as_stream_ref());
    to.wait_for(from).expect("a wait");
    fill(to, block);
    arenas.free(to.as_stream_ref(), block);
    if frees != Frees::InOneClass {
        let block = arenas.allocate(from.as_stream_ref());
        fill(from, block);
        arenas.free(from.as_stream_ref(), block);
    }
    harness.give_back();
}

/// Both ways: from a thread's default stream to another stream, and back.
fn is_found_both_ways(frees: Frees, expected: fn(&CudaStream, &CudaStream) -> Report) {
    for swapped in [false, true] {
        assert_bug_is_found(|harness, bug| {
            let frees = if bug == Bug::Present { frees } else { Frees::Properly };
            let (mut from, mut to) = (CudaStream::per_thread(), stream());
            if swapped {
                std::mem::swap(&mut from, &mut to);
            }
            run(harness, frees, &from, &to);
            expected(&from, &to)
        });
    }
}

#[test]
fn a_block_of_the_other_class_is_not_found() {
    is_found_both_ways(Frees::InOneClass, |from, _| Report {
        // The block is still live when its memory is freed to the driver.
        kind: ViolationKind::FreedWithSuballocations,
        first: Some(id(from)),
        second: None,
    });
}

#[test]
fn a_block_is_reused_before_the_freeing_stream_is_done() {
    is_found_both_ways(Frees::WithoutWaiting, |from, to| Report {
        kind: ViolationKind::AllocatedInUse,
        first: Some(id(to)),
        second: Some(id(from)),
    });
}
