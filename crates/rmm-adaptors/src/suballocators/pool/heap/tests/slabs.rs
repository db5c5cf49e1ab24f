//! Free neighbours of one list are one block, where slabs begin and end too.

use super::super::zones::SlabSizes;
use super::{Heap, NodeId, check};
use crate::suballocators::pool::values::units::{GRANULE, ListId};

/// A heap of 40 granules in one block, with slabs of 8.
fn heap() -> Heap {
    let mut heap = Heap::new();
    heap.slabs = SlabSizes { are_made: true, bytes: 8 * GRANULE, heap_for_each: 0 };
    heap.add_segment(&[40 * GRANULE]);
    heap
}

fn take(heap: &mut Heap, granules: u64) -> NodeId {
    heap.take(ListId::ANY_STREAM, granules * GRANULE).unwrap()
}

fn offset(heap: &Heap, node: NodeId) -> u64 {
    heap.block(node).offset / GRANULE
}

#[test]
fn a_slab_that_ends_with_its_block_takes_in_the_part_behind_it() {
    let mut heap = heap();
    let _live = [2, 4].map(|granules| take(&mut heap, granules));
    let large = take(&mut heap, 8);
    let small = [1, 3, 3].map(|granules| take(&mut heap, granules));
    assert_eq!(offset(&heap, large), 8);
    assert_eq!(small.map(|node| offset(&heap, node)), [6, 16, 19]);
    heap.free(small[1], ListId::ANY_STREAM, 0);
    heap.free(large, ListId::ANY_STREAM, 0);
    // Free are 7..8, 8..16 (large), 16..19 and 22..24 (parts of slabs), and 24..40 (large).
    let node = take(&mut heap, 4);
    assert_eq!(offset(&heap, node), 8, "the smallest block that holds a slab");
    check(&heap, &[], &[]);
}

#[test]
fn the_last_part_of_a_slab_joins_the_large_blocks_on_both_sides() {
    let mut heap = heap();
    let other = heap.add_list();
    let large = take(&mut heap, 8);
    let small = [2, 4, 2, 4].map(|granules| take(&mut heap, granules));
    assert_eq!(small.map(|node| offset(&heap, node)), [8, 10, 14, 16]);
    heap.free(large, ListId::ANY_STREAM, 0);
    heap.free(small[0], ListId::ANY_STREAM, 0);
    // These are as large as a slab when they are free.
    for node in &small[1..] {
        heap.free(*node, other, 1);
    }
    heap.reclaim(other, 1, usize::MAX);
    check(&heap, &[], &[]);
    assert_eq!(heap.largest_free(), 40 * GRANULE);
}

#[test]
fn a_piece_that_a_part_of_a_slab_shares_with_a_large_block_is_unused() {
    let mut heap = Heap::new();
    heap.slabs = SlabSizes { are_made: true, bytes: 8 * GRANULE, heap_for_each: 0 };
    // The second piece is 24..40.
    heap.add_segment(&[24 * GRANULE, 16 * GRANULE, 16 * GRANULE]);
    let _first = take(&mut heap, 17);
    let small = [3, 4].map(|granules| take(&mut heap, granules));
    let large = take(&mut heap, 15);
    let last = [1, 6].map(|granules| take(&mut heap, granules));
    assert_eq!(offset(&heap, large), 25);
    assert_eq!(last.map(|node| offset(&heap, node)), [24, 40]);
    for node in [small[1], large, last[0]] {
        heap.free(node, ListId::ANY_STREAM, 0);
    }
    let unused = heap.unused_pieces();
    assert!(unused.iter().any(|piece| piece.offset == 24 * GRANULE), "{unused:?}");
    check(&heap, &[], &[]);
}
