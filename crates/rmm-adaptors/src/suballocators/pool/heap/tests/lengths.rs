//! Lists that grow from a few blocks in an array to many in bins, and shrink again.

use super::super::few::FEW;
use super::super::lists::Lists;
use super::super::nodes::{IdleFrom, Node, NodeId, NodeState, Nodes, SegmentId};
use super::super::zones::{Tier, Zone};
use crate::suballocators::pool::values::units::GRANULE;
use crate::suballocators::pool::values::units::ListId;

/// A list, and the sizes of what is in it.
struct Model {
    nodes: Nodes,
    lists: Lists,
    blocks: Vec<NodeId>,
}

impl Model {
    const LIST: ListId = ListId(1);

    fn new() -> Self {
        let mut lists = Lists::new();
        assert_eq!(lists.add(), Self::LIST);
        Self { nodes: Nodes::default(), lists, blocks: Vec::new() }
    }

    fn insert(&mut self, size: u64) {
        let (segment, state) = (SegmentId(0), NodeState::Free(Self::LIST, 1));
        let [before, after, previous, next] = [None; 4];
        let zone = Zone::Large;
        let node = Node {
            segment,
            offset: 0,
            size,
            state,
            zone,
            idle_from: IdleFrom::NONE,
            before,
            after,
            previous,
            next,
        };
        let id = self.nodes.insert(node);
        self.lists.insert(Self::LIST, &mut self.nodes, id);
        self.blocks.push(id);
    }

    fn remove(&mut self, index: usize) {
        let id = self.blocks.swap_remove(index);
        self.lists[1].remove(&mut self.nodes, id);
        self.nodes.remove(id);
    }

    fn resize(&mut self, index: usize, size: u64) {
        self.lists[1].resize(&mut self.nodes, self.blocks[index], size);
    }

    /// Each search finds the smallest block that fits, and all blocks are in the list.
    fn check(&self) {
        let mut sizes: Vec<u64> = self.blocks.iter().map(|&id| self.nodes.get(id).size).collect();
        sizes.sort_unstable();
        let list = &self.lists[1];
        for wanted in sizes.iter().flat_map(|size| [size - GRANULE, *size, size + GRANULE]) {
            let fits = sizes.iter().copied().find(|&size| size >= wanted);
            let size_of = |id: Option<NodeId>| id.map(|id| self.nodes.get(id).size);
            let found = list.find(&self.nodes, Tier::Large, wanted, usize::MAX, |_| true);
            assert_eq!(size_of(found), fits, "{wanted} of {sizes:?}");
            assert_eq!(size_of(list.find_smallest(&self.nodes, wanted, |_| true)), fits);
            assert_eq!(list.find(&self.nodes, Tier::Large, wanted, usize::MAX, |_| false), None);
        }
        let mut listed: Vec<u64> =
            list.iter(&self.nodes).map(|id| self.nodes.get(id).size).collect();
        listed.sort_unstable();
        assert_eq!(listed, sizes);
        assert_eq!(list.bytes(), sizes.iter().sum::<u64>());
        assert_eq!(self.lists.largest(&self.nodes), sizes.last().copied().unwrap_or(0));
    }
}

#[test]
fn a_list_of_any_length_finds_the_best_fit() {
    let mut model = Model::new();
    // Above 64 granules two sizes share a bin.
    for granules in 0..3 * FEW as u64 {
        model.insert((48 + granules * 29 % 48) * GRANULE);
        model.check();
    }
    while !model.blocks.is_empty() {
        model.remove(model.blocks.len() / 2);
        model.check();
    }
}

#[test]
fn a_block_that_changes_its_size_is_found_as_what_it_is() {
    for blocks in [1, FEW, FEW + 1] {
        let mut model = Model::new();
        (1..=blocks as u64).for_each(|granules| model.insert(granules * GRANULE));
        for granules in [200, 100, 3, 150, u64::from(u32::MAX) + 5, 7] {
            model.resize(0, granules * GRANULE);
            model.check();
        }
    }
}

#[test]
fn a_block_of_a_tebibyte_is_in_a_short_list() {
    let mut model = Model::new();
    for size in [GRANULE, 2 << 40, 2 * GRANULE] {
        model.insert(size);
        model.check();
    }
    (0..3).for_each(|_| {
        model.remove(0);
        model.check();
    });
}
