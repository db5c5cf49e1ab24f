//! The heap against a shadow model: random programs, checked after every step.

use proptest::prelude::*;

use super::zones::SlabSizes;
use super::{Block, Heap, NodeId, PendingExtent, Piece};
use crate::suballocators::pool::values::units::{GRANULE, ListId, Point};

mod absorbed;
mod alone;
mod lengths;
mod scans;
mod slabs;
mod stale;

#[derive(Clone, Debug)]
enum Op {
    AddSegment { granules: u64 },
    Take { list: u32, granules: u64 },
    TakeCovered { list: u32, granules: u64, covered: Point },
    Free { which: usize, list: u32 },
    Clean { list: u32, covered: Point },
    CleanPieces { covered: Point },
    Fuse { list: u32, granules: u64, covered: Point },
    RemoveUnused,
    RemovePiece { which: usize },
    PendingExtent { list: u32, granules: u64, more: u64, covered: Point },
    Settle { which: usize, outcome: Outcome },
}

/// A extent, and what it is for: the list, and the bytes of the block.
type Pending = (PendingExtent, ListId, u64);

/// What becomes of the memory that is asked for.
#[derive(Clone, Copy, Debug)]
enum Outcome {
    Comes,
    IsRefused,
    IsElsewhere,
}

/// What the memory of these tests comes in.
const PAGE: u64 = 8 * GRANULE;

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![8 => Just(Outcome::Comes), 2 => Just(Outcome::IsRefused), 1 => Just(Outcome::IsElsewhere)]
}

fn op(lists: u32) -> impl Strategy<Value = Op> {
    let size = prop_oneof![1u64..8, 1u64..200, 30u64..40];
    prop_oneof![
        1 => (1u64..300).prop_map(|granules| Op::AddSegment { granules }),
        1 => (1u64..20).prop_map(|pages| Op::AddSegment { granules: pages * PAGE / GRANULE }),
        6 => (0..lists, size.clone()).prop_map(|(list, granules)| Op::Take { list, granules }),
        2 => (0..lists, size.clone(), 0u64..60)
            .prop_map(|(list, granules, covered)| Op::TakeCovered { list, granules, covered }),
        6 => (any::<usize>(), 0..lists).prop_map(|(which, list)| Op::Free { which, list }),
        1 => (1..lists, 0u64..60).prop_map(|(list, covered)| Op::Clean { list, covered }),
        1 => (0u64..60).prop_map(|covered| Op::CleanPieces { covered }),
        1 => (0..lists, size, 0u64..60).prop_map(|(list, granules, covered)| Op::Fuse { list, granules, covered }),
        1 => Just(Op::RemoveUnused),
        2 => any::<usize>().prop_map(|which| Op::RemovePiece { which }),
        3 => (0..lists, 1u64..60, 0u64..3, 0u64..60)
            .prop_map(|(list, granules, more, covered)| Op::PendingExtent { list, granules, more, covered }),
        3 => (any::<usize>(), outcome()).prop_map(|(which, outcome)| Op::Settle { which, outcome }),
    ]
}

/// Blocks tile the segments, sums agree, and free neighbours of one list are merged.
fn check(heap: &Heap, live: &[(NodeId, Block)], pending: &[Pending]) {
    let places: Vec<Block> = pending.iter().map(|(extent, ..)| heap.block(extent.node)).collect();
    let blocks: Vec<Block> = heap.blocks().collect();
    let (mut reserved, mut live_bytes) = (0, 0);
    for (index, block) in blocks.iter().enumerate() {
        assert!(block.size > 0 && block.size % GRANULE == 0, "{block:?}");
        let before =
            index.checked_sub(1).map(|index| blocks[index]).filter(|b| b.segment == block.segment);
        let end = before.map_or(0, |before| before.offset + before.size);
        assert!(block.offset >= end, "an overlap: {before:?} {block:?}");
        // Where no block is there is no piece, and where one is there are pieces.
        let pieces = heap.pieces().filter(|piece| piece.segment == block.segment);
        let covered: u64 = pieces
            .map(|piece| {
                let end = (piece.offset + piece.size).min(block.offset + block.size);
                end.saturating_sub(piece.offset.max(block.offset))
            })
            .sum();
        assert_eq!(covered, block.size, "memory is missing under {block:?}");
        reserved += block.size;
        live_bytes += if block.free_in.is_none() { block.size } else { 0 };
    }
    // A reserved range is no block, but parts of it may be mapped.
    for (place, (extent, ..)) in places.iter().zip(pending) {
        reserved += place.size - extent.missing_bytes();
    }
    assert_eq!(reserved, heap.reserved());
    assert_eq!(reserved, heap.pieces().map(|piece| piece.size).sum::<u64>());
    let is_idle = |piece: &Piece| {
        let used = blocks.iter().filter(|block| block.free_in.is_none()).chain(&places);
        !used.into_iter().any(|block| overlap(piece, block))
    };
    let is_live = |block: &Block| block.free_in.is_none();
    let without: Vec<Piece> = heap
        .pieces()
        .filter(|piece| !blocks.iter().any(|block| is_live(block) && overlap(piece, block)))
        .collect();
    assert_eq!(heap.pieces_without(is_live), without);
    let idle: u64 = heap.pieces().filter(is_idle).map(|piece| piece.size).sum();
    assert_eq!(heap.idle_bytes(), idle);
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
    scans::check(heap);
}

