//! Virtual memory: reserved addresses, physical memory, and mappings.
//!
//! Physical memory is allocated from its device's address range, at an address that programs never
//! see, so that it is counted and accessed like other memory. Reserved addresses come from another
//! range, which is reserved on first use and faults when the host touches it. Each access looks up
//! the mapping of its address.
//!
//! Where `cuda.h` leaves the rules open, they are those observed on an H100: sizes are multiples of
//! 2 MiB, physical memory is mapped as a whole, one call may unmap any number of whole mappings,
//! and neither unmapping nor a change of access rights waits for the device.
#![forbid(unsafe_code)]

mod mapped;

use std::collections::BTreeMap;
use std::ops::Range;

use rmm_sys::{CuMemAccessFlags, CuResult};

use crate::model::device::UNIT;
use crate::model::free_ranges::FreeRanges;
use crate::model::handle::Slots;
use crate::model::mapping::Mapping;
use crate::model::piece::Piece;
use crate::model::shared_bytes::SharedBytes;

pub(crate) use mapped::{HOST, Mapped, Physical, permits};

/// The granularity of sizes and addresses.
pub(crate) const GRANULARITY: usize = UNIT;
/// The size of the address range, as a multiple of the memory of all devices.
const ADDRESSES: usize = 64;
/// The alignment of the first address, so that placement does not depend on where the system put
/// the range.
const BASE_ALIGNMENT: usize = 1 << 30;

/// The virtual memory of a machine.
#[derive(Debug, Default)]
pub(crate) struct VirtualMemory {
    /// The address range, once it is in use.
    addresses: Option<Mapping>,
    free: FreeRanges,
    /// Start to length.
    reservations: BTreeMap<usize, usize>,
    mappings: BTreeMap<usize, Mapped>,
    last_mapping: u64,
    pub(crate) physical: BTreeMap<u64, Physical>,
    pub(crate) slots: Slots,
    /// Whether memory was exported or imported.
    pub(crate) is_shared: bool,
    /// Whether the devices are in an `NVLink` domain, with a channel to it.
    pub(crate) has_fabric: bool,
}

impl VirtualMemory {
    /// Ensures that the address range exists, for devices of `memory` bytes in total; returns the
    /// range if it is new.
    pub(crate) fn open(&mut self, memory: usize) -> Result<Option<(usize, usize)>, CuResult> {
        if self.addresses.is_some() {
            return Ok(None);
        }
        let memory = memory.next_multiple_of(BASE_ALIGNMENT).max(BASE_ALIGNMENT);
        let sizes = std::iter::successors(Some(ADDRESSES), |&times| Some(times / 2));
        let sizes = sizes.take_while(|&times| times > 0).map(|times| memory.saturating_mul(times));
        // The system may limit addresses; then try a smaller range.
        let made = sizes.into_iter().find_map(|size| {
            let margins = size.checked_add(2 * BASE_ALIGNMENT)?;
            Some((Mapping::new(margins, false).ok()?, size))
        });
        let (mapping, size) = made.ok_or(CuResult::OUT_OF_MEMORY)?;
        self.free.insert(first_address(&mapping), size);
        let range = (mapping.base(), mapping.len());
        self.addresses = Some(mapping);
        Ok(Some(range))
    }

    /// Reserves addresses, at `hint` if they are free.
    pub(crate) fn reserve(&mut self, bytes: usize, alignment: usize, hint: usize) -> Option<usize> {
        let alignment = alignment.max(GRANULARITY);
        let there = hint.is_multiple_of(alignment) && self.free.take_at(hint, bytes);
        let start = if there { hint } else { self.free.take(bytes, alignment)? };
        self.reservations.insert(start, bytes);
        Some(start)
    }

    /// Takes addresses for internal use, which are no reservation of the program.
    pub(crate) fn take_addresses(&mut self, bytes: usize) -> Option<usize> {
        self.free.take(bytes.checked_next_multiple_of(GRANULARITY)?, GRANULARITY)
    }

