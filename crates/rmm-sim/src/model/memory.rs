//! Allocations: what the addresses of a machine belong to, and the ranges that work names.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

use crate::model::piece::Piece;
use crate::model::pool::Medium;

/// What an allocation is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AllocationKind {
    /// Device memory of its own.
    Device,
    /// From the pool with this key, made of this.
    Pool(u64, Medium),
    Managed,
    Pinned,
    /// The program's own memory, registered.
    Registered,
    /// Reserved addresses, with memory of a device mapped there.
    Mapped,
    /// Another name of an allocation of an exported pool: the pool that it was imported by, where
    /// that allocation is, and its id.
    Imported {
        pool: u64,
        source: usize,
        id: u64,
    },
}

/// A live allocation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allocation {
    /// Never reused, unlike addresses. Of mapped memory, how many mappings there had been when it
    /// was looked up.
    pub(crate) id: u64,
    pub(crate) start: usize,
    /// As asked for.
    pub(crate) bytes: usize,
    pub(crate) kind: AllocationKind,
    pub(crate) device: usize,
}

impl Allocation {
    /// Whether it is managed memory, from a pool or not.
    pub(crate) fn is_managed(&self) -> bool {
        matches!(self.kind, AllocationKind::Managed | AllocationKind::Pool(_, Medium::Managed))
    }

    /// Whether it is memory of the host that stays there.
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

    /// Whether it is from a pool of memory of the host.
    pub(crate) fn is_of_host_pool(&self) -> bool {
        matches!(self.kind, AllocationKind::Pool(_, Medium::Host))
    }

    /// Where a range of the allocation lies, unless it is mapped.
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

/// The allocations that programs may use now, and those whose bytes are still there for work
/// enqueued earlier.
#[derive(Debug, Default)]
pub(crate) struct Allocations {
    by_start: BTreeMap<usize, Allocation>,
    /// Ids from allocation until the memory is really let go of: memory freed in stream order stays
    /// here until the free runs.
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
        self.by_start.insert(start, Allocation { id: self.next_id, start, bytes, kind, device });
    }

    /// The allocation that starts at `start`.
    pub(crate) fn at(&self, start: usize) -> Option<Allocation> {
        self.by_start.get(&start).copied()
    }

    /// The allocation that `address` lies in.
    pub(crate) fn containing(&self, address: usize) -> Option<Allocation> {
        let (_, &found) = self.by_start.range(..=address).next_back()?;
        (address - found.start < found.bytes).then_some(found)
    }

    /// Whether any allocation overlaps the range.
    pub(crate) fn overlaps(&self, start: usize, bytes: usize) -> bool {
        self.containing(start).is_some()
            || self.by_start.range(start..start.saturating_add(bytes)).next().is_some()
    }

    /// The program may no longer use it; work that is queued still may.
    pub(crate) fn forget(&mut self, allocation: &Allocation) {
        self.by_start.remove(&allocation.start);
    }

    /// Its bytes are gone.
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

/// A range that work reads or writes.
///
/// # Invariant
/// Made by [`State::place`] only: it lies within one allocation of the machine, in mappings without
/// a gap in one reservation, or in ordinary memory of the host that the caller of a driver function
/// promised. It is *usable* as long as [`State::is_usable`] says so.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) address: usize,
    pub(crate) bytes: usize,
    /// The allocation that it lies in; `None` for the host's ordinary memory, which is the
    /// program's to keep alive.
    pub(crate) allocation: Option<Allocation>,
}

impl Place {
    /// Ordinary memory of the host, which the device cannot reach by itself.
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

/// Which memory an argument may name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    /// Memory that a device can use: where it reaches all memory of the host, that too.
    Device,
    /// The device's side of a copy that names its direction. As [`Device`](Self::Device), but no
    /// memory of a pool at the host: drivers refuse that, although they take other memory of the
    /// host there (seen on an H200).
    DeviceByName,
    /// Memory that the host can use.
    Host,
    /// Either.
    Any,
}