fn overlap(piece: &Piece, block: &Block) -> bool {
    piece.segment == block.segment
        && block.offset < piece.offset + piece.size
        && piece.offset < block.offset + block.size
}

fn remove_all(heap: &mut Heap) {
    let unused = heap.unused_pieces();
    let count = unused.len();
    assert_eq!(heap.remove_pieces(unused).len(), count);
}

/// Takes a piece out; says whether that was possible.
fn remove(heap: &mut Heap, piece: Piece) -> bool {
    !heap.remove_pieces(vec![piece]).is_empty()
}

/// Claims a place.
fn reserve(
    heap: &mut Heap,
    (size, more): (u64, u64),
    usable: impl Fn(ListId, Point) -> bool,
    pending: &[Pending],
) -> Option<PendingExtent> {
    let reserved = heap.reserved();
    let least = scans::least_missing(heap, size, &usable);
    assert_eq!(heap.least_missing(size, PAGE, &usable), least);
    let mut extent = heap.reserve(size, PAGE, usable)?;
    let missing = extent.missing_bytes();
    assert_eq!(Some(missing), least);
    assert!(missing <= size.next_multiple_of(PAGE));
    if extent.is_at_end {
        heap.widen(&mut extent, more);
        assert_eq!(extent.missing_bytes(), missing + more);
    }
    assert_eq!(heap.reserved(), reserved, "nothing has come yet");
    let others = pending.iter().map(|(other, ..)| other);
    let others = others.filter(|other| other.segment == extent.segment);
    let asked: Vec<(u64, u64)> = others.flat_map(|other| other.missing.iter().copied()).collect();
    for &(offset, bytes) in &extent.missing {
        assert!(offset.is_multiple_of(PAGE) && bytes.is_multiple_of(PAGE) && bytes > 0);
        let there = heap.pieces().filter(|piece| piece.segment == extent.segment);
        let there = there.map(|piece| (piece.offset, piece.size)).chain(asked.iter().copied());
        for (start, size) in there {
            assert!(start >= offset + bytes || offset >= start + size, "asked for twice");
        }
    }
    Some(extent)
}

/// What was asked for comes, or does not.
fn settle(
    heap: &mut Heap,
    (extent, list, size): Pending,
    point: Point,
    outcome: Outcome,
) -> Option<NodeId> {
    let (reserved, live) = (heap.reserved(), heap.live());
    let (segment, first) = (extent.segment, extent.missing.first().map(|&(offset, _)| offset));
    if let Outcome::Comes = outcome {
        let pieces: Vec<(u64, u64)> = extent
            .missing
            .iter()
            .flat_map(|&(offset, bytes)| (0..bytes / PAGE).map(move |n| (offset + n * PAGE, PAGE)))
            .collect();
        let node = heap.commit(&extent, &pieces, size, (list, point));
        assert_eq!(heap.reserved(), reserved + extent.missing_bytes());
        assert_eq!(heap.live(), live + size);
        return Some(node);
    }
    heap.abort(extent, list, point);
    assert_eq!((heap.reserved(), heap.live()), (reserved, live));
    if let (Outcome::IsElsewhere, Some(offset)) = (outcome, first) {
        heap.close_at(segment, offset);
    }
    None
}

