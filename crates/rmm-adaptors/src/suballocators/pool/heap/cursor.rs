//! The sequence of all blocks, as a whole or from a cursor on.

#![forbid(unsafe_code)]

use super::nodes::{NodeId, NodeState};
use super::{Block, Heap};

/// A place in the sequence of all blocks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BlockCursor {
    next: Option<NodeId>,
    /// How many segments were begun.
    segments: usize,
}

impl Heap {
    /// All blocks, by segment and offset, without what is coming.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = Block> + '_ {
        let mut cursor = BlockCursor::default();
        std::iter::from_fn(move || self.next_block(&mut cursor))
    }

    /// The block at a cursor, which is then advanced. The cursor is void once the heap [has
    /// changed](Self::changes).
    pub(crate) fn next_block(&self, cursor: &mut BlockCursor) -> Option<Block> {
        loop {
            let Some(id) = cursor.next else {
                let segment = self.segments.get(cursor.segments)?;
                cursor.segments += 1;
                cursor.next = segment.as_ref().map(|segment| segment.first);
                continue;
            };
            let node = self.nodes.get(id);
            cursor.next = node.after;
            if matches!(node.state, NodeState::Live | NodeState::Free(..)) {
                return Some(self.block(id));
            }
        }
    }
}
