//! What was known of the heap before it changed: pieces, claims, ends and records that are others
//! by now.

use super::{Heap, NodeId, PAGE, check, extend, extendable, grow, remove_all};
use crate::suballocators::pool::heap::nodes::Node;
use crate::suballocators::pool::values::units::{GRANULE, ListId};

fn take(heap: &mut Heap, size: u64) -> NodeId {
    heap.take(ListId::ANY_STREAM, size).expect("there is memory")
}

#[test]
fn a_piece_whose_record_is_of_another_segment_stays() {
    let mut heap = Heap::new();
    heap.add_segment(&[PAGE, PAGE]);
    let (first, second) = (take(&mut heap, PAGE), take(&mut heap, PAGE));
    heap.free(second, ListId::ANY_STREAM, 0);
    let found = heap.unused_pieces();
    assert_eq!(found.len(), 1);
    // The second block's record goes to the next segment, which is as unused, and longer.
    let second = take(&mut heap, PAGE);
    heap.free(first, ListId::ANY_STREAM, 0);
    heap.free(second, ListId::ANY_STREAM, 0);
    let block = take(&mut heap, 2 * PAGE);
    heap.add_segment(&[2 * PAGE]);
    assert_eq!(heap.remove_pieces(found), [], "it is in use");
    check(&heap, &[(block, heap.block(block))], &[]);
}

#[test]
fn a_piece_in_whose_place_there_are_others_stays() {
    let mut heap = Heap::new();
    let segment = heap.add_segment(&[PAGE, 2 * PAGE]);
    heap.make_extendable(segment);
    take(&mut heap, PAGE);
    let found = heap.unused_pieces();
    assert_eq!(heap.remove_pieces(found.clone()).len(), 1);
    // It comes back page by page.
    let place = (ListId::ANY_STREAM, 0);
    let again = extend(&mut heap, 2 * PAGE, place, |_, _| true, super::Outcome::Comes);
    heap.free(again.expect("memory comes"), ListId::ANY_STREAM, 0);
    assert_eq!(heap.remove_pieces(found), [], "two came, of which each goes back by itself");
    remove_all(&mut heap);
    assert_eq!(heap.reserved(), PAGE);
}

#[test]
fn an_end_that_moves_down_can_be_extended_again() {
    let mut heap = extendable(1);
    take(&mut heap, PAGE);
    let place = (ListId::ANY_STREAM, 0);
    let last = extend(&mut heap, PAGE, place, |_, _| true, super::Outcome::Comes);
    let refused = extend(&mut heap, PAGE, place, |_, _| true, super::Outcome::IsElsewhere);
    assert_eq!(refused, None);
    heap.free(last.expect("memory comes"), ListId::ANY_STREAM, 0);
    remove_all(&mut heap);
    assert_eq!(grow(&mut heap, PAGE).offset, PAGE, "there was memory before");
}

#[test]
fn an_end_within_a_page_is_not_extended() {
    let mut heap = Heap::new();
    let segment = heap.add_segment(&[PAGE + GRANULE]);
    heap.make_extendable(segment);
    take(&mut heap, PAGE + GRANULE);
    assert!(heap.reserve(PAGE, PAGE, |_, _| true).is_none());
}

#[test]
fn a_claim_behind_which_there_is_another_is_not_widened() {
    let mut heap = extendable(1);
    take(&mut heap, PAGE);
    let mut first = heap.reserve(PAGE, PAGE, |_, _| true).expect("the end");
    let second = heap.reserve(PAGE, PAGE, |_, _| true).expect("the end behind it");
    heap.widen(&mut first, PAGE);
    assert_eq!(
        (&first.missing[..], &second.missing[..]),
        (&[(PAGE, PAGE)][..], &[(2 * PAGE, PAGE)][..])
    );
    let claimed = [(first, ListId::ANY_STREAM, PAGE), (second, ListId::ANY_STREAM, PAGE)];
    check(&heap, &[], &claimed);
}

#[test]
fn what_a_bounded_pass_did_not_come_to_is_cleaned_later() {
    let mut heap = Heap::new();
    let list = heap.add_list();
    heap.add_segment(&[6 * GRANULE]);
    let nodes: Vec<NodeId> = (0..6).map(|_| take(&mut heap, GRANULE)).collect();
    for (node, point) in [(nodes[0], 1), (nodes[2], 2), (nodes[4], 9)] {
        heap.free(node, list, point);
    }
    assert_eq!(heap.reclaim(list, 2, 1), 1, "that of point 9, which comes first");
    heap.reclaim(list, 2, usize::MAX);
    assert_eq!(heap.free_bytes(ListId::ANY_STREAM), 2 * GRANULE);
}

#[test]
fn records_that_are_freed_are_not_used_again() {
    let mut heap = Heap::new();
    heap.add_segment(&[8 * GRANULE]);
    let fill = |heap: &mut Heap| -> Vec<NodeId> { (0..8).map(|_| take(heap, GRANULE)).collect() };
    for node in fill(&mut heap) {
        heap.free(node, ListId::ANY_STREAM, 0);
    }
    heap.shrink_to(1);
    assert!(heap.nodes.bookkeeping_bytes() < 8 * size_of::<Node>() as u64);
    let live: Vec<_> = fill(&mut heap).into_iter().map(|node| (node, heap.block(node))).collect();
    check(&heap, &live, &[]);
}
