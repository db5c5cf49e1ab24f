//! What the indices of a heap have to agree with: scans of all blocks.

use super::super::nodes::{Node, NodeState};
use super::super::{Extension, Heap, NodeId, Segment, SegmentId};
use super::PAGE;
use crate::suballocators::pool::values::units::{ListId, Point};

fn segments(heap: &Heap) -> impl Iterator<Item = (SegmentId, &Segment)> {
    (0..)
        .zip(&heap.segments)
        .filter_map(|(index, segment)| Some((SegmentId(index), segment.as_ref()?)))
}

/// Runs of neighbours that are all accepted.
fn runs(heap: &Heap, accepts: impl Fn(&Node) -> bool) -> Vec<Vec<(NodeId, Node)>> {
    let mut runs = vec![Vec::new()];
    for (_, segment) in segments(heap) {
        for id in heap.blocks_from(segment.first) {
            let node = *heap.nodes.get(id);
            if accepts(&node) {
                runs.last_mut().unwrap().push((id, node));
            } else {
                runs.push(Vec::new());
            }
        }
        runs.push(Vec::new());
    }
    runs.retain(|run| !run.is_empty());
    runs
}

fn bytes(run: &[(NodeId, Node)]) -> u64 {
    run.iter().map(|(_, node)| node.size).sum()
}

/// The bytes of the longest run of blocks that may be used.
pub(super) fn longest_usable_run(heap: &Heap, usable: impl Fn(ListId, Point) -> bool) -> u64 {
    let is_usable = |node: &Node| match node.state {
        NodeState::Free(list, point) => usable(list, point),
        _ => false,
    };
    runs(heap, is_usable).iter().map(|run| bytes(run)).max().unwrap_or(0)
}

/// The least memory that has to be added for a block: every place is tried.
pub(super) fn least_missing(
    heap: &Heap,
    size: u64,
    usable: impl Fn(ListId, Point) -> bool,
) -> Option<u64> {
    let mut least = (longest_usable_run(heap, &usable) >= size).then_some(0);
    for (_, segment) in segments(heap).filter(|(_, it)| it.extension != Extension::Nowhere) {
        // Bytes of what may be a part of the block, and whether they are there already.
        let mut parts: Vec<Option<(u64, bool)>> = heap
            .blocks_from(segment.first)
            .map(|id| {
                let node = heap.nodes.get(id);
                match node.state {
                    NodeState::Gap => Some((node.size, false)),
                    NodeState::Free(list, point) => {
                        usable(list, point).then_some((node.size, true))
                    }
                    _ => None,
                }
            })
            .collect();
        if segment.extension == Extension::Anywhere && segment.size.is_multiple_of(PAGE) {
            parts.push(Some((size.next_multiple_of(PAGE), false)));
        }
        let reversed: Vec<_> = parts.iter().rev().copied().collect();
        for (parts, to_free) in [(&parts, false), (&reversed, true)] {
            for first in 0..parts.len() {
                // A window ends with whole blocks: where it would end in a gap, the other direction
                // has it.
                if to_free && !matches!(parts[first], Some((_, true))) {
                    continue;
                }
                let (mut covered, mut missing) = (0, 0);
                for &(bytes, is_there) in parts[first..].iter().map_while(Option::as_ref) {
                    let needed = (size - covered).next_multiple_of(PAGE);
                    let taken = if is_there { bytes } else { needed.min(bytes) };
                    missing += if is_there { 0 } else { taken };
                    covered += taken;
                    if covered >= size {
                        least = Some(least.map_or(missing, |least: u64| least.min(missing)));
                        break;
                    }
                }
            }
        }
    }
    least
}

/// The indices have what the scans find.
pub(super) fn check(heap: &Heap) {
    let is_free = |node: &Node| matches!(node.state, NodeState::Free(..));
    let free = runs(heap, is_free);
    let of_several: Vec<(u64, NodeId)> =
        free.iter().filter(|run| run.len() > 1).map(|run| (bytes(run), run[0].0)).collect();
    let indexed: Vec<(u64, NodeId)> =
        heap.runs_at_least(0).map(|(bytes, run)| (bytes, run.first)).collect();
    assert_eq!(indexed, of_several, "runs");
    assert_eq!(heap.longest_free_run(), longest_usable_run(heap, |_, _| true));
    for size in [1, 8, 40, 100]
        .map(|granules| granules * crate::suballocators::pool::values::units::GRANULE)
    {
        assert_eq!(heap.has_free_run(size), heap.longest_free_run() >= size, "{size}");
    }
    let gaps: Vec<NodeId> = runs(heap, |node| matches!(node.state, NodeState::Gap))
        .into_iter()
        .flatten()
        .map(|(id, _)| id)
        .collect();
    assert_eq!(heap.gaps.values().copied().collect::<Vec<_>>(), gaps, "gaps");
    for (_, segment) in segments(heap) {
        assert_eq!(heap.blocks_from(segment.first).last(), Some(segment.last), "ends");
        let blocks: Vec<Node> =
            heap.blocks_from(segment.first).map(|id| *heap.nodes.get(id)).collect();
        for (block, next) in blocks.iter().zip(blocks.iter().skip(1)) {
            let list_of = |node: &Node| match node.state {
                NodeState::Free(list, _) => Some((list, node.zone)),
                _ => None,
            };
            let list = list_of(block);
            assert!(list.is_none() || list != list_of(next), "not merged: {block:?} {next:?}");
        }
    }
    for (id, list) in heap.lists.with_blocks() {
        for node in list.iter(&heap.nodes).map(|id| heap.nodes.get(id)) {
            assert!(matches!({ node.state }, NodeState::Free(its, _) if its == id));
            assert!(list.oldest() <= node.point(), "a block is older than the list");
            assert!(list.largest_bound() >= node.size);
        }
    }
}

/// Cleans what pieces need, and then all: that makes no further piece unused.
pub(super) fn check_pieces(heap: &mut Heap, covered: Point) {
    let unused = |heap: &mut Heap| -> Vec<(usize, u64)> {
        let mut pieces: Vec<_> =
            heap.unused_pieces().iter().map(|it| (it.segment.index(), it.offset)).collect();
        pieces.sort_unstable();
        pieces
    };
    let in_use = |heap: &Heap| -> u64 {
        let is_in_use =
            |node: &Node| matches!(node.state, NodeState::Free(..)) && node.point() > covered;
        runs(heap, is_in_use).iter().map(|run| bytes(run)).sum()
    };
    let still = in_use(heap);
    heap.reclaim_pieces(|_| covered);
    assert_eq!(in_use(heap), still, "what may be in use is not clean");
    let before = unused(heap);
    for list in 1..heap.lists.len() {
        heap.reclaim(ListId(u32::try_from(list).unwrap()), covered, usize::MAX);
    }
    assert_eq!(unused(heap), before, "a piece was not cleaned");
}
