//! A lock-free hash table from block addresses to tags.

#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

use rmm_core::{DevicePtr, fork};

use super::Tag;
use crate::hash::BuildIdHasher;

/// Slots per group, a cache line: an address may be in any slot of its group in each table.
const WAYS: usize = 8;
/// Groups in the first table, as a power of two.
const FIRST_BITS: u32 = 9;
/// Each table has four times as many groups as the previous one; the last has 2^26 slots.
const STEP_BITS: u32 = 2;
const TABLES: usize = 8;

/// Bits of a slot for the tag; the others hold the address without its low bits, which are zero
/// because blocks are aligned to 256 bytes.
const TAG_BITS: u32 = 16;
const ADDRESS_ZEROS: u32 = 8;

/// Tables of slots. A table is added when the group of an address is full in all tables, and stays
/// until the end: with many blocks, that is when the previous table is about half full.
///
/// An address is in one slot, which the owner of the block writes at its allocation and clears at
/// its free, so only one thread at a time changes a slot that is not 0. Relaxed loads and stores
/// are enough: the thread that frees a block has received its address from the allocating thread,
/// which orders the two.
#[derive(Default)]
pub(super) struct Table {
    tables: [OnceLock<Box<[Group]>>; TABLES],
    /// Entries that fit no slot: addresses that are not aligned to 256 bytes or too high, or whose
    /// groups are full.
    others: Mutex<HashMap<DevicePtr, Tag, BuildIdHasher>>,
}

#[derive(Default)]
#[repr(align(64))]
struct Group([AtomicU64; WAYS]);

/// The address as stored in a slot, above the tag; `None` if it does not fit. Never 0.
#[inline]
fn key(pointer: DevicePtr) -> Option<u64> {
    let key = pointer.0 >> ADDRESS_ZEROS;
    let fits = key << ADDRESS_ZEROS == pointer.0 && key >> (u64::BITS - TAG_BITS) == 0 && key > 0;
    fits.then_some(key)
}

/// The tag in a slot.
#[inline]
fn tag_of(slot: u64) -> Option<Tag> {
    let mask = (1 << TAG_BITS) - 1;
    u16::try_from(slot & mask).ok().map(Tag::numbered)
}

impl Table {
    fn bits(table: usize) -> u32 {
        FIRST_BITS + STEP_BITS * u32::try_from(table).expect("there are few tables")
    }

    /// The group of a key in one table.
    #[inline]
    fn group(groups: &[Group], bits: u32, key: u64) -> &[AtomicU64; WAYS] {
        let place = key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (u64::BITS - bits);
        &groups[usize::try_from(place).expect("below the length, which is 2^bits")].0
    }

    #[inline]
    pub(super) fn insert(&self, pointer: DevicePtr, tag: Tag) {
        let Some(key) = key(pointer) else { return self.insert_other(pointer, tag) };
        let slot = key << TAG_BITS | u64::from(tag.number());
        for (index, table) in self.tables.iter().enumerate() {
            let bits = Self::bits(index);
            let make = || (0..1_usize << bits).map(|_| Group::default()).collect();
            let group = Self::group(table.get_or_init(make), bits, key);
            for place in group {
                if place.load(Ordering::Relaxed) == 0
                    && place.compare_exchange(0, slot, Ordering::Relaxed, Ordering::Relaxed).is_ok()
                {
                    return;
                }
            }
        }
        self.insert_other(pointer, tag);
    }

    /// Removes a block and returns its tag; `None` if it has none.
    #[inline]
    pub(super) fn remove(&self, pointer: DevicePtr) -> Option<Tag> {
        let Some(key) = key(pointer) else { return self.remove_other(pointer) };
        for (index, table) in self.tables.iter().enumerate() {
            let Some(groups) = table.get() else { break };
            for place in Self::group(groups, Self::bits(index), key) {
                let slot = place.load(Ordering::Relaxed);
                if slot >> TAG_BITS == key {
                    place.store(0, Ordering::Relaxed);
                    return tag_of(slot);
                }
            }
        }
        self.remove_other(pointer)
    }

    #[cold]
    fn insert_other(&self, pointer: DevicePtr, tag: Tag) {
        fork::lock(&self.others).insert(pointer, tag);
    }

    #[cold]
    fn remove_other(&self, pointer: DevicePtr) -> Option<Tag> {
        fork::lock(&self.others).remove(&pointer)
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_keeps_its_tag_until_it_is_removed() {
        let table = Table::default();
        // More addresses than the first table holds, and addresses that fit no slot.
        let odd = [DevicePtr(0), DevicePtr(0x1001), DevicePtr(u64::MAX << 8)];
        let blocks: Vec<DevicePtr> =
            (1..20_000).map(|number| DevicePtr(number << 8)).chain(odd).collect();
        let tag = |block: DevicePtr| Tag::numbered(u16::try_from(block.0 % 1021).unwrap());
        for &block in &blocks {
            table.insert(block, tag(block));
        }
        for &block in blocks.iter().rev() {
            assert_eq!(table.remove(block), Some(tag(block)), "{block:?}");
            assert_eq!(table.remove(block), None, "{block:?}");
        }
        assert!(table.tables[1].get().is_some(), "the first table is too small for this test");
    }

    #[test]
    fn threads_remove_blocks_of_other_threads() {
        let table = Table::default();
        std::thread::scope(|scope| {
            let (give, take) = std::sync::mpsc::channel::<DevicePtr>();
            for thread in 0..3 {
                let (table, give) = (&table, give.clone());
                scope.spawn(move || {
                    for number in 1..3000 {
                        let block = DevicePtr((number * 3 + thread) << 8);
                        table.insert(block, Tag::numbered(7));
                        give.send(block).unwrap();
                    }
                });
            }
            drop(give);
            for block in take {
                assert_eq!(table.remove(block), Some(Tag::numbered(7)));
            }
        });
    }
}