/// Claims a place, and what is missing there comes, or does not.
fn extend(
    heap: &mut Heap,
    size: u64,
    (list, point): (ListId, Point),
    usable: impl Fn(ListId, Point) -> bool,
    outcome: Outcome,
) -> Option<NodeId> {
    let extent = reserve(heap, (size, 0), usable, &[])?;
    settle(heap, (extent, list, size), point, outcome)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_program_keeps_the_heap_whole(
        ops in proptest::collection::vec(op(4), 1..120),
        is_indexed in any::<bool>(),
        slab in proptest::option::of(prop_oneof![Just(8u64), Just(40), Just(90)]),
    ) {
        let mut heap = Heap::new();
        if let Some(granules) = slab {
            heap.slabs =
                SlabSizes { are_made: true, bytes: granules * GRANULE, heap_for_each: 0 };
        }
        if is_indexed {
            heap.runs.from = 0;
        }
        for _ in 1..4 {
            heap.add_list();
        }
        let mut live: Vec<(NodeId, Block)> = Vec::new();
        let mut pending: Vec<Pending> = Vec::new();
        // Points of a list only grow, as a stream's do.
        for (point, op) in (1..).zip(ops) {
            let taken = match op {
                Op::AddSegment { granules } => {
                    let segment = heap.add_segment(&[granules * GRANULE]);
                    if (granules * GRANULE).is_multiple_of(PAGE) {
                        heap.make_extendable(segment);
                    }
                    None
                }
                Op::Take { list, granules } => heap.take(ListId(list), granules * GRANULE).map(|n| (n, granules)),
                Op::TakeCovered { list, granules, covered } => {
                    heap.take_visible(ListId(list), granules * GRANULE, covered).map(|n| (n, granules))
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
                    heap.reclaim(ListId(list), covered, usize::MAX);
                    None
                }
                Op::CleanPieces { covered } => {
                    scans::check_pieces(&mut heap, covered);
                    None
                }
                Op::Fuse { list, granules, covered } => {
                    let usable = |its: ListId, freed| its.0 == list || its == ListId::ANY_STREAM || freed <= covered;
                    let into_point = if list == 0 { 0 } else { point };
                    let fits = scans::longest_usable_run(&heap, usable) >= granules * GRANULE;
                    let fused = heap.coalesce_across_streams(granules * GRANULE, ListId(list), into_point, usable);
                    assert_eq!(fused.is_some(), fits, "no run is overlooked");
                    fused.map(|n| (n, granules))
                }
                Op::RemoveUnused => {
                    remove_all(&mut heap);
                    None
                }
                Op::RemovePiece { which } => {
                    let unused = heap.unused_pieces();
                    if !unused.is_empty() {
                        let piece = unused[which % unused.len()];
                        assert!(remove(&mut heap, piece));
                        assert!(!remove(&mut heap, piece), "removed twice");
                    }
                    None
                }
                Op::PendingExtent { list, granules, more, covered } => {
                    let usable = |its: ListId, freed| its.0 == list || its == ListId::ANY_STREAM || freed <= covered;
                    let (size, list) = (granules * GRANULE, ListId(list));
                    let extent = reserve(&mut heap, (size, more * PAGE), usable, &pending);
                    pending.extend(extent.map(|extent| (extent, list, size)));
                    None
                }
                // Other threads go on while one asks upstream for what it has reserved.
                Op::Settle { which, outcome } if !pending.is_empty() => {
                    let pending = pending.swap_remove(which % pending.len());
                    let (list, size) = (pending.1, pending.2);
                    let into_point = if list == ListId::ANY_STREAM { 0 } else { point };
                    settle(&mut heap, pending, into_point, outcome).map(|n| (n, size / GRANULE))
                }
                Op::Settle { .. } => None,
            };
            if let Some((node, granules)) = taken {
                let block = heap.block(node);
                assert_eq!(block.size, granules * GRANULE);
                assert_eq!(block.free_in, None);
                live.push((node, block));
            }
            check(&heap, &live, &pending);
        }
        for pending in pending.drain(..) {
            settle(&mut heap, pending, 1000, Outcome::IsRefused);
        }
        // A drained heap is as good as new: every segment is one clean block again.
        for (node, _) in live.drain(..) {
            heap.free(node, ListId(1), 1000);
        }
        for list in 1..4 {
            heap.reclaim(ListId(list), 1000, usize::MAX);
        }
        check(&heap, &live, &[]);
        remove_all(&mut heap);
        assert_eq!(heap.reserved(), 0);
        assert!(heap.segments.iter().all(Option::is_none), "nothing is left but free places");
    }

    /// No block is overlooked: what a scan of all blocks finds, the last search before growth
    /// finds.
    #[test]
    fn a_block_that_fits_is_found(
        sizes in proptest::collection::vec(1u64..70, 1..40),
        wanted in 1u64..70,
    ) {
        let mut heap = Heap::new();
        heap.add_segment(&[sizes.iter().map(|size| size + 1).sum::<u64>() * GRANULE]);
        let mut keep = Vec::new();
        let mut give = Vec::new();
        for size in sizes {
            give.push(heap.take(ListId::ANY_STREAM, size * GRANULE).unwrap());
            keep.push(heap.take(ListId::ANY_STREAM, GRANULE).unwrap());
        }
        for node in give {
            heap.free(node, ListId::ANY_STREAM, 0);
        }
        let fits = heap.largest_free() >= wanted * GRANULE;
        prop_assert_eq!(heap.coalesce_across_streams(wanted * GRANULE, ListId::ANY_STREAM, 0, |_, _| true).is_some(), fits);
    }
}

