//! RMM's arena releases the superblocks of an ending thread to all streams at once. The thread's
//! default stream may still use blocks that were freed there, and no other thread can wait for that
//! stream: only for the device.

use rmm_core::{Annotator, Device, DevicePtr, StreamRef};
use rmm_sim::ViolationKind;

use crate::harness::{BLOCK, Bug, Harness, Report, assert_bug_is_found, fill, id, stream};

/// Blocks of ended threads.
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

/// A thread uses a block on its default stream, frees it and ends. Returns the identity of the
/// stream.
fn leave_a_block(harness: &Harness, left: &mut Left) -> u64 {
    let block = harness.block(0);
    harness.on_a_thread(|own| {
        left.annotator.allocated(block, BLOCK, Some(own.as_stream_ref()));
        fill(own, block);
        left.annotator.freed(block, BLOCK, Some(own.as_stream_ref()));
        left.blocks.push(block);
    })
}

#[test]
fn blocks_of_an_ended_thread_are_reused_while_in_use() {
    assert_bug_is_found(|harness, bug| {
        let mut left = Left { bug, annotator: Annotator::new("of threads"), blocks: Vec::new() };
        let gone = leave_a_block(harness, &mut left);
        let heir = stream();
        fill(&heir, left.allocate(heir.as_stream_ref()));
        Report { kind: ViolationKind::AllocatedInUse, first: Some(gone), second: Some(id(&heir)) }
    });
}
