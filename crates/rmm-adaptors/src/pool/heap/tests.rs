//! The heap against a shadow model: random programs, checked after every step.

use proptest::prelude::*;

use super::{Block, GRANULE, Heap, ListId, NodeId, Point};

#[derive(Clone, Debug)]
enum Op {
    AddSegment { granules: u64 },
    Take { list: u32, granules: u64 },
    TakeCovered { list: u32, granules: u64, covered: Point },
    Free { which: usize, list: u32 },
    Clean { list: u32, covered: Point },
    Fuse { list: u32, granules: u64, covered: Point },
    RemoveUnused,
}

fn op(lists: u32) -> impl Strategy<Value = Op> {
    let size = prop_oneof![1u64..8, 1u64..200, 30u64..40];
    prop_oneof![
        1 => (1u64..300).prop_map(|granules| Op::AddSegment { granules }),
        6 => (0..lists, size.clone()).prop_map(|(list, granules)| Op::Take { list, granules }),
        2 => (0..lists, size.clone(), 0u64..60)
            .prop_map(|(list, granules, covered)| Op::TakeCovered { list, granules, covered }),
        6 => (any::<usize>(), 0..lists).prop_map(|(which, list)| Op::Free { which, list }),
        1 => (1..lists, 0u64..60).prop_map(|(list, covered)| Op::Clean { list, covered }),
        1 => (0..lists, size, 0u64..60).prop_map(|(list, granules, covered)| Op::Fuse { list, granules, covered }),
        1 => Just(Op::RemoveUnused),
    ]
}

/// Blocks tile the segments, sums agree, and free neighbours of one list are merged.
fn check(heap: &Heap, live: &[(NodeId, Block)]) {
    let blocks: Vec<Block> = heap.blocks().collect();
    let (mut reserved, mut live_bytes) = (0, 0);
    for (index, block) in blocks.iter().enumerate() {
        assert!(block.size > 0 && block.size % GRANULE == 0, "{block:?}");
        let before =
            index.checked_sub(1).map(|index| blocks[index]).filter(|b| b.segment == block.segment);
        assert_eq!(
            block.offset,
            before.map_or(0, |before| before.offset + before.size),
            "a gap or an overlap"
        );
        if let Some(before) = before {
            assert!(
                before.free_in != block.free_in || block.free_in.is_none(),
                "not merged: {before:?} {block:?}"
            );
        }
        reserved += block.size;
        live_bytes += if block.free_in.is_none() { block.size } else { 0 };
    }
    assert_eq!(reserved, heap.reserved());
    assert_eq!(live_bytes, heap.live());
    for &(node, block) in live {
        assert_eq!(heap.block(node), block, "a live block has changed");
    }
    let mut free = vec![0; heap.lists.len()];
    for block in &blocks {
        if let Some(list) = block.free_in {
            free[list.index()] += block.size;
        }
    }
    for (list, bytes) in free.into_iter().enumerate() {
        assert_eq!(heap.free_bytes(ListId(u32::try_from(list).unwrap())), bytes, "list {list}");
    }
    let largest =
        blocks.iter().filter(|block| block.free_in.is_some()).map(|block| block.size).max();
    assert_eq!(heap.largest_free(), largest.unwrap_or(0));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_program_keeps_the_heap_whole(ops in proptest::collection::vec(op(4), 1..120)) {
        let mut heap = Heap::new();
        for _ in 1..4 {
            heap.add_list();
        }
        let mut live: Vec<(NodeId, Block)> = Vec::new();
        // Points of a list only grow, as a stream's do.
        for (point, op) in (1..).zip(ops) {
            let taken = match op {
                Op::AddSegment { granules } => {
                    heap.add_segment(granules * GRANULE);
                    None
                }
                Op::Take { list, granules } => heap.take(ListId(list), granules * GRANULE).map(|n| (n, granules)),
                Op::TakeCovered { list, granules, covered } => {
                    heap.take_covered(ListId(list), granules * GRANULE, covered).map(|n| (n, granules))
                }
                Op::Free { which, list } => {
                    if !live.is_empty() {
                        let (node, block) = live.swap_remove(which % live.len());
                        let point = if list == 0 { 0 } else { point };
                        assert_eq!(heap.free(node, ListId(list), point), Some(block.size));
                        assert_eq!(heap.free(node, ListId(list), point), None, "freed twice");
                    }
                    None
                }
                Op::Clean { list, covered } => {
                    heap.clean(ListId(list), covered);
                    None
                }
                Op::Fuse { list, granules, covered } => {
                    let usable = |its: ListId, freed| its.0 == list || its == ListId::CLEAN || freed <= covered;
                    let into_point = if list == 0 { 0 } else { point };
                    heap.fuse(granules * GRANULE, ListId(list), into_point, usable).map(|n| (n, granules))
                }
                Op::RemoveUnused => {
                    for (segment, size) in heap.unused_segments() {
                        assert_eq!(heap.remove_segment(segment), Some(size));
                    }
                    None
                }
            };
            if let Some((node, granules)) = taken {
                let block = heap.block(node);
                assert_eq!(block.size, granules * GRANULE);
                assert_eq!(block.free_in, None);
                live.push((node, block));
            }
            check(&heap, &live);
        }
        // A drained heap is as good as new: every segment is one clean block again.
        for (node, _) in live.drain(..) {
            heap.free(node, ListId(1), 1000);
        }
        for list in 1..4 {
            heap.clean(ListId(list), 1000);
        }
        check(&heap, &live);
        for (segment, _) in heap.unused_segments() {
            heap.remove_segment(segment);
        }
        assert_eq!(heap.reserved(), 0);
    }

    /// No block is overlooked: what a scan of all blocks finds, the last search before growth finds.
    #[test]
    fn a_block_that_fits_is_found(
        sizes in proptest::collection::vec(1u64..70, 1..40),
        wanted in 1u64..70,
    ) {
        let mut heap = Heap::new();
        heap.add_segment(sizes.iter().map(|size| size + 1).sum::<u64>() * GRANULE);
        let mut keep = Vec::new();
        let mut give = Vec::new();
        for size in sizes {
            give.push(heap.take(ListId::CLEAN, size * GRANULE).unwrap());
            keep.push(heap.take(ListId::CLEAN, GRANULE).unwrap());
        }
        for node in give {
            heap.free(node, ListId::CLEAN, 0);
        }
        let fits = heap.largest_free() >= wanted * GRANULE;
        prop_assert_eq!(heap.fuse(wanted * GRANULE, ListId::CLEAN, 0, |_, _| true).is_some(), fits);
    }
}

