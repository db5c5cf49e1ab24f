//! The checks, by what they are about.
//!
//! Each takes a [`Subject`](crate::Subject) and says which clause of the
//! [contract](rmm_core#stream-order) it checks.

mod adopted;
mod blocks;
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
pub use blocks::BLOCK_WORDS;
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
