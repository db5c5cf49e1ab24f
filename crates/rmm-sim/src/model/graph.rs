//! Graphs: captured work that can be launched repeatedly.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};

use rmm_sys::CuResult;

use crate::model::handle::Slots;
use crate::model::vector_clock::VectorClock;
use crate::model::work::Work;

/// The nodes that a stream's next node depends on, by index.
pub(crate) type Ends = BTreeSet<usize>;

/// The nodes of a capture that an event was recorded after.
#[derive(Clone, Debug)]
pub(crate) struct Captured {
    pub(crate) capture: u64,
    pub(crate) ends: Ends,
}

/// A piece of work and the nodes that it depends on.
#[derive(Debug)]
struct Node {
    work: Work,
    after: Ends,
}

/// A graph, in topological order: every node depends on nodes of lower indices only.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    nodes: Vec<Node>,
}

impl Graph {
    /// Adds a node that depends on others; returns its index.
    ///
    /// # Errors
    /// `NOT_SUPPORTED` for work that cannot be repeated.
    pub(crate) fn add(&mut self, work: Work, after: &Ends) -> Result<usize, CuResult> {
        if work.repeated().is_none() {
            return Err(CuResult::NOT_SUPPORTED);
        }
        self.nodes.push(Node { work, after: after.clone() });
        Ok(self.nodes.len() - 1)
    }

    /// Whether every node is one of `ends` or a dependency of one.
    pub(crate) fn ends_in(&self, ends: &Ends) -> bool {
        let mut reached = ends.clone();
        for place in (0..self.nodes.len()).rev() {
            if !reached.contains(&place) {
                return false;
            }
            reached.extend(&self.nodes[place].after);
        }
        true
    }

    /// The work of all nodes, in topological order.
    pub(crate) fn works(&self) -> Vec<Work> {
        self.nodes.iter().filter_map(|node| node.work.repeated()).collect()
    }
}

/// An instantiated graph (`CUgraphExec`).
#[derive(Debug)]
pub(crate) struct Executable {
    pub(crate) works: Vec<Work>,
    /// The end of its last launch, which the next one waits for.
    pub(crate) last: VectorClock,
}

/// The graphs of a machine.
#[derive(Debug, Default)]
pub(crate) struct Graphs {
    pub(crate) by_key: BTreeMap<u64, Graph>,
    pub(crate) slots: Slots,
    pub(crate) executables: BTreeMap<u64, Executable>,
    pub(crate) executable_slots: Slots,
}
