//! RMM's arena hands the superblocks of a thread that ends to the others at once. Its own stream
//! may still be at work on blocks that were freed there, and nobody else can wait for that stream:
//! only for the device.

use std::thread;

use rmm_core::{Annotator, CudaStream, Device, DevicePtr, StreamRef};
use rmm_sim::ViolationKind;

use crate::stage::{BLOCK, Bug, Report, Stage, fill, id, is_found, stream};

/// Blocks that threads left.
struct Left {
    bug: Bug,
    annotator: Annotator,
    blocks: Vec<DevicePtr>,
}

impl Left {
    fn allocate(&mut self, stream: StreamRef<'_>) -> DevicePtr {
        if self.bug == Bug::Fixed {
            Device::synchronize_current().expect("it can be waited for");
        }
        let block = self.blocks.pop().expect("a thread has left a block");
        self.annotator.allocated(block, BLOCK, Some(stream));
        block
    }
}

/// A thread uses a block on its own stream, frees it and ends; who the stream was.
fn leave_a_block(stage: &Stage, left: &mut Left) -> u64 {
    let (machine, block) = (&stage.machine, stage.block(0));
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let _entered = machine.enter();
            let _current = Device::new(0).and_then(Device::make_current).expect("a device");
            let own = CudaStream::per_thread();
            left.annotator.allocated(block, BLOCK, Some(own.as_stream_ref()));
            fill(&own, block);
            left.annotator.freed(block, BLOCK, Some(own.as_stream_ref()));
            left.blocks.push(block);
            id(&own)
        });
        thread.join().expect("it ends well")
    })
}

#[test]
fn the_blocks_of_a_thread_that_ends_are_used_before_its_stream_is_done() {
    is_found(|stage, bug| {
        let mut left = Left { bug, annotator: Annotator::new("of threads"), blocks: Vec::new() };
        let gone = leave_a_block(stage, &mut left);
        let heir = stream();
        fill(&heir, left.allocate(heir.as_stream_ref()));
        Report { kind: ViolationKind::AllocatedInUse, first: Some(gone), second: Some(id(&heir)) }
    });
}