    /// Returns what [`take_addresses`](Self::take_addresses) with the same `bytes` returned.
    pub(crate) fn return_addresses(&mut self, start: usize, bytes: usize) {
        self.free.insert(start, bytes.next_multiple_of(GRANULARITY));
    }

    /// Ends a reservation without mappings.
    pub(crate) fn end_reservation(&mut self, start: usize) {
        if let Some(bytes) = self.reservations.remove(&start) {
            self.free.insert(start, bytes);
        }
    }

    /// The length of the reservation that starts at an address.
    pub(crate) fn reserved_at(&self, start: usize) -> Option<usize> {
        self.reservations.get(&start).copied()
    }

    /// The reservation that contains an address.
    pub(crate) fn reservation_of(&self, address: usize) -> Option<Range<usize>> {
        let (&start, &bytes) = self.reservations.range(..=address).next_back()?;
        (address - start < bytes).then_some(start..start + bytes)
    }

    /// Whether a range lies within one reservation.
    pub(crate) fn is_reserved(&self, range: &Range<usize>) -> bool {
        self.reservation_of(range.start).is_some_and(|reserved| range.end <= reserved.end)
    }

    pub(crate) fn reservations(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        self.reservations.iter().map(|(&start, &bytes)| start..start + bytes)
    }

    /// Maps physical memory at reserved addresses that are not mapped.
    pub(crate) fn map(&mut self, start: usize, key: u64) {
        let physical = self.physical.get_mut(&key);
        let physical = physical.expect("the handle holds a reference to what it maps");
        physical.mappings += 1;
        self.last_mapping += 1;
        let mapped = Mapped {
            id: self.last_mapping,
            bytes: physical.bytes,
            physical: key,
            home: physical.home,
            backing: physical.start,
            access: BTreeMap::new(),
        };
        self.mappings.insert(start, mapped);
    }

    /// Whether memory of the host is mapped at an address.
    pub(crate) fn is_on_host(&self, address: usize) -> bool {
        self.mapping_at(address).is_some_and(|(_, mapped)| mapped.home == HOST)
    }

    /// Lets the host access a mapping of its own memory by its addresses, or ends that.
    pub(crate) fn show(&mut self, start: usize, is_shown: bool) -> Result<(), CuResult> {
        let mapped = self.mappings.get(&start).ok_or(CuResult::INVALID_VALUE)?;
        let shared = self.physical.get(&mapped.physical).and_then(|it| it.shared.as_ref());
        let file = shared.and_then(SharedBytes::file).ok_or(CuResult::INVALID_VALUE)?;
        let addresses = self.addresses.as_ref().ok_or(CuResult::INVALID_VALUE)?;
        let offset = addresses.offset_of(start).ok_or(CuResult::INVALID_VALUE)?;
        if is_shown {
            return addresses.share(offset, mapped.bytes, file);
        }
        addresses.unshare(offset, mapped.bytes)?;
        addresses.protect(offset, mapped.bytes, false)
    }

    /// Ends a mapping; returns the key of its physical memory if that has no references and
    /// mappings left.
    pub(crate) fn unmap(&mut self, start: usize) -> Option<u64> {
        let mapped = self.mappings.get(&start)?;
        if mapped.access_of(HOST) != CuMemAccessFlags::NONE {
            // If the system refuses, a use after it does not fault.
            let _ignored = self.show(start, false);
        }
        let key = self.mappings.remove(&start)?.physical;
        let physical = self.physical.get_mut(&key)?;
        physical.mappings -= 1;
        (physical.mappings == 0 && physical.references == 0).then_some(key)
    }