#[test]
fn the_best_of_a_few_is_taken() {
    let mut heap = Heap::new();
    for granules in [100, 40, 60, 41] {
        heap.add_segment(&[granules * GRANULE]);
    }
    let node = heap.take(ListId::ANY_STREAM, 41 * GRANULE).unwrap();
    assert_eq!(heap.block(node).segment.index(), 3);
    let node = heap.take(ListId::ANY_STREAM, 41 * GRANULE).unwrap();
    assert_eq!(heap.block(node).segment.index(), 2);
}

#[test]
fn a_block_is_not_taken_before_its_point_is_covered() {
    let mut heap = Heap::new();
    let list = heap.add_list();
    heap.add_segment(&[10 * GRANULE]);
    let node = heap.take(ListId::ANY_STREAM, 10 * GRANULE).unwrap();
    heap.free(node, list, 7);
    assert_eq!(heap.take_visible(list, GRANULE, 6), None);
    assert_eq!(heap.fit(list, GRANULE).map(|(_, point)| point), Some(7));
    let node = heap.take_visible(list, GRANULE, 7).unwrap();
    assert_eq!(heap.block(node).size, GRANULE);
    // What is left keeps its point.
    assert_eq!(heap.take_visible(list, GRANULE, 6), None);
}

#[test]
fn merged_blocks_take_the_later_point() {
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let mut heap = Heap::new();
        let list = heap.add_list();
        heap.add_segment(&[3 * GRANULE]);
        let nodes: Vec<_> =
            (0..3).map(|_| heap.take(ListId::ANY_STREAM, GRANULE).unwrap()).collect();
        for (node, point) in order.into_iter().zip([3, 4, 5]) {
            heap.free(nodes[node], list, point);
        }
        assert_eq!(heap.take_visible(list, 3 * GRANULE, 4), None, "{order:?}");
        assert!(heap.take_visible(list, 3 * GRANULE, 5).is_some(), "{order:?}");
    }
}

#[test]
fn what_is_left_of_a_fused_run_counts_as_used_by_the_fuser() {
    let mut heap = Heap::new();
    let (mine, other) = (heap.add_list(), heap.add_list());
    heap.add_segment(&[3 * GRANULE]);
    let nodes: Vec<_> = (0..3).map(|_| heap.take(ListId::ANY_STREAM, GRANULE).unwrap()).collect();
    heap.free(nodes[0], mine, 2);
    heap.free(nodes[1], other, 9);
    heap.free(nodes[2], ListId::ANY_STREAM, 0);
    assert_eq!(heap.coalesce_across_streams(3 * GRANULE, mine, 4, |list, _| list != other), None);
    assert!(heap.coalesce_across_streams(2 * GRANULE, mine, 4, |_, _| true).is_some());
    assert_eq!(
        heap.take_visible(mine, GRANULE, 3),
        None,
        "the rest is at the fuser's newest point"
    );
    assert!(heap.take_visible(mine, GRANULE, 4).is_some());
}

/// A heap of one segment that can be extended.
fn extendable(pages: u64) -> Heap {
    let mut heap = Heap::new();
    let segment = heap.add_segment(&[pages * PAGE]);
    heap.make_extendable(segment);
    heap
}

fn grow(heap: &mut Heap, size: u64) -> Block {
    let place = (ListId::ANY_STREAM, 0);
    let node = extend(heap, size, place, |_, _| true, Outcome::Comes).unwrap();
    heap.block(node)
}

#[test]
fn only_what_is_missing_is_added() {
    let mut heap = extendable(4);
    heap.take(ListId::ANY_STREAM, PAGE + GRANULE).unwrap();
    let block = grow(&mut heap, 4 * PAGE);
    assert_eq!((block.offset, block.size), (PAGE + GRANULE, 4 * PAGE));
    assert_eq!(heap.reserved(), 6 * PAGE);
    assert_eq!(heap.largest_free(), PAGE - GRANULE, "the rest of the last page");
}