#[test]
fn the_best_of_a_few_is_taken() {
    let mut heap = Heap::new();
    for granules in [100, 40, 60, 41] {
        heap.add_segment(granules * GRANULE);
    }
    let node = heap.take(ListId::CLEAN, 41 * GRANULE).unwrap();
    assert_eq!(heap.block(node).segment.index(), 3);
    let node = heap.take(ListId::CLEAN, 41 * GRANULE).unwrap();
    assert_eq!(heap.block(node).segment.index(), 2);
}

#[test]
fn a_block_is_not_taken_before_its_point_is_covered() {
    let mut heap = Heap::new();
    let list = heap.add_list();
    heap.add_segment(10 * GRANULE);
    let node = heap.take(ListId::CLEAN, 10 * GRANULE).unwrap();
    heap.free(node, list, 7);
    assert_eq!(heap.take_covered(list, GRANULE, 6), None);
    assert_eq!(heap.point_of_fit(list, GRANULE), Some(7));
    let node = heap.take_covered(list, GRANULE, 7).unwrap();
    assert_eq!(heap.block(node).size, GRANULE);
    // What is left keeps its point.
    assert_eq!(heap.take_covered(list, GRANULE, 6), None);
}

#[test]
fn merged_blocks_take_the_later_point() {
    let mut heap = Heap::new();
    let list = heap.add_list();
    heap.add_segment(2 * GRANULE);
    let first = heap.take(ListId::CLEAN, GRANULE).unwrap();
    let second = heap.take(ListId::CLEAN, GRANULE).unwrap();
    heap.free(second, list, 3);
    heap.free(first, list, 5);
    assert_eq!(heap.take_covered(list, 2 * GRANULE, 4), None);
    assert!(heap.take_covered(list, 2 * GRANULE, 5).is_some());
}

#[test]
fn what_is_left_of_a_fused_run_counts_as_used_by_the_fuser() {
    let mut heap = Heap::new();
    let (mine, other) = (heap.add_list(), heap.add_list());
    heap.add_segment(3 * GRANULE);
    let nodes: Vec<_> = (0..3).map(|_| heap.take(ListId::CLEAN, GRANULE).unwrap()).collect();
    heap.free(nodes[0], mine, 2);
    heap.free(nodes[1], other, 9);
    heap.free(nodes[2], ListId::CLEAN, 0);
    assert_eq!(heap.fuse(3 * GRANULE, mine, 4, |list, _| list != other), None);
    assert!(heap.fuse(2 * GRANULE, mine, 4, |_, _| true).is_some());
    assert_eq!(
        heap.take_covered(mine, GRANULE, 3),
        None,
        "the rest is at the fuser's newest point"
    );
    assert!(heap.take_covered(mine, GRANULE, 4).is_some());
}
