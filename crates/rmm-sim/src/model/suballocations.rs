//! Suballocations: the parts of each allocation that allocators have returned. They form a tree,
//! because allocators are built on allocators.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use crate::model::violation::{Access, ViolationKind};

/// A broken rule, and the earlier access that it conflicts with.
pub(crate) type BrokenRule = (ViolationKind, Option<Arc<Access>>);

/// A suballocated range.
#[derive(Debug)]
struct Node {
    end: usize,
    owner: u64,
    is_live: bool,
    /// Its allocation, or its free once it is freed.
    last: Arc<Access>,
    parts: Parts,
}

/// The parts of a range, by start. Once there is a part, only bytes within a live part may be
/// accessed.
#[derive(Debug, Default)]
struct Parts(BTreeMap<usize, Node>);

impl Parts {
    fn overlapping(&self, range: &Range<usize>) -> impl Iterator<Item = (usize, &Node)> {
        let (start, end) = (range.start, range.end);
        let from = self.0.range(..=start).next_back().map_or(start, |(&from, _)| from);
        let nodes = self.0.range(from..end.max(from + 1));
        nodes.filter(move |(_, node)| node.end > start).map(|(&at, node)| (at, node))
    }

    /// Removes a range from freed parts: their rests stay freed.
    fn cut_freed(&mut self, range: &Range<usize>) {
        let freed = self.overlapping(range).filter(|(_, node)| !node.is_live);
        let freed: Vec<usize> = freed.map(|(start, _)| start).collect();
        for start in freed {
            let Some(node) = self.0.remove(&start) else { continue };
            for rest in [start..range.start, range.end..node.end] {
                if !rest.is_empty() {
                    let (owner, last) = (node.owner, Arc::clone(&node.last));
                    let parts = Self::default();
                    self.0.insert(
                        rest.start,
                        Node { end: rest.end, owner, is_live: false, last, parts },
                    );
                }
            }
        }
    }

    /// The start of the live part of another owner that contains all of a range.
    fn of_another(&self, range: &Range<usize>, owner: u64) -> Option<usize> {
        let (&start, node) = self.0.range(..=range.start).next_back()?;
        (node.is_live && node.end >= range.end && node.owner != owner).then_some(start)
    }

    fn allocate(
        &mut self,
        owner: u64,
        range: &Range<usize>,
        access: Arc<Access>,
    ) -> Result<(), BrokenRule> {
        // A range within another owner's live part subdivides that part.
        if let Some(start) = self.of_another(range, owner)
            && let Some(node) = self.0.get_mut(&start)
        {
            return node.parts.allocate(owner, range, access);
        }
        let mut twice = None;
        let overlapping: Vec<usize> = self.overlapping(range).map(|(start, _)| start).collect();
        for start in overlapping {
            if let Some(node) = self.0.remove(&start)
                && node.is_live
            {
                twice = Some(node.last);
            }
        }
        let node =
            Node { end: range.end, owner, is_live: true, last: access, parts: Self::default() };
        self.0.insert(range.start, node);
        twice.map_or(Ok(()), |first| Err((ViolationKind::AllocatedTwice, Some(first))))
    }
}

/// Trees of parts, by the start of the allocation that they subdivide.
#[derive(Debug, Default)]
pub(crate) struct Suballocations(BTreeMap<usize, Parts>);

impl Suballocations {
    /// Records that `owner` suballocates a range of the allocation that starts at `root`.
    ///
    /// # Errors
    /// The rule that this breaks. The range is recorded nevertheless.
    pub(crate) fn allocate(
        &mut self,
        root: usize,
        owner: u64,
        range: &Range<usize>,
        access: Arc<Access>,
    ) -> Result<(), BrokenRule> {
        self.0.entry(root).or_default().allocate(owner, range, access)
    }

    /// Records that `owner` frees a range.
    ///
    /// # Errors
    /// The rule that this breaks. A live range that starts there is freed nevertheless.
    pub(crate) fn free(
        &mut self,
        root: usize,
        owner: u64,
        range: &Range<usize>,
        access: Arc<Access>,
    ) -> Result<(), BrokenRule> {
        let unknown = (ViolationKind::UnknownFree, None);
        let mut parts = self.0.get_mut(&root).ok_or(unknown)?;
        let start = range.start..range.start + 1;
        loop {
            let Some((&at, node)) = parts.0.range_mut(..=range.start).next_back() else {
                return Err((ViolationKind::UnknownFree, None));
            };
            if node.owner == owner && at == range.start {
                if !node.is_live {
                    return Err((ViolationKind::DoubleFree, Some(Arc::clone(&node.last))));
                }
                let allocated = std::mem::replace(&mut node.last, access);
                node.is_live = false;
                let parts = std::mem::take(&mut node.parts);
                let inside = parts.0.into_values().find(|part| part.is_live);
                return match inside {
                    _ if node.end != range.end => Err((ViolationKind::WrongSize, Some(allocated))),
                    Some(part) => Err((ViolationKind::FreedWithSuballocations, Some(part.last))),
                    None => Ok(()),
                };
            }
            if !node.is_live || node.end < start.end {
                return Err((ViolationKind::UnknownFree, None));
            }
            parts = &mut node.parts;
        }
    }