    /// The mappings that overlap a range, by start.
    pub(crate) fn over<'a>(
        &'a self,
        range: &Range<usize>,
    ) -> impl Iterator<Item = (usize, &'a Mapped)> + use<'a> {
        let (start, end) = (range.start, range.end);
        let from = self.mappings.range(..=start).next_back().map_or(start, |(&from, _)| from);
        let mappings = self.mappings.range(from..end.max(from));
        mappings
            .filter(move |(at, mapped)| *at + mapped.bytes > start)
            .map(|(&at, mapped)| (at, mapped))
    }

    /// The ranges of the mappings within a range.
    ///
    /// # Errors
    /// `INVALID_VALUE` if the range contains only a part of one.
    pub(crate) fn wholly_in(&self, range: &Range<usize>) -> Result<Vec<Range<usize>>, CuResult> {
        let whole = |(start, mapped): (usize, &Mapped)| {
            let end = start + mapped.bytes;
            let is_inside = start >= range.start && end <= range.end;
            if is_inside { Ok(start..end) } else { Err(CuResult::INVALID_VALUE) }
        };
        self.over(range).map(whole).collect()
    }

    /// The first address of a range at which nothing is mapped.
    pub(crate) fn first_gap(&self, range: &Range<usize>) -> Option<usize> {
        let mut at = range.start;
        for (start, mapped) in self.over(range) {
            if start > at {
                break;
            }
            at = start + mapped.bytes;
        }
        (at < range.end).then_some(at)
    }

    /// Sets the access right of a device to the mapping that starts at an address; returns the
    /// former one.
    pub(crate) fn set_access(
        &mut self,
        start: usize,
        device: usize,
        access: CuMemAccessFlags,
    ) -> CuMemAccessFlags {
        let mapped = self.mappings.get_mut(&start);
        let before = mapped.and_then(|mapped| mapped.access.insert(device, access));
        before.unwrap_or(CuMemAccessFlags::NONE)
    }

    /// The mapping that contains an address, and its start.
    pub(crate) fn mapping_at(&self, address: usize) -> Option<(usize, &Mapped)> {
        let (&start, mapped) = self.mappings.range(..=address).next_back()?;
        (address - start < mapped.bytes).then_some((start, mapped))
    }

    /// The id of the last mapping that was made.
    pub(crate) fn last_mapping(&self) -> u64 {
        self.last_mapping
    }

    /// Whether all of a range is mapped, by mappings of at most this id.
    pub(crate) fn is_mapped_since(&self, range: &Range<usize>, id: u64) -> bool {
        self.first_gap(range).is_none() && self.over(range).all(|(_, mapped)| mapped.id <= id)
    }

    /// Whether an address lies in the address range.
    pub(crate) fn holds(&self, address: usize) -> bool {
        self.addresses.as_ref().is_some_and(|addresses| addresses.offset_of(address).is_some())
    }

    /// The pieces of a range that are mapped.
    pub(crate) fn pieces<'a>(
        &'a self,
        range: &Range<usize>,
    ) -> impl Iterator<Item = Piece> + use<'a> {
        let range = range.clone();
        self.over(&range).map(move |(start, mapped)| {
            let address = start.max(range.start);
            let end = (start + mapped.bytes).min(range.end);
            let backing = mapped.backing + (address - start);
            Piece { address, backing: backing..backing + (end - address) }
        })
    }

    pub(crate) fn mappings(&self) -> impl Iterator<Item = (usize, &Mapped)> {
        self.mappings.iter().map(|(&start, mapped)| (start, mapped))
    }

    /// Whether nothing is mapped.
    pub(crate) fn is_unused(&self) -> bool {
        self.mappings.is_empty()
    }

    /// An address as an offset from the first one that can be reserved, for traces.
    pub(crate) fn relative(&self, address: usize) -> Option<usize> {
        let addresses = self.addresses.as_ref()?;
        addresses.offset_of(address)?;
        address.checked_sub(first_address(addresses))
    }
}

/// The address at which placement starts. As on devices, there is a margin on both sides.
fn first_address(addresses: &Mapping) -> usize {
    (addresses.base() + 1).next_multiple_of(BASE_ALIGNMENT)
}