#[test]
fn gaps_are_filled_from_either_side() {
    // The free page in the middle has a gap on both sides, or below it, or above it.
    for live in [[0, 7], [0, 5], [3, 7]] {
        let mut heap = extendable(1);
        let mut nodes = vec![heap.take(ListId::ANY_STREAM, PAGE).unwrap()];
        for _ in 1..9 {
            let place = (ListId::ANY_STREAM, 0);
            nodes.push(extend(&mut heap, PAGE, place, |_, _| true, Outcome::Comes).unwrap());
        }
        for (index, &node) in nodes.iter().enumerate() {
            if !live.contains(&index) {
                heap.free(node, ListId::ANY_STREAM, 0);
            }
        }
        // One free page stays, in the middle of the gap.
        let mut pieces = heap.unused_pieces();
        pieces.retain(|piece| piece.offset != 4 * PAGE);
        heap.remove_pieces(pieces);
        let reserved = heap.reserved();
        grow(&mut heap, 2 * PAGE);
        assert_eq!(heap.reserved(), reserved + PAGE);
    }
}

#[test]
fn a_segment_ends_with_memory_and_goes_with_its_last_piece() {
    let mut heap = extendable(1);
    let first = heap.take(ListId::ANY_STREAM, PAGE).unwrap();
    let second = grow(&mut heap, PAGE);
    let end = grow(&mut heap, PAGE);
    assert_eq!((second.offset, end.offset), (PAGE, 2 * PAGE));
    let live: Vec<NodeId> = heap.blocks_from(first).skip(1).collect();
    for node in live {
        heap.free(node, ListId::ANY_STREAM, 0);
    }
    remove_all(&mut heap);
    assert_eq!(heap.reserved(), PAGE);
    assert_eq!(grow(&mut heap, PAGE).offset, PAGE, "the end has moved down");
    heap.free(first, ListId::ANY_STREAM, 0);
    remove_all(&mut heap);
    assert_eq!(heap.reserved(), PAGE, "the second is in use");
}

#[test]
fn memory_that_is_somebody_elses_is_not_asked_for_again() {
    let mut heap = extendable(1);
    let node = heap.take(ListId::ANY_STREAM, PAGE).unwrap();
    let place = (ListId::ANY_STREAM, 0);
    assert_eq!(extend(&mut heap, PAGE, place, |_, _| true, Outcome::IsElsewhere), None);
    assert!(heap.reserve(PAGE, PAGE, |_, _| true).is_none());
    heap.free(node, ListId::ANY_STREAM, 0);
    remove_all(&mut heap);
    assert_eq!(heap.reserved(), 0);
}

#[test]
fn what_others_may_still_use_is_no_part_of_a_claim() {
    let mut heap = extendable(1);
    let other = heap.add_list();
    let node = heap.take(ListId::ANY_STREAM, PAGE).unwrap();
    heap.free(node, other, 7);
    let place = (ListId::ANY_STREAM, 0);
    let usable = |list, point| list != other || point <= 6;
    let node = extend(&mut heap, PAGE, place, usable, Outcome::Comes).unwrap();
    assert_eq!(heap.block(node).offset, PAGE);
}

#[test]
fn a_widened_claim_gives_back_as_clean_only_what_is_new() {
    let mut heap = extendable(1);
    let other = heap.add_list();
    heap.take(ListId::ANY_STREAM, PAGE).unwrap();
    let place = (ListId::ANY_STREAM, 0);
    let [gap, used] =
        [0, 1].map(|_| extend(&mut heap, PAGE, place, |_, _| true, Outcome::Comes).unwrap());
    heap.free(gap, ListId::ANY_STREAM, 0);
    remove_all(&mut heap);
    heap.free(used, other, 7);
    // The gap, most of the used page behind it, and a page more at the end.
    let size = PAGE + PAGE / 2;
    let extent = reserve(&mut heap, (size, PAGE), |_, _| true, &[]).unwrap();
    assert_eq!(extent.missing, [(PAGE, PAGE), (3 * PAGE, PAGE)]);
    settle(&mut heap, (extent, other, size), 7, Outcome::Comes).unwrap();
    assert_eq!(heap.free_bytes(ListId::ANY_STREAM), PAGE, "the page that is new");
    assert_eq!(heap.free_bytes(other), PAGE / 2, "the rest of the used page");
}

#[test]
fn a_piece_that_was_used_meanwhile_stays() {
    let mut heap = extendable(1);
    let other = heap.add_list();
    let piece = heap.unused_pieces()[0];
    let node = heap.take(ListId::ANY_STREAM, PAGE).unwrap();
    assert!(!remove(&mut heap, piece), "it is live");
    heap.free(node, other, 7);
    assert!(!remove(&mut heap, piece), "work may still use it");
    heap.reclaim(other, 7, usize::MAX);
    assert!(remove(&mut heap, piece));
}
