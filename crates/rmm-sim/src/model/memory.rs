//! Allocations, and the ranges that work accesses.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

use crate::model::piece::Piece;
use crate::model::pool::Medium;

/// The kind of an allocation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AllocationKind {
    /// Device memory of `cuMemAlloc`.
    Device,
    /// From the pool with this key, whose memory is of this kind.
    Pool(u64, Medium),
    Managed,
    Pinned,
    /// Registered host memory of the program.
    Registered,
    /// Reserved addresses at which device memory is mapped.
    Mapped,
    /// An imported allocation of an exported pool: the importing pool, and the address and id of
    /// the exported allocation.
    Imported {
        pool: u64,
        source: usize,
        id: u64,
    },
}

/// A live allocation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allocation {
    /// Never reused, unlike addresses. For mapped memory, the id of the last mapping when it was
    /// looked up.
    pub(crate) id: u64,
    pub(crate) start: usize,
    /// As requested.
    pub(crate) bytes: usize,
    pub(crate) kind: AllocationKind,
    pub(crate) device: usize,
    /// The context that it ends with, if it belongs to one.
    pub(crate) context: usize,
}

impl Allocation {
    /// Whether it is managed memory, from a pool or not.
    pub(crate) fn is_managed(&self) -> bool {
        matches!(self.kind, AllocationKind::Managed | AllocationKind::Pool(_, Medium::Managed))
    }

    /// Whether it is pinned or registered host memory.
    pub(crate) fn is_pinned(&self) -> bool {
        matches!(
            self.kind,
            AllocationKind::Pinned
                | AllocationKind::Registered
                | AllocationKind::Pool(_, Medium::Host)
        )
    }

    /// Whether it was imported from another process.
    pub(crate) fn is_imported(&self) -> bool {
        matches!(self.kind, AllocationKind::Imported { .. })
    }

    /// Whether it is from a pool of host memory.
    pub(crate) fn is_of_host_pool(&self) -> bool {
        matches!(self.kind, AllocationKind::Pool(_, Medium::Host))
    }

    /// The memory of a range of the allocation, unless it is mapped.
    pub(crate) fn piece(&self, range: &Range<usize>) -> Piece {
        let AllocationKind::Imported { source, .. } = self.kind else {
            return Piece::unmapped(range);
        };
        let backing = source + (range.start - self.start);
        Piece { address: range.start, backing: backing..backing + range.len() }
    }

    pub(crate) fn on_device_only(&self) -> bool {
        matches!(
            self.kind,
            AllocationKind::Device
                | AllocationKind::Pool(_, Medium::Device)
                | AllocationKind::Mapped
                | AllocationKind::Imported { .. }
        )
    }
}

/// The allocations that programs may use now, and those that are kept for work enqueued earlier.
#[derive(Debug, Default)]
pub(crate) struct Allocations {
    by_start: BTreeMap<usize, Allocation>,
    /// Ids of allocations whose memory is not released yet: memory freed in stream order stays here
    /// until the free runs.
    alive: HashSet<u64>,
    next_id: u64,
}

impl Allocations {
    pub(crate) fn insert(
        &mut self,
        start: usize,
        bytes: usize,
        kind: AllocationKind,
        device: usize,
    ) {
        self.next_id += 1;
        self.alive.insert(self.next_id);
        // The primary context, until another is set.
        let context = device;
        let allocation = Allocation { id: self.next_id, start, bytes, kind, device, context };
        self.by_start.insert(start, allocation);
    }

    /// Sets the context of the allocation that starts at `start`.
    pub(crate) fn set_context(&mut self, start: usize, context: usize) {
        if let Some(allocation) = self.by_start.get_mut(&start) {
            allocation.context = context;
        }
    }

    /// The allocation that starts at `start`.
    pub(crate) fn at(&self, start: usize) -> Option<Allocation> {
        self.by_start.get(&start).copied()
    }

    /// The allocation that contains `address`.
    pub(crate) fn containing(&self, address: usize) -> Option<Allocation> {
        let (_, &found) = self.by_start.range(..=address).next_back()?;
        (address - found.start < found.bytes).then_some(found)
    }

    /// Whether any allocation overlaps the range.
    pub(crate) fn overlaps(&self, start: usize, bytes: usize) -> bool {
        self.containing(start).is_some()
            || self.by_start.range(start..start.saturating_add(bytes)).next().is_some()
    }

    /// Ends the program's use of an allocation; queued work may still use it.
    pub(crate) fn forget(&mut self, allocation: &Allocation) {
        self.by_start.remove(&allocation.start);
    }

    /// Ends queued work's use of an allocation: its memory is released.
    pub(crate) fn release(&mut self, id: u64) {
        self.alive.remove(&id);
    }

    pub(crate) fn is_alive(&self, id: u64) -> bool {
        self.alive.contains(&id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Allocation> {
        self.by_start.values()
    }
}

/// A range that work reads or writes, checked when it was named.
///
/// # Invariant
/// Made by `State::place` only: it lies within one allocation of the machine, in contiguous
/// mappings of one reservation, or in pageable host memory that the caller of a driver function
/// vouches for. It is *usable* while `State::is_usable` returns true.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) address: usize,
    pub(crate) bytes: usize,
    /// The allocation that contains it; `None` for pageable host memory, which the program must
    /// keep alive.
    pub(crate) allocation: Option<Allocation>,
}

impl Place {
    /// Whether it is pageable host memory, which the device cannot access directly.
    pub(crate) fn is_pageable(&self) -> bool {
        self.allocation.is_none()
    }

    pub(crate) fn range(&self) -> Range<usize> {
        self.address..self.address + self.bytes
    }

    pub(crate) fn on_device_only(&self) -> bool {
        self.allocation.is_some_and(|allocation| allocation.on_device_only())
    }
}

/// The memory that an argument may name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    /// Memory that a device can access; pageable host memory where devices access it.
    Device,
    /// The device's side of a copy with a direction. As [`Device`](Self::Device), but no memory of
    /// a host pool: drivers refuse that, although they accept other host memory there (seen on an
    /// H200).
    DeviceByName,
    /// Memory that the host can access.
    Host,
    /// Any memory.
    Any,
}