    /// Checks an access to a range of the allocation at `root`.
    ///
    /// # Errors
    /// The rule that it breaks.
    pub(crate) fn check_use(&self, root: usize, range: &Range<usize>) -> Result<(), BrokenRule> {
        let Some(mut parts) = self.0.get(&root) else { return Ok(()) };
        while !parts.0.is_empty() {
            let mut touched = parts.overlapping(range).peekable();
            let Some(&(start, node)) = touched.peek() else {
                return Err((ViolationKind::OutOfBounds, None));
            };
            if let Some((_, freed)) = touched.find(|(_, node)| !node.is_live) {
                return Err((ViolationKind::UseAfterFree, Some(Arc::clone(&freed.last))));
            }
            if range.start < start || range.end > node.end {
                return Err((ViolationKind::OutOfBounds, Some(Arc::clone(&node.last))));
            }
            parts = &node.parts;
        }
        Ok(())
    }

    /// Whether a part of the allocation at `root`, live or freed, overlaps a range.
    pub(crate) fn has_part(&self, root: usize, range: &Range<usize>) -> bool {
        self.0.get(&root).is_some_and(|parts| parts.overlapping(range).next().is_some())
    }

    /// Removes the allocation at `root`, which is freed.
    ///
    /// # Errors
    /// `FreedWithSuballocations` if a part of it is live.
    pub(crate) fn end(&mut self, root: usize) -> Result<(), BrokenRule> {
        let Some(parts) = self.0.remove(&root) else { return Ok(()) };
        match parts.0.into_values().find(|part| part.is_live) {
            Some(part) => Err((ViolationKind::FreedWithSuballocations, Some(part.last))),
            None => Ok(()),
        }
    }

    /// Removes the parts within a range of the allocation at `root`, which is unmapped.
    ///
    /// # Errors
    /// `FreedWithSuballocations` if a part that overlaps it is live.
    pub(crate) fn end_within(
        &mut self,
        root: usize,
        range: &Range<usize>,
    ) -> Result<(), BrokenRule> {
        let Some(parts) = self.0.get_mut(&root) else { return Ok(()) };
        let live = parts.overlapping(range).find(|(_, node)| node.is_live);
        let live = live.map(|(_, node)| Arc::clone(&node.last));
        parts.0.retain(|&start, node| start < range.start || node.end > range.end);
        parts.cut_freed(range);
        match live {
            Some(last) => Err((ViolationKind::FreedWithSuballocations, Some(last))),
            None => Ok(()),
        }
    }

    /// The start of the tree that contains `address`, for memory that the driver did not allocate.
    pub(crate) fn root_of(&self, address: usize) -> Option<usize> {
        let (&root, parts) = self.0.range(..=address).next_back()?;
        parts.overlapping(&(address..address + 1)).next().map(|_| root)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::operation::Operation;

    fn access(operation: Operation) -> Arc<Access> {
        Arc::new(Access {
            operation,
            what: "a pool",
            stream: None,
            stream_name: None,
            position: 1,
            also: Vec::new(),
            is_refused: false,
            memory_name: None,
            backtrace: None,
            python: None,
        })
    }

    #[test]
    fn a_freed_part_ends_where_its_memory_is_unmapped() {
        let mut all = Suballocations::default();
        let (block, unmapped) = (0..100, 20..60);
        all.allocate(0, 1, &block, access(Operation::Allocate)).expect("nothing is there");
        all.free(0, 1, &block, access(Operation::Free)).expect("it is live");
        all.end_within(0, &unmapped).expect("nothing in it is live");
        assert!(!all.has_part(0, &unmapped));
        for rest in [0..20, 60..100] {
            let (broken, _) = all.check_use(0, &rest).expect_err("it is freed");
            assert_eq!(broken, ViolationKind::UseAfterFree);
        }
    }
}
