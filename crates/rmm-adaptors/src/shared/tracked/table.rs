//! The live blocks of a tracker, and what is wrong with their frees.

#![forbid(unsafe_code)]

use std::alloc::Layout;
use std::cmp::Reverse;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

use dashmap::DashMap;
use rmm_core::siblings::in_program;
use rmm_core::{DevicePtr, fork};

use super::caller::Caller;
use super::finding::TrackingFinding;
use super::report::{OutstandingAllocation, TrackingReport};
use crate::sync::Counter;
use crate::sync::address_table::AddressTable;
use crate::sync::first_thread::FirstThreadCell;
use crate::sync::hash::BuildIdHasher;

pub(crate) type OnFinding = Box<dyn Fn(&TrackingFinding<'_>) + Send + Sync>;

pub(crate) struct Tracking {
    /// Owned by the thread that may write to `live` and `bytes` exclusively.
    first: FirstThreadCell<()>,
    /// The [packed](pack) layouts of the live blocks.
    live: AddressTable,
    bytes: Counter,
    unknown_frees: AtomicU64,
    wrong_frees: AtomicU64,
    /// Who allocated the live blocks, if callers are captured.
    callers: Option<DashMap<DevicePtr, Caller, BuildIdHasher>>,
    reports_leaks: bool,
    on_finding: OnFinding,
}

/// Bits of a packed layout for the logarithm of its alignment; the others hold its size.
const ALIGNMENT_BITS: u32 = 6;

/// A layout in one word. No memory has room for a size that does not fit.
#[inline]
fn pack(layout: Layout) -> u64 {
    (layout.size() as u64) << ALIGNMENT_BITS | u64::from(layout.align().trailing_zeros())
}

/// The layout that a word was packed from.
fn unpack(word: u64) -> Option<Layout> {
    let size = usize::try_from(word >> ALIGNMENT_BITS).ok()?;
    Layout::from_size_align(size, 1 << (word % (1 << ALIGNMENT_BITS))).ok()
}

impl Tracking {
    pub(crate) fn new(captures_callers: bool, reports_leaks: bool, on_finding: OnFinding) -> Self {
        Self {
            first: FirstThreadCell::default(),
            live: AddressTable::default(),
            bytes: Counter::default(),
            unknown_frees: AtomicU64::new(0),
            wrong_frees: AtomicU64::new(0),
            callers: captures_callers.then(DashMap::default),
            reports_leaks,
            on_finding,
        }
    }

    /// Whether findings name the callers: a function of the program gets them.
    pub(crate) fn captures_callers(&self) -> bool {
        self.callers.is_some()
    }

    /// Inserts a block, which `caller` allocated: called if callers are captured. Returns whether
    /// the address was absent; otherwise nothing changes.
    #[inline]
    pub(crate) fn insert(
        &self,
        pointer: DevicePtr,
        layout: Layout,
        caller: impl FnOnce() -> Caller,
    ) -> bool {
        if let Some(callers) = &self.callers {
            let caller = caller();
            // Before the block, so that every live block has one.
            callers.entry(pointer).or_insert(caller);
        }
        let access = &self.first.access();
        let is_new = self.live.insert(access, pointer, pack(layout));
        if is_new {
            self.bytes.add(access, layout.size() as u64);
        }
        is_new
    }

    /// Checks a free of a block, and removes it: the layout of its allocation, with which it is to
    /// be freed, or `None` if no block has the address. What is wrong is reported.
    #[inline]
    pub(crate) fn check_free(&self, pointer: DevicePtr, freed: Layout) -> Option<Layout> {
        let allocated = self.remove(pointer, freed);
        if allocated != Some(freed) || self.callers.is_some() {
            self.check_caller(pointer, allocated, freed);
        }
        allocated
    }

    /// Removes a block, and returns its layout.
    #[inline]
    fn remove(&self, pointer: DevicePtr, freed: Layout) -> Option<Layout> {
        let access = &self.first.access();
        let packed = self.live.remove(access, pointer)?;
        let allocated = if packed == pack(freed) { freed } else { unpack(packed)? };
        self.bytes.subtract(access, allocated.size() as u64);
        Some(allocated)
    }

    /// Removes the caller of a block that is freed, and reports what is wrong with the free.
    #[cold]
    fn check_caller(&self, pointer: DevicePtr, allocated: Option<Layout>, freed: Layout) {
        let caller = self.callers.as_ref().and_then(|callers| callers.remove(&pointer));
        if allocated == Some(freed) {
            return;
        }
        let place = |caller: &Caller| caller.to_string();
        let allocated_at = caller.map(|(_, caller)| place(&caller));
        let freed_at = self.callers.as_ref().map(|_| place(&Caller::now()));
        let (allocated_at, freed_at) = (allocated_at.as_deref(), freed_at.as_deref());
        let (counter, finding) = match allocated {
            Some(allocated) => {
                let finding = TrackingFinding::WrongFree {
                    pointer,
                    allocated,
                    freed,
                    allocated_at,
                    freed_at,
                };
                (&self.wrong_frees, finding)
            }
            None => {
                (&self.unknown_frees, TrackingFinding::UnknownFree { pointer, freed, freed_at })
            }
        };
        counter.fetch_add(1, Ordering::Relaxed);
        self.report(&finding);
    }

    /// Reports a finding to the program. No lock on the table is held.
    #[cold]
    fn report(&self, finding: &TrackingFinding<'_>) {
        // A free may be part of a `Drop`, which must not unwind.
        let _ignored = catch_unwind(AssertUnwindSafe(|| in_program(|| (self.on_finding)(finding))));
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.get()
    }

    pub(crate) fn blocks(&self) -> u64 {
        fork::check_wait();
        self.live.iter().count() as u64
    }

    pub(crate) fn unknown_frees(&self) -> u64 {
        self.unknown_frees.load(Ordering::Relaxed)
    }

    pub(crate) fn wrong_frees(&self) -> u64 {
        self.wrong_frees.load(Ordering::Relaxed)
    }

    /// Sorted by size, the largest first, then by address.
    pub(crate) fn outstanding(&self) -> Vec<OutstandingAllocation> {
        fork::check_wait();
        let blocks = self.live.iter().filter_map(|(pointer, packed)| {
            let caller = self.callers.as_ref().and_then(|callers| callers.get(&pointer));
            Some(OutstandingAllocation::new(pointer, unpack(packed)?, caller.as_deref()))
        });
        let mut outstanding: Vec<_> = blocks.collect();
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
            .field("captures_callers", &self.captures_callers())
            .finish_non_exhaustive()
    }
}
