//! Graphs: work that was captured, to be put on streams as often as the program likes.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};

use rmm_sys::CuResult;

use crate::model::handle::Slots;
use crate::model::vector_clock::VectorClock;
use crate::model::work::Work;

/// The nodes that a stream's next node comes after, by their places in the graph.
pub(crate) type Ends = BTreeSet<usize>;

/// The part of a capture that an event was recorded behind.
#[derive(Clone, Debug)]
pub(crate) struct Captured {
    pub(crate) capture: u64,
    pub(crate) ends: Ends,
}

/// A piece of work and the nodes that it comes after.
#[derive(Debug)]
struct Node {
    work: Work,
    after: Ends,
}

/// A graph. Every node comes after nodes of lower places only.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    nodes: Vec<Node>,
}

impl Graph {
    /// Adds a node that comes after others; returns its place.
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

    /// Whether every node is one of `ends` or comes before one.
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

    /// The work of all nodes once more, in an order that the graph allows.
    pub(crate) fn works(&self) -> Vec<Work> {
        self.nodes.iter().filter_map(|node| node.work.repeated()).collect()
    }
}

/// A graph that is ready to be launched.
#[derive(Debug)]
pub(crate) struct Executable {
    pub(crate) works: Vec<Work>,
    /// The end of its last launch, which the next one comes after.
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
