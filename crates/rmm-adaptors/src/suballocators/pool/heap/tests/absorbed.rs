//! Idle memory that a single stream's blocks have absorbed, against a shadow model: when each
//! granule was freed last on the stream.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{Block, Heap, NodeId, Outcome, PAGE, check, extendable, reserve, settle};
use crate::suballocators::pool::heap::TAKEN_IN;
use crate::suballocators::pool::heap::zones::SlabSizes;
use crate::suballocators::pool::values::units::{GRANULE, ListId, Point};

const ONLY: ListId = ListId(1);

#[derive(Clone, Debug)]
enum Op {
    AddSegment {
        pages: u64,
    },
    /// For the stream, or for any stream.
    Take {
        for_any: bool,
        granules: u64,
    },
    Free {
        which: usize,
        to_any: bool,
    },
    /// Work up to this part of the points so far is complete.
    Complete {
        eighths: u64,
    },
    Coalesce {
        granules: u64,
    },
    Extend {
        granules: u64,
        comes: bool,
    },
    RemoveUnused,
    Separate,
}

fn op() -> impl Strategy<Value = Op> {
    let size = || prop_oneof![1_u64..8, 1_u64..40, 30_u64..90];
    prop_oneof![
        1 => (1_u64..20).prop_map(|pages| Op::AddSegment { pages }),
        8 => (prop::bool::weighted(0.2), size())
            .prop_map(|(for_any, granules)| Op::Take { for_any, granules }),
        8 => (any::<usize>(), prop::bool::weighted(0.2))
            .prop_map(|(which, to_any)| Op::Free { which, to_any }),
        1 => (0_u64..=8).prop_map(|eighths| Op::Complete { eighths }),
        1 => size().prop_map(|granules| Op::Coalesce { granules }),
        1 => (size(), any::<bool>()).prop_map(|(granules, comes)| Op::Extend { granules, comes }),
        1 => Just(Op::RemoveUnused),
        1 => Just(Op::Separate),
    ]
}

/// When each granule was freed last on the stream, by segment and offset; none if no work has used
/// it since it was idle.
type Uses = BTreeMap<(usize, u64), Point>;

fn granules(block: &Block) -> impl Iterator<Item = (usize, u64)> + use<> {
    let (segment, first, last) =
        (block.segment.index(), block.offset / GRANULE, (block.offset + block.size) / GRANULE);
    (first..last).map(move |granule| (segment, granule))
}

