//! Every allocation of a machine: what an address belongs to, and how simulated work reaches its
//! bytes.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

use rmm_sys::{CuDeviceAttribute, CuResult};

use crate::check::{Violation, ViolationKind};
use crate::current;
use crate::mapping;
use crate::operation::Operation;
use crate::piece::Piece;
use crate::pool::Medium;
use crate::state::State;

/// What an allocation is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
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
    pub(crate) kind: Kind,
    pub(crate) device: usize,
}

impl Allocation {
    /// Whether it is managed memory, from a pool or not.
    pub(crate) fn is_managed(&self) -> bool {
        matches!(self.kind, Kind::Managed | Kind::Pool(_, Medium::Managed))
    }

    /// Whether it is memory of the host that stays there.
    pub(crate) fn is_pinned(&self) -> bool {
        matches!(self.kind, Kind::Pinned | Kind::Registered | Kind::Pool(_, Medium::Host))
    }

    /// Whether it is from a pool of memory of the host.
    pub(crate) fn is_of_host_pool(&self) -> bool {
        matches!(self.kind, Kind::Pool(_, Medium::Host))
    }

    /// Where a range of the allocation lies, unless it is mapped.
    pub(crate) fn piece(&self, range: &Range<usize>) -> Piece {
        let Kind::Imported { source, .. } = self.kind else { return Piece::unmapped(range) };
        let backing = source + (range.start - self.start);
        Piece { address: range.start, backing: backing..backing + range.len() }
    }

