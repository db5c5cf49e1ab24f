//! Tests of free lists, and of the passes over those that hold blocks.

use super::super::few::FEW;
use super::super::nodes::{IdleFrom, Node, NodeState, SegmentId};
use super::*;

const ONE: ListId = ListId(1);
const OTHER: ListId = ListId(2);

fn three_lists() -> (Lists, Nodes) {
    let mut lists = Lists::new();
    assert_eq!([lists.add(), lists.add()], [ONE, OTHER]);
    (lists, Nodes::default())
}

fn insert(lists: &mut Lists, nodes: &mut Nodes, list: ListId) -> NodeId {
    let (segment, state) = (SegmentId(0), NodeState::Free(list, 1));
    let [before, after, previous, next] = [None; 4];
    let zone = Zone::Large;
    let node = Node {
        segment,
        offset: 0,
        size: 256,
        state,
        zone,
        idle_from: IdleFrom::NONE,
        before,
        after,
        previous,
        next,
    };
    let id = nodes.insert(node);
    lists.insert(list, nodes, id);
    id
}

fn pass(lists: &mut Lists) -> Vec<ListId> {
    let mut next = 0;
    std::iter::from_fn(|| lists.next_occupied(&mut next)).collect()
}

#[test]
fn a_pass_goes_to_lists_that_hold_blocks_and_to_none_twice() {
    let (mut lists, mut nodes) = three_lists();
    insert(&mut lists, &mut nodes, ListId::ANY_STREAM);
    let first = insert(&mut lists, &mut nodes, OTHER);
    insert(&mut lists, &mut nodes, ONE);
    assert_eq!(pass(&mut lists), [OTHER, ONE]);
    lists[OTHER.index()].remove(&mut nodes, first);
    assert_eq!(lists.occupied().collect::<Vec<_>>(), [ONE]);
    lists.insert(OTHER, &mut nodes, first);
    assert_eq!(pass(&mut lists), [OTHER, ONE], "it was empty between two passes");
    lists[OTHER.index()].remove(&mut nodes, first);
    assert_eq!(pass(&mut lists), [ONE]);
    lists.insert(OTHER, &mut nodes, first);
    assert_eq!(pass(&mut lists), [ONE, OTHER]);
}

#[test]
fn a_pass_from_anywhere_misses_no_list_and_drops_empty_ones() {
    const LISTS: u32 = 5;
    // Which lists have become empty, where the pass begins, and after how many steps.
    for case in 0..(1 << LISTS) * LISTS * LISTS {
        let (empty, case) = (case % (1 << LISTS), case >> LISTS);
        let (begin, pause) = (case % LISTS, case / LISTS);
        let (mut lists, mut nodes) = (Lists::new(), Nodes::default());
        let ids: Vec<ListId> = (0..LISTS).map(|_| lists.add()).collect();
        let blocks: Vec<NodeId> =
            ids.iter().map(|&list| insert(&mut lists, &mut nodes, list)).collect();
        lists.begin_with(begin as usize);
        let mut next = 0;
        let mut passed: Vec<ListId> = Vec::new();
        passed.extend((0..pause).filter_map(|_| lists.next_occupied(&mut next)));
        let is_empty = |list: ListId| empty >> (list.index() - 1) & 1 == 1;
        for (&list, &block) in ids.iter().zip(&blocks).filter(|&(&list, _)| is_empty(list)) {
            lists[list.index()].remove(&mut nodes, block);
        }
        let rest: Vec<ListId> = std::iter::from_fn(|| lists.next_occupied(&mut next)).collect();
        assert!(rest.iter().all(|list| !passed.contains(list)), "{case}: one comes twice");
        passed.extend(rest);
        passed.retain(|&list| !is_empty(list));
        passed.sort_by_key(|list| list.index());
        let full: Vec<ListId> = ids.iter().copied().filter(|&list| !is_empty(list)).collect();
        assert_eq!(passed, full, "{empty:b} from {begin} after {pause}");
        assert_eq!(pass(&mut lists).len(), full.len());
    }
}

#[test]
fn empty_lists_take_little_host_memory() {
    let (mut lists, mut nodes) = three_lists();
    let empty = lists.bookkeeping_bytes();
    assert!(empty <= 1 << 10, "{empty}");
    let few: Vec<_> = (0..FEW).map(|_| insert(&mut lists, &mut nodes, OTHER)).collect();
    assert!(lists.bookkeeping_bytes() < empty + 1024, "a few are in an array");
    let more = insert(&mut lists, &mut nodes, OTHER);
    assert!(lists.bookkeeping_bytes() > empty + 4096);
    few.into_iter().chain([more]).for_each(|id| lists[OTHER.index()].remove(&mut nodes, id));
    lists.shrink_to(2);
    assert!(lists.bookkeeping_bytes() < empty);
    assert_eq!(lists.add(), OTHER);
    assert_eq!(pass(&mut lists), []);
}
