//! With a single stream, what it frees coalesces with idle memory, too.

use super::{Heap, NodeId, PAGE, check, extendable};
use crate::suballocators::pool::heap::TAKEN_IN;
use crate::suballocators::pool::values::units::ListId;

/// Large enough not to be part of a slab.
const BLOCK: u64 = 4 << 20;

/// A heap of three parts: idle memory of `idle` bytes, a live block, and idle memory of
/// [`BLOCK`] bytes.
fn between_idle(idle: u64) -> (Heap, NodeId) {
    let mut heap = extendable((idle + 2 * BLOCK) / PAGE);
    let first = heap.take(ListId::ANY_STREAM, idle).unwrap();
    let block = heap.take(ListId::ANY_STREAM, BLOCK).unwrap();
    heap.free(first, ListId::ANY_STREAM, 0);
    (heap, block)
}

#[test]
fn a_block_takes_in_the_idle_memory_beside_it() {
    let (mut heap, block) = between_idle(BLOCK);
    let only = heap.add_list();
    heap.free(block, only, 3);
    assert_eq!(heap.free_bytes(ListId::ANY_STREAM), 0);
    assert!(heap.take_visible(only, 3 * BLOCK, 2).is_none(), "all of it waits for the free");
    assert!(heap.take_visible(only, 3 * BLOCK, 3).is_some(), "it is one block");
    check(&heap, &[], &[]);
}

#[test]
fn much_idle_memory_stays_idle_beside_a_small_block() {
    let (mut heap, block) = between_idle(TAKEN_IN + BLOCK);
    let only = heap.add_list();
    heap.free(block, only, 3);
    assert_eq!(heap.free_bytes(ListId::ANY_STREAM), TAKEN_IN + BLOCK);
    assert_eq!(heap.free_bytes(only), 2 * BLOCK);
}

#[test]
fn idle_memory_stays_idle_where_another_stream_may_use_it() {
    let (mut heap, block) = between_idle(BLOCK);
    let [one, _other] = [heap.add_list(), heap.add_list()];
    heap.free(block, one, 3);
    assert_eq!(heap.free_bytes(ListId::ANY_STREAM), 2 * BLOCK);
    assert_eq!(heap.free_bytes(one), BLOCK);
}

#[test]
fn idle_memory_that_is_absorbed_joins_what_is_beyond_it() {
    // Too much idle memory for the first block to absorb, but not for the second.
    let idle = TAKEN_IN + BLOCK;
    let mut heap = extendable((2 * idle + BLOCK) / PAGE);
    let only = heap.add_list();
    let mut take = |bytes| heap.take(ListId::ANY_STREAM, bytes).unwrap();
    let (small, between, large) = (take(BLOCK), take(idle), take(idle));
    heap.free(between, ListId::ANY_STREAM, 0);
    heap.free(small, only, 1);
    heap.free(large, only, 2);
    assert!(heap.take(only, 2 * idle + BLOCK).is_some(), "all are one block");
}
