//! Checks in pools with room for many blocks.

use crate::run::conformance;

/// Bytes for checks that hold many blocks.
const ROOM: usize = 64 << 20;
/// Bytes for checks that use them all.
const LITTLE_ROOM: usize = 8 << 20;

conformance! { ROOM;
    alignments_are_honoured,
    buffers_hold_their_bytes,
    buffers_move_between_streams,
    current_resource_serves_containers,
    equality_and_erasure_keep_the_resource,
    halves_are_written_by_two_streams,
    live_blocks_never_overlap,
    logs_name_each_allocation_and_its_free,
    memory_is_usable,
    pinned_vectors_wait_for_their_copies,
    threads_share_a_resource,
    values_travel_with_the_call,
    vectors_hold_their_elements,
    zero_bytes_are_free,
}

conformance! { LITTLE_ROOM;
    exhaustion_is_an_error_and_passes,
}
