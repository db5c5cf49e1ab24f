//! The table of what is allocated.

#![forbid(unsafe_code)]

use std::alloc::Layout;
use std::backtrace::Backtrace;
use std::cmp::Reverse;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use dashmap::DashMap;
use dashmap::mapref::entry::Entry;
use rmm_core::DevicePtr;

use super::{OutstandingAllocation, TrackingFinding, TrackingReport};
use crate::pool::BuildIdHasher;

pub(super) type OnFinding = Box<dyn Fn(&TrackingFinding<'_>) + Send + Sync>;

pub(super) struct Tracking {
    live: DashMap<DevicePtr, Block, BuildIdHasher>,
    bytes: AtomicU64,
    unknown_frees: AtomicU64,
    wrong_frees: AtomicU64,
    captures_stacks: bool,
    on_finding: OnFinding,
}

#[derive(Clone)]
struct Block {
    layout: Layout,
    stack: Option<Arc<Backtrace>>,
}

/// What a free was found to be.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Freed {
    AsAllocated,
    /// The block was allocated with this layout.
    Otherwise(Layout),
    Unknown,
}

impl Tracking {
    pub(super) fn new(captures_stacks: bool, on_finding: OnFinding) -> Self {
        Self {
            live: DashMap::default(),
            bytes: AtomicU64::new(0),
            unknown_frees: AtomicU64::new(0),
            wrong_frees: AtomicU64::new(0),
            captures_stacks,
            on_finding,
        }
    }

    /// Whether the address was not tracked before; else nothing changes.
    pub(super) fn insert(&self, pointer: DevicePtr, layout: Layout) -> bool {
        let stack = self.captures_stacks.then(|| Arc::new(Backtrace::force_capture()));
        match self.live.entry(pointer) {
            Entry::Occupied(_) => false,
            Entry::Vacant(vacant) => {
                vacant.insert(Block { layout, stack });
                self.bytes.fetch_add(layout.size() as u64, Ordering::Relaxed);
                true
            }
        }
    }

    pub(super) fn remove(&self, pointer: DevicePtr, layout: Layout) -> Freed {
        let Some((_, block)) = self.live.remove(&pointer) else {
            self.unknown_frees.fetch_add(1, Ordering::Relaxed);
            return Freed::Unknown;
        };
        self.bytes.fetch_sub(block.layout.size() as u64, Ordering::Relaxed);
        if block.layout == layout {
            return Freed::AsAllocated;
        }
        self.wrong_frees.fetch_add(1, Ordering::Relaxed);
        Freed::Otherwise(block.layout)
    }

    /// Tells the program. No part of the table is locked meanwhile.
    #[cold]
    pub(super) fn find(&self, finding: &TrackingFinding<'_>) {
        // A free may be part of a `Drop`, which a panic must not leave.
        let _told = catch_unwind(AssertUnwindSafe(|| (self.on_finding)(finding)));
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(super) fn blocks(&self) -> u64 {
        self.live.len() as u64
    }

    pub(super) fn unknown_frees(&self) -> u64 {
        self.unknown_frees.load(Ordering::Relaxed)
    }

    pub(super) fn wrong_frees(&self) -> u64 {
        self.wrong_frees.load(Ordering::Relaxed)
    }

    /// The largest first; of the same size, by address.
    pub(super) fn outstanding(&self) -> Vec<OutstandingAllocation> {
        let outstanding = self.live.iter().map(|entry| OutstandingAllocation {
            pointer: *entry.key(),
            layout: entry.layout,
            stack: entry.stack.clone(),
        });
        let mut outstanding: Vec<_> = outstanding.collect();
        outstanding.sort_by_key(|block| (Reverse(block.layout.size()), block.pointer.0));
        outstanding
    }
}

impl Drop for Tracking {
    fn drop(&mut self) {
        if !self.live.is_empty() {
            self.find(&TrackingFinding::Leak(&TrackingReport::new(self.outstanding())));
        }
    }
}

impl fmt::Debug for Tracking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tracking")
            .field("blocks", &self.blocks())
            .field("bytes", &self.bytes())
            .field("captures_stacks", &self.captures_stacks)
            .finish_non_exhaustive()
    }
}
