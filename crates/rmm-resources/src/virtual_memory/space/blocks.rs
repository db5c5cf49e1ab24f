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

    /// Calls `act` with the block at this address in use. Another thread may suspend and resume it
    /// meanwhile, before or after.
    ///
    /// # Errors
    /// The errors of [`blocks_in`](Self::blocks_in).
    pub(crate) fn while_mapped<R>(&self, start: u64, act: impl Fn() -> R) -> Result<R, Error> {
        loop {
            self.blocks_in(start..start + 1)?;
            if let Some(done) = self.access.while_mapped(start, &act) {
                return Ok(done);
            }
        }
    }

    /// The blocks that a range lies in, which are contiguous.
    ///
    /// # Errors
    /// [`ErrorKind::NotReady`](rmm_core::ErrorKind::NotReady) if one is suspended,
    /// [`ErrorKind::OutOfRange`](rmm_core::ErrorKind::OutOfRange) if there is none somewhere.
    pub(crate) fn blocks_in(&self, range: Range<u64>) -> Result<Vec<Range<u64>>, Error> {
        let asleep = |at: u64| {
            let state = self.state();
            let before = state.suspended.range(..=at).next_back();
            before.is_some_and(|(&start, block)| at - start < block.bytes as u64)
        };
        let mut blocks = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let block = match self.access.block_at(at) {
                Some(block) => block,
                None if asleep(at) => {
                    let message = format!("the memory at {at:#x} sleeps: wake its pool first");
                    return Err(Error::not_ready(NAME, message));
                }
                // It may have woken between the two looks.
                None => self.access.block_at(at).ok_or_else(|| {
                    let message = format!("the memory at {at:#x} is not allocated");
                    Error::out_of_range(NAME, message)
                })?,
            };
            at = block.end;
            blocks.push(block);
        }
        Ok(blocks)
    }
}