    pub(crate) fn on_device_only(&self) -> bool {
        matches!(
            self.kind,
            Kind::Device | Kind::Pool(_, Medium::Device) | Kind::Mapped | Kind::Imported { .. }
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
    pub(crate) fn insert(&mut self, start: usize, bytes: usize, kind: Kind, device: usize) {
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
    pub(crate) fn bury(&mut self, id: u64) {
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

impl State {
    /// What an address lies in.
    pub(crate) fn allocation_at(&self, address: usize) -> Option<Allocation> {
        let allocation = self.allocations.containing(address);
        allocation.or_else(|| self.mapped_allocation_at(address))
    }

    /// What a mapped address is a part of: all of its reservation, as the driver reports it.
    fn mapped_allocation_at(&self, address: usize) -> Option<Allocation> {
        let (_, mapped) = self.virtual_memory.mapping_at(address)?;
        let reserved = self.virtual_memory.reservation_of(address)?;
        let (start, bytes) = (reserved.start, reserved.len());
        // Work that names it now may use the mappings that exist now, and none made later.
        let id = self.virtual_memory.last_mapping();
        Some(Allocation { id, start, bytes, kind: Kind::Mapped, device: mapped.device })
    }

    /// The range as a place that work may use.
    ///
    /// # Errors
    /// `INVALID_VALUE` if it does not lie within one live allocation, or in mappings without a gap,
    /// or, on the host's side and where devices use pageable memory, in ordinary memory; or if it
    /// is memory that the side may not name.
    pub(crate) fn place(
        &self,
        address: usize,
        bytes: usize,
        side: Side,
    ) -> Result<Place, CuResult> {
        let allocation = self.allocation_at(address);
        let for_device = matches!(side, Side::Device | Side::DeviceByName);
        match allocation {
            Some(found) if bytes > found.bytes - (address - found.start) => {
                return Err(CuResult::INVALID_VALUE);
            }
            Some(found)
                if found.kind == Kind::Mapped
                    && self.virtual_memory.first_gap(&(address..address + bytes)).is_some() =>
            {
                return Err(CuResult::INVALID_VALUE);
            }
            Some(found) if side == Side::Host && found.on_device_only() => {
                return Err(CuResult::INVALID_VALUE);
            }
            Some(found) if side == Side::DeviceByName && found.is_of_host_pool() => {
                return Err(CuResult::INVALID_VALUE);
            }
            None if address == 0 || for_device && !self.uses_pageable_memory() => {
                return Err(CuResult::INVALID_VALUE);
            }
            // Addresses that some machine hands out, but that are not (or no longer) allocated.
            None if current::is_simulated(address) => return Err(CuResult::INVALID_VALUE),
            None if self.allocations.overlaps(address, bytes) => {
                return Err(CuResult::INVALID_VALUE);
            }
            Some(_) | None => {}
        }
        Ok(Place { address, bytes, allocation })
    }

    /// [`place`](Self::place), for work: a range that was freed is reported.
    ///
    /// # Errors
    /// As `place`.
    pub(crate) fn usable_place(
        &mut self,
        what: &'static str,
        address: usize,
        bytes: usize,
        side: Side,
    ) -> Result<Place, CuResult> {
        self.place(address, bytes, side).inspect_err(|_| self.check_bad_range(what, address, bytes))
    }

    /// Whether ordinary memory of the host serves devices as it is.
    pub(crate) fn uses_pageable_memory(&self) -> bool {
        let attribute = CuDeviceAttribute::PAGEABLE_MEMORY_ACCESS;
        !self.devices.is_empty()
            && self.devices.iter().all(|device| device.attribute(attribute) == Some(1))
    }

    /// Whether the bytes of `place` are still there for a device to do this; notes a violation if
    /// they are not.
    pub(crate) fn is_usable(
        &mut self,
        place: &Place,
        operation: Operation,
        device: usize,
        what: &str,
    ) -> bool {
        let Some(allocation) = place.allocation else { return true };
        let alive = match allocation.kind {
            Kind::Mapped => self.virtual_memory.is_mapped_since(&place.range(), allocation.id),
            Kind::Imported { id, .. } => {
                self.allocations.is_alive(allocation.id) && self.allocations.is_alive(id)
            }
            _ => self.allocations.is_alive(allocation.id),
        };
        if !alive {
            let mut violation = Violation::new(ViolationKind::UseAfterFree)
                .with_detail(format!("{what} came to memory that was gone; it was left out"));
            violation.place = Some((self.describe(place.address), place.bytes));
            self.checks.report(violation);
        }
        alive && self.may_access(place, operation, device, what)
    }

    /// Where in this process the bytes of a usable place are from `offset` on, and how many of them
    /// lie there in one piece.
    fn host_piece(&self, place: &Place, offset: usize) -> Option<(usize, usize)> {
        let rest = place.address + offset..place.address + place.bytes;
        if rest.is_empty() {
            return None;
        }
        let piece = match place.allocation {
            Some(Allocation { kind: Kind::Mapped, .. }) => {
                self.virtual_memory.pieces(&rest).next()?
            }
            Some(allocation) => allocation.piece(&rest),
            None => Piece::unmapped(&rest),
        };
        let start = piece.backing.start;
        let shadow = self.devices.iter().find_map(|device| device.shadow_of(start));
        Some((shadow.unwrap_or(start), piece.backing.len()))
    }

    /// An address as traces tell it.
    pub(crate) fn describe(&self, address: usize) -> String {
        for device in &self.devices {
            if let Some(offset) = device.relative(address) {
                return format!("d{}+{offset:#x}", device.ordinal);
            }
        }
        if let Some(offset) = self.virtual_memory.relative(address) {
            return format!("v+{offset:#x}");
        }
        match self.host.relative(address) {
            Some(offset) => format!("h+{offset:#x}"),
            None => String::from("the host's memory"),
        }
    }

    /// Copies between places of `from.bytes` bytes that are usable.
    pub(crate) fn copy(&mut self, from: &Place, to: &Place) {
        let mut done = 0;
        while let Some((source, have)) = self.host_piece(from, done)
            && let Some((target, room)) = self.host_piece(to, done)
        {
            let len = have.min(room);
            // SAFETY: both ranges lie in allocations that are alive or in device memory that is
            // mapped, whose mappings in this process the machine owns, or in ordinary memory that
            // the caller of the driver promised for the copy.
            unsafe { mapping::copy(source, target, len) };
            done += len;
        }
    }

    /// Writes `bytes` to a usable place of their length.
    pub(crate) fn store(&mut self, to: &Place, bytes: &[u8]) {
        assert_eq!(bytes.len(), to.bytes, "the place is as long as what goes there");
        let mut done = 0;
        while let Some((target, len)) = self.host_piece(to, done) {
            // SAFETY: as in `copy`.
            unsafe { mapping::store(&bytes[done..done + len], target) };
            done += len;
        }
    }

    /// Reads a usable place into `bytes`, which are of its length.
    pub(crate) fn load(&self, from: &Place, bytes: &mut [u8]) {
        assert_eq!(bytes.len(), from.bytes, "the place is as long as what comes from there");
        let mut done = 0;
        while let Some((source, len)) = self.host_piece(from, done) {
            // SAFETY: as in `copy`.
            unsafe { mapping::load(source, &mut bytes[done..done + len]) };
            done += len;
        }
    }

    /// Fills a usable place with a pattern of one or four bytes.
    pub(crate) fn fill(&mut self, to: &Place, pattern: &[u8]) {
        let mut done = 0;
        while let Some((target, len)) = self.host_piece(to, done) {
            if let &[value] = pattern {
                // SAFETY: as in `copy`.
                unsafe { mapping::fill(target, value, len) };
            } else {
                for offset in (0..len).step_by(pattern.len()) {
                    // SAFETY: as in `copy`; a place that is filled is a whole number of patterns
                    // long and starts at a multiple of their length, which divides the granularity
                    // of mappings too, so each piece is one.
                    unsafe { mapping::store(pattern, target + offset) };
                }
            }
            done += len;
        }
    }
}
