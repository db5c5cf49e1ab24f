//! The table of live blocks.

#![forbid(unsafe_code)]

use std::alloc::Layout;
use std::cmp::Reverse;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

use dashmap::DashMap;
use dashmap::mapref::entry::Entry;
use rmm_core::siblings::in_program;
use rmm_core::{DevicePtr, fork};

use super::caller::Caller;
use super::{OutstandingAllocation, TrackingFinding, TrackingReport};
use crate::blocks::Blocks;
use crate::hash::BuildIdHasher;
use crate::sync::Counter;
use crate::sync::first_thread::FirstThreadCell;

pub(crate) type OnFinding = Box<dyn Fn(&TrackingFinding<'_>) + Send + Sync>;

pub(crate) struct Tracking {
    /// The live blocks, while one thread alone uses the tracker. Its owner may update `bytes`
    /// exclusively.
    first: FirstThreadCell<Blocks<Block>>,
    /// The live blocks, from the second thread on.
    live: DashMap<DevicePtr, Block, BuildIdHasher>,
    bytes: Counter,
    unknown_frees: AtomicU64,
    wrong_frees: AtomicU64,
    captures_callers: bool,
    reports_leaks: bool,
    on_finding: OnFinding,
}

#[derive(Clone)]
struct Block {
    layout: Layout,
    caller: Option<Caller>,
}

/// How a free compares with its allocation.
enum FreeCheck {
    Matches,
    /// The block was allocated with this layout, by this caller.
    Mismatch(Layout, Option<Caller>),
    Unknown,
}

impl Tracking {
    pub(crate) fn new(captures_callers: bool, reports_leaks: bool, on_finding: OnFinding) -> Self {
        Self {
            first: FirstThreadCell::default(),
            live: DashMap::default(),
            bytes: Counter::default(),
            unknown_frees: AtomicU64::new(0),
            wrong_frees: AtomicU64::new(0),
            captures_callers,
            reports_leaks,
            on_finding,
        }
    }

    /// Whether findings name the callers: a function of the program gets them.
    pub(crate) fn captures_callers(&self) -> bool {
        self.captures_callers
    }

    /// Calls `act` with the table of the only thread. If a second thread has appeared, moves the
    /// entries to the concurrent table and returns `act`.
    #[inline]
    fn unshared<R, F: FnOnce(&mut Blocks<Block>) -> R>(&self, act: F) -> Result<R, F> {
        self.first.enter(act, |blocks| {
            for (pointer, block) in std::mem::take(blocks).into_entries() {
                self.live.insert(pointer, block);
            }
        })
    }

    /// Inserts a block. Returns whether the address was absent; otherwise nothing changes.
    #[inline]
    pub(crate) fn insert(&self, pointer: DevicePtr, layout: Layout) -> bool {
        let mut caller = self.captures_callers.then(Caller::now);
        let size = layout.size() as u64;
        let unshared = self.unshared(|blocks| {
            let is_new = blocks.insert(pointer, || Block { layout, caller: caller.take() });
            if is_new {
                self.bytes.add_exclusive(size);
            }
            is_new
        });
        if let Ok(is_new) = unshared {
            return is_new;
        }
        match self.live.entry(pointer) {
            Entry::Occupied(_) => false,
            Entry::Vacant(vacant) => {
                vacant.insert(Block { layout, caller });
                self.bytes.add(size);
                true
            }
        }
    }

    #[inline]
    fn remove(&self, pointer: DevicePtr, layout: Layout) -> FreeCheck {
        let unshared = self.unshared(|blocks| {
            let block = blocks.remove(pointer)?;
            self.bytes.subtract_exclusive(block.layout.size() as u64);
            Some(block)
        });
        let removed = unshared.unwrap_or_else(|_| {
            let (_, block) = self.live.remove(&pointer)?;
            self.bytes.subtract(block.layout.size() as u64);
            Some(block)
        });
        let Some(block) = removed else {
            self.unknown_frees.fetch_add(1, Ordering::Relaxed);
            return FreeCheck::Unknown;
        };
        if block.layout == layout {
            return FreeCheck::Matches;
        }
        self.wrong_frees.fetch_add(1, Ordering::Relaxed);
        FreeCheck::Mismatch(block.layout, block.caller)
    }

    /// Checks a free of a block, and removes it: the layout of its allocation, with which it is to
    /// be freed, or `None` if no block has the address. What is wrong is reported.
    #[inline]
    pub(crate) fn check_free(&self, pointer: DevicePtr, freed: Layout) -> Option<Layout> {
        match self.remove(pointer, freed) {
            FreeCheck::Matches => Some(freed),
            FreeCheck::Mismatch(allocated, caller) => {
                let (allocated_at, freed_at) = self.places(caller.as_ref());
                let allocated_at = allocated_at.as_deref();
                let freed_at = freed_at.as_deref();
                self.report(&TrackingFinding::WrongFree {
                    pointer,
                    allocated,
                    freed,
                    allocated_at,
                    freed_at,
                });
                Some(allocated)
            }
            FreeCheck::Unknown => {
                let (_, freed_at) = self.places(None);
                let freed_at = freed_at.as_deref();
                self.report(&TrackingFinding::UnknownFree { pointer, freed, freed_at });
                None
            }
        }
    }

    /// Where a block was allocated, and where this call frees it, if callers are captured.
    #[cold]
    fn places(&self, allocated: Option<&Caller>) -> (Option<String>, Option<String>) {
        let freed = self.captures_callers.then(|| Caller::now().to_string());
        (allocated.map(ToString::to_string), freed)
    }

    /// Reports a finding to the program. No lock on the table is held.
    #[cold]
    fn report(&self, finding: &TrackingFinding<'_>) {
        // A free may be part of a `Drop`, which must not unwind.
        let _panicked =
            catch_unwind(AssertUnwindSafe(|| in_program(|| (self.on_finding)(finding))));
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes.get()
    }

    pub(super) fn blocks(&self) -> u64 {
        fork::check_wait();
        self.unshared(|blocks| blocks.len()).unwrap_or_else(|_| self.live.len()) as u64
    }

    pub(crate) fn unknown_frees(&self) -> u64 {
        self.unknown_frees.load(Ordering::Relaxed)
    }

    pub(crate) fn wrong_frees(&self) -> u64 {
        self.wrong_frees.load(Ordering::Relaxed)
    }

    /// Sorted by size, the largest first, then by address.
    pub(super) fn outstanding(&self) -> Vec<OutstandingAllocation> {
        fork::check_wait();
        let list = |pointer, block: &Block| {
            OutstandingAllocation::new(pointer, block.layout, block.caller.as_ref())
        };
        let unshared = self.unshared(|blocks| {
            blocks.iter().map(|(pointer, block)| list(pointer, block)).collect::<Vec<_>>()
        });
        let mut outstanding = unshared.unwrap_or_else(|_| {
            self.live.iter().map(|entry| list(*entry.key(), entry.value())).collect()
        });
        outstanding.sort_by_key(|block| (Reverse(block.layout.size()), block.pointer.0));
        outstanding
    }
}

impl Drop for Tracking {
    fn drop(&mut self) {
        // The blocks are the parent's in the child of a `fork`.
        if self.reports_leaks && !fork::is_child() && self.blocks() > 0 {
            self.report(&TrackingFinding::Leak(&TrackingReport::new(self.outstanding())));
        }
    }
}

impl fmt::Debug for Tracking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tracking")
            .field("blocks", &self.blocks())
            .field("bytes", &self.bytes())
            .field("captures_callers", &self.captures_callers)
            .finish_non_exhaustive()
    }
}
