//! Checks in which a freed block must be reused: the pool has room for one.

use crate::run::conformance;

/// Bytes of one block.
const ONE_BLOCK: usize = 4 * rmm_conformance::suite::BLOCK_WORDS as usize;

conformance! { ONE_BLOCK;
    adopted_streams_may_be_destroyed,
    freed_on_another_stream_keeps_order,
    handed_over_between_streams_keeps_order,
    merged_blocks_keep_order,
    reuse_on_one_stream_keeps_order,
    synchronous_memory_is_free_of_earlier_work,
    synchronous_memory_is_usable_on_every_stream,
}
