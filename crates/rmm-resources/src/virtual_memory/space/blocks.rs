//! Finding the blocks at an address, for exports.

use std::ops::Range;
use std::sync::{Arc, Mutex, Weak};

use rmm_core::{Error, fork};

use super::{NAME, Space};
use crate::ExportHandleTypes;

/// Every space of the process. Lock order: a leaf.
static SPACES: Mutex<Vec<Weak<Space>>> = Mutex::new(Vec::new());

impl Space {
    /// Notes a new space, so that its memory is found by address.
    pub(in super::super) fn note(self: &Arc<Self>) {
        let mut spaces = fork::lock(&SPACES);
        spaces.retain(|space| space.strong_count() > 0);
        spaces.push(Arc::downgrade(self));
    }

    /// The space that reserved a range of addresses.
    pub(crate) fn containing(range: Range<u64>) -> Option<Arc<Self>> {
        let spaces: Vec<Arc<Self>> = fork::lock(&SPACES).iter().filter_map(Weak::upgrade).collect();
        spaces.into_iter().find(|space| {
            let reserved = space.state().reserved.clone();
            reserved
                .into_iter()
                .any(|(start, bytes)| range.start >= start.0 && range.end <= start.0 + bytes as u64)
        })
    }

    pub(crate) fn handle_types(&self) -> ExportHandleTypes {
        self.kind.handles
    }

    pub(crate) fn has_rdma(&self) -> bool {
        self.kind.rdma
    }

    /// The blocks that a range lies in, which are contiguous.
    ///
    /// # Errors
    /// [`ErrorKind::NotReady`](rmm_core::ErrorKind::NotReady) if one is suspended,
    /// [`ErrorKind::OutOfRange`](rmm_core::ErrorKind::OutOfRange) if there is none somewhere.
    pub(crate) fn blocks_in(&self, range: Range<u64>) -> Result<Vec<Range<u64>>, Error> {
        let asleep = |at: u64| {
            let state = self.state();
            let (&start, block) = state.suspended.range(..=at).next_back()?;
            (at - start < block.bytes as u64).then_some(start)
        };
        let mut blocks = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let Some(block) = self.access.block_at(at) else {
                if asleep(at).is_some() {
                    let message = format!("the memory at {at:#x} sleeps: wake its pool first");
                    return Err(Error::not_ready(NAME, message));
                }
                let message = format!("the memory at {at:#x} is not allocated");
                return Err(Error::out_of_range(NAME, message));
            };
            at = block.end;
            blocks.push(block);
        }
        Ok(blocks)
    }
}
