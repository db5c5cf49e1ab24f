//! The checks, by what they are about.
//!
//! Each takes a [`Subject`] and says which clause of the [contract](rmm_core#stream-order) it
//! checks.

mod adopted;
mod containers;
mod current;
mod exhaustion;
mod identity;
mod logging;
mod memory;
mod order;
mod several_streams;
mod synchronous;
mod threads;

pub use adopted::adopted_streams_may_be_destroyed;
pub use containers::{
    buffers_hold_their_bytes, buffers_move_between_streams, vectors_hold_their_elements,
};
pub use current::current_resource_serves_containers;
pub use exhaustion::exhaustion_is_an_error_and_passes;
pub use identity::equality_and_erasure_keep_the_resource;
pub use logging::logs_name_each_allocation_and_its_free;
pub use memory::{
    alignments_are_honoured, live_blocks_never_overlap, memory_is_usable, zero_bytes_are_free,
};
pub use order::{
    freed_on_another_stream_keeps_order, handed_over_between_streams_keeps_order,
    merged_blocks_keep_order, reuse_on_one_stream_keeps_order,
};
pub use several_streams::{
    halves_are_written_by_two_streams, pinned_vectors_wait_for_their_copies,
    values_travel_with_the_call,
};
pub use synchronous::{
    synchronous_memory_is_free_of_earlier_work, synchronous_memory_is_usable_on_every_stream,
};
pub use threads::threads_share_a_resource;

use rmm_core::{CudaStream, Device, DevicePtr, Resource};

use crate::{Block, Counter, Failure, Outcome, Subject};

/// Words of the blocks that are handed over: 256 KiB.
pub const BLOCK_WORDS: u32 = 64 << 10;

/// Cycles that a slow kernel spins for: about 5 ms.
const SLOW: u64 = 10_000_000;

/// Kernels behind a slow one. A software device runs a piece of work whenever somebody asks whether
/// a stream is idle: there must be some left when the resource has asked.
const TRAIL: usize = 8;

/// How often a resource without a limit is asked for memory that it may give from elsewhere.
const ATTEMPTS: usize = 32;

/// Enqueues work that writes to the block for some time yet.
fn keep_busy<R: Resource>(block: &Block<'_, R>) -> Outcome {
    block.fill(0xa000_0000, SLOW)?;
    (0..TRAIL).try_for_each(|_| block.fill(0xa000_0000, 0))
}

/// Fills the block and checks it at once, and again when the device has done everything: whatever
/// else writes to it shows.
fn stays_intact<R: Resource>(block: &Block<'_, R>, value: u32, errors: &Counter) -> Outcome {
    block.fill(value, 0)?;
    block.check(value, errors)?;
    errors.expect_none(block.stream(), "memory was written to by earlier work")?;
    Device::synchronize_current()?;
    block.check(value, errors)?;
    errors.expect_none(block.stream(), "memory was written to by earlier work, late")
}

/// Has `stream` allocate until it gets the block at `wanted`, which was freed on another stream,
/// and uses it at once. A resource that always has other memory to give is not asked for ever; what
/// it gave last is used then.
fn take_over<'a, R: Resource>(
    subject: &Subject<'a, R>,
    stream: &CudaStream,
    wanted: DevicePtr,
    words: u32,
    errors: &Counter,
) -> Result<Block<'a, R>, Failure> {
    let mut others = Vec::new();
    let taken = loop {
        let block = subject.allocate(stream, words).map_err(|error| {
            Failure::new(format!("refused, although a free block would have done: {error}"))
        })?;
        if block.pointer() == wanted || others.len() == ATTEMPTS {
            break block;
        }
        others.push(block);
    };
    stays_intact(&taken, 0xb000_0000, errors)?;
    Ok(taken)
}