/// Checks that idle blocks hold nothing that work may use.
fn check_idle(heap: &Heap, uses: &Uses, done: Point) {
    for block in heap.blocks().filter(|block| block.free_in == Some(ListId::ANY_STREAM)) {
        for granule in granules(&block) {
            let freed = uses.get(&granule).copied().unwrap_or(0);
            assert!(freed <= done, "{granule:?} of {block:?} was freed at {freed}, after {done}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_separated_is_what_no_work_uses(
        ops in proptest::collection::vec(op(), 1..150),
        slab in prop_oneof![Just(8_u64), Just(40), Just(1 << 20)],
    ) {
        let mut heap = Heap::new();
        let first = heap.add_segment(&[40 * PAGE]);
        heap.make_extendable(first);
        heap.slabs = SlabSizes { are_made: true, bytes: slab * GRANULE, heap_for_each: 0 };
        assert_eq!(heap.add_list(), ONLY);
        let mut live: Vec<(NodeId, Block, bool)> = Vec::new();
        let (mut uses, mut done) = (Uses::new(), 0);
        // Whether requests have spanned idle and other memory: what they leave counts as used.
        let mut is_exact = true;
        for (point, op) in (1..).zip(ops) {
            let mut taken = None;
            match op {
                Op::AddSegment { pages } => {
                    let segment = heap.add_segment(&[pages * PAGE]);
                    heap.make_extendable(segment);
                    uses.retain(|&(of, _), _| of != segment.index());
                }
                Op::Take { for_any, granules } => {
                    let list = if for_any { ListId::ANY_STREAM } else { ONLY };
                    let node = heap.take(list, granules * GRANULE);
                    let or_idle = || heap.take(ListId::ANY_STREAM, granules * GRANULE);
                    taken = node.or_else(or_idle).map(|node| (node, for_any));
                }
                Op::Free { which, to_any } if !live.is_empty() => {
                    let (node, block, is_for_any) = live.swap_remove(which % live.len());
                    // Nothing has used it: then it may be freed as such.
                    let list = if to_any && is_for_any { ListId::ANY_STREAM } else { ONLY };
                    for granule in granules(&block) {
                        if list == ONLY {
                            uses.insert(granule, point);
                        } else {
                            uses.remove(&granule);
                        }
                    }
                    heap.free(node, list, if list == ONLY { point } else { 0 });
                }
                Op::Free { .. } => {}
                Op::Complete { eighths } => {
                    done = done.max(point * eighths / 8);
                    heap.reclaim(ONLY, done, usize::MAX);
                }
                Op::Coalesce { granules } => {
                    is_exact = false;
                    let node =
                        heap.coalesce_across_streams(granules * GRANULE, ONLY, point, |_, _| true);
                    taken = node.map(|node| (node, false));
                }
                Op::Extend { granules, comes } => {
                    is_exact = false;
                    let size = granules * GRANULE;
                    if let Some(extent) = reserve(&mut heap, (size, 0), |_, _| true, &[]) {
                        // What other threads ask for meanwhile.
                        heap.separate_absorbed();
                        for &(offset, bytes) in extent.missing.iter().filter(|_| comes) {
                            let of = extent.segment.index();
                            let range = offset / GRANULE..(offset + bytes) / GRANULE;
                            uses.retain(|&(its, granule), _| its != of || !range.contains(&granule));
                        }
                        let outcome = if comes { Outcome::Comes } else { Outcome::IsRefused };
                        let node = settle(&mut heap, (extent, ONLY, size), point, outcome);
                        taken = node.map(|node| (node, false));
                    }
                }
                Op::RemoveUnused => {
                    let unused = heap.unused_pieces();
                    heap.remove_pieces(unused);
                }
                Op::Separate => {
                    heap.separate_absorbed();
                    let is_free = |block: &Block| block.free_in == Some(ONLY);
                    for granule in heap.blocks().filter(is_free).flat_map(|it| granules(&it)) {
                        assert!(!is_exact || uses.contains_key(&granule), "{granule:?} is idle");
                    }
                }
            }
            if let Some((node, for_any)) = taken {
                let block = heap.block(node);
                live.push((node, block, for_any));
            }
            let blocks: Vec<(NodeId, Block)> = live.iter().map(|&(node, block, _)| (node, block)).collect();
            check(&heap, &blocks, &[]);
            check_idle(&heap, &uses, done);
        }
    }
}

#[test]
fn idle_memory_between_used_blocks_is_separated() {
    let block = 4 << 20;
    assert!(block <= TAKEN_IN, "it is absorbed");
    let mut heap = extendable(5 * block / PAGE);
    let only = heap.add_list();
    let mut take = |_| heap.take(ListId::ANY_STREAM, block).unwrap();
    let parts: [NodeId; 5] = std::array::from_fn(&mut take);
    for part in [parts[1], parts[3]] {
        heap.free(part, ListId::ANY_STREAM, 0);
    }
    for part in [parts[0], parts[2], parts[4]] {
        heap.free(part, only, 3);
    }
    assert_eq!((heap.free_bytes(only), heap.largest_free()), (5 * block, 5 * block));
    heap.separate_absorbed();
    assert_eq!(
        (heap.free_bytes(only), heap.free_bytes(ListId::ANY_STREAM)),
        (3 * block, 2 * block)
    );
    // The first half of an idle part is used, the other half stays idle.
    let half = heap.take(ListId::ANY_STREAM, block / 2).unwrap();
    heap.free(half, only, 4);
    assert_eq!(heap.free_bytes(ListId::ANY_STREAM), block, "its rest is absorbed again");
    heap.separate_absorbed();
    assert_eq!(heap.free_bytes(ListId::ANY_STREAM), block + block / 2);
    check(&heap, &[], &[]);
}
