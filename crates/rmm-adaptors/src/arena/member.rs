//! The arena of one stream.

#![forbid(unsafe_code)]

use std::alloc::Layout;
use std::sync::{Mutex, MutexGuard, TryLockError};

use rmm_core::{DevicePtr, StreamId, fork};

use super::superblock::{GRANULE, SUPERBLOCK};
use super::superblocks::Superblocks;
use crate::pool::{StreamLease, padded_size};

/// The arena of one stream: its superblocks, under a lock.
#[derive(Debug)]
// Arenas of different threads do not share a cache line (false sharing).
#[repr(align(128))]
pub(super) struct Arena {
    state: Mutex<State>,
    pub(super) stream: StreamId,
    pub(super) owner: StreamLease,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) superblocks: Superblocks,
    pub(super) allocations: u64,
    pub(super) frees: u64,
    /// Whether its stream has been destroyed: it gets no more superblocks.
    pub(super) is_closed: bool,
}

impl Arena {
    pub(super) fn new(stream: StreamId, owner: StreamLease) -> Self {
        Self { state: Mutex::default(), stream, owner }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        fork::lock(&self.state)
    }

    /// As [`lock`](Self::lock); `None` if another thread has it locked.
    pub(super) fn try_lock(&self) -> Option<MutexGuard<'_, State>> {
        match self.state.try_lock() {
            Ok(state) => Some(state),
            Err(TryLockError::Poisoned(state)) => Some(state.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

impl State {
    #[inline]
    pub(super) fn allocate(&mut self, request: &Small) -> Option<DevicePtr> {
        let &Small { granules, slack, layout } = request;
        let address = self.superblocks.allocate(granules, slack, layout.align() as u64)?;
        self.allocations += 1;
        Some(DevicePtr(address))
    }
}

/// A request that superblocks serve.
pub(super) struct Small {
    layout: Layout,
    /// Including the slack.
    granules: u16,
    /// Part of `granules`: padding for an alignment above a granule.
    slack: u16,
}

impl Small {
    #[inline]
    pub(super) fn of(layout: Layout) -> Option<Self> {
        let size = padded_size(layout).filter(|&size| size <= SUPERBLOCK)?;
        let slack = (layout.align() as u64).saturating_sub(GRANULE) / GRANULE;
        let granules = u16::try_from(size / GRANULE).ok()?;
        Some(Self { layout, granules, slack: u16::try_from(slack).ok()? })
    }
}
