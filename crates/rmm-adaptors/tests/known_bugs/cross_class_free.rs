//! RMM #1393, #1395: the arena keeps one arena for each thread's default stream and one for each
//! other stream. A block freed on a stream of the other class was looked for among the arenas of
//! that class only, where it is not. One that is found has to wait for the stream that it was freed
//! on: its arena's own stream takes it next, and is not ordered after that one.

use rmm_core::{Annotator, CudaStream, DevicePtr, StreamRef};
use rmm_sim::ViolationKind;

use crate::stage::{BLOCK, Bug, Report, Stage, fill, id, is_found, stream};

/// How blocks of another class are freed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Frees {
    /// They are not looked for.
    InOneClass,
    /// They are found, and the stream of the free is not waited for.
    WithoutWaiting,
    Properly,
}

/// A block of its own for one stream: the smallest arena.
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
        // Not found: nobody's block, which is an error where frees can fail.
        let Some(arena) = owner else { return };
        if *frees == Frees::Properly && arena.stream.as_stream_ref() != stream {
            stream.synchronize().expect("it can be waited for");
        }
        self.annotator.freed(block, BLOCK, Some(stream));
        arena.is_free = true;
    }
}

/// A block of one class is used and freed on a stream of the other, and wanted again; then
/// everything is given back.
fn run(stage: &Stage, frees: Frees, from: &CudaStream, to: &CudaStream) {
    let arena = |(place, stream): (usize, &CudaStream)| Arena {
        stream: stream.clone(),
        block: stage.block(place),
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
    stage.give_back();
}

/// Both ways: from a thread's stream to another and back.
fn is_found_both_ways(frees: Frees, expected: fn(&CudaStream, &CudaStream) -> Report) {
    for swapped in [false, true] {
        is_found(|stage, bug| {
            let frees = if bug == Bug::Present { frees } else { Frees::Properly };
            let (mut from, mut to) = (CudaStream::per_thread(), stream());
            if swapped {
                std::mem::swap(&mut from, &mut to);
            }
            run(stage, frees, &from, &to);
            expected(&from, &to)
        });
    }
}

#[test]
fn a_block_is_not_looked_for_in_the_other_class() {
    is_found_both_ways(Frees::InOneClass, |from, _| Report {
        // The block is still out when its memory goes back to the driver.
        kind: ViolationKind::FreedWithSuballocations,
        first: Some(id(from)),
        second: None,
    });
}

#[test]
fn a_block_goes_back_to_its_arena_before_the_other_stream_is_done() {
    is_found_both_ways(Frees::WithoutWaiting, |from, to| Report {
        kind: ViolationKind::AllocatedInUse,
        first: Some(id(to)),
        second: Some(id(from)),
    });
}
