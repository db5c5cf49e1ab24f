//! A hash table from addresses of live blocks to words, lock-free except while it grows or
//! overflows: what the adaptors know of blocks.

#![forbid(unsafe_code)]

#[cfg(test)]
mod tests;

use std::fmt;
use std::iter;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use dashmap::DashMap;
use rmm_core::DevicePtr;

use super::hash::BuildIdHasher;
use crate::sync::first_thread::Access;

/// Slots of a group, a cache line: an address may be in any slot of its group in each level.
const WAYS: usize = 4;
/// Groups of the first level, as a power of two.
const FIRST_BITS: u32 = 10;
/// Each level has twice as many groups as the previous one; the last has 2^26 slots.
const LEVELS: usize = 15;

/// The key of a free slot.
const FREE: u64 = 0;
/// The key of a slot that a thread has taken, and whose value it has not written yet.
const TAKEN: u64 = u64::MAX;

#[inline]
fn is_key(address: u64) -> bool {
    !matches!(address, FREE | TAKEN)
}

/// Levels of slots. A level is added when the group of an address is full in all of them, and stays
/// until the end.
///
/// Only the owner of a block inserts its address, after the allocation, and removes it, before the
/// free, so one thread at a time writes a slot that is in use. [`insert`](Self::insert) and
/// [`remove`](Self::remove) hold their own against programs that break this rule;
/// [`insert_new`](Self::insert_new) and [`remove_own`](Self::remove_own) cost less.
#[derive(Default)]
pub(crate) struct AddressTable {
    /// The entry that was inserted last, with exclusive access. The next one moves it into the
    /// levels: many blocks are freed before that.
    newest: Slot,
    levels: [OnceLock<Box<[Group]>>; LEVELS],
    /// Entries whose groups are full, and the addresses that are no keys.
    others: OnceLock<DashMap<DevicePtr, u64, BuildIdHasher>>,
}

#[derive(Default)]
#[repr(align(64))]
struct Group([Slot; WAYS]);

#[derive(Default)]
struct Slot {
    /// An address, [`FREE`] or [`TAKEN`].
    key: AtomicU64,
    value: AtomicU64,
}

impl Slot {
    /// Writes an entry, if the slot is free.
    #[inline]
    fn put(&self, access: &Access<'_>, key: u64, value: u64) -> bool {
        // Acquire: the thread that has freed the slot has read its value, which is written below.
        let (acquire, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
        let is_taken = self.key.load(acquire) == FREE
            && (access.is_exclusive()
                || self.key.compare_exchange(FREE, TAKEN, acquire, relaxed).is_ok());
        if is_taken {
            // Release: a thread that reads the value finds another key, if it looks at it again.
            self.value.store(value, Ordering::Release);
            // Release: a thread that reads the key reads its value.
            self.key.store(key, Ordering::Release);
        }
        is_taken
    }

    /// Removes the entry, if the slot still has the key.
    #[inline]
    fn take(&self, is_own: bool, key: u64) -> Option<u64> {
        // Relaxed: the thread has received the block from the one that has inserted it.
        let (release, relaxed) = (Ordering::Release, Ordering::Relaxed);
        let value = self.value.load(relaxed);
        // Release: the next owner of the slot writes its value after this one was read.
        if is_own {
            self.key.store(FREE, release);
            return Some(value);
        }
        self.key.compare_exchange(key, FREE, release, relaxed).ok().map(|_| value)
    }

    /// The entry, if it stays while it is read.
    fn get(&self) -> Option<(DevicePtr, u64)> {
        let key = self.key.load(Ordering::Acquire);
        let value = self.value.load(Ordering::Acquire);
        let stays = is_key(key) && self.key.load(Ordering::Relaxed) == key;
        stays.then_some((DevicePtr(key), value))
    }
}

impl AddressTable {
    /// Inserts an address. Returns whether it was absent; otherwise nothing changes. If two threads
    /// insert one address at once, both may.
    #[inline]
    pub(crate) fn insert(&self, access: &Access<'_>, pointer: DevicePtr, value: u64) -> bool {
        let is_other = || self.others.get().is_some() && self.is_other(pointer);
        if self.find(pointer.0).is_some() || is_other() {
            return false;
        }
        if !access.is_exclusive() || !is_key(pointer.0) {
            self.insert_new(access, pointer, value);
            return true;
        }
        if let Some((older, its_value)) = self.newest.get() {
            // First here, so that a thread that lists the entries meets it.
            self.insert_new(access, older, its_value);
            self.newest.take(true, older.0);
        }
        self.newest.put(access, pointer.0, value)
    }

    /// Inserts an address that is absent.
    #[inline]
    pub(crate) fn insert_new(&self, access: &Access<'_>, pointer: DevicePtr, value: u64) {
        let key = pointer.0;
        let put = |slots: &[Slot; WAYS]| slots.iter().any(|slot| slot.put(access, key, value));
        if !self.groups(key).any(put) {
            self.insert_further(access, pointer, value);
        }
    }

    /// Inserts an address for which the levels have no room: into a new level, or elsewhere.
    #[cold]
    fn insert_further(&self, access: &Access<'_>, pointer: DevicePtr, value: u64) {
        if is_key(pointer.0) {
            for (level, groups) in self.levels.iter().enumerate() {
                let make = || (0..1_usize << Self::bits(level)).map(|_| Group::default()).collect();
                let Group(slots) = &groups.get_or_init(make)[Self::index(level, pointer.0)];
                if slots.iter().any(|slot| slot.put(access, pointer.0, value)) {
                    return;
                }
            }
        }
        self.others.get_or_init(DashMap::default).insert(pointer, value);
    }

    /// Removes an address. Returns its value; `None` if it is absent. Of threads that remove one
    /// address at once, one does.
    #[inline]
    pub(crate) fn remove(&self, access: &Access<'_>, pointer: DevicePtr) -> Option<u64> {
        match self.find(pointer.0) {
            Some(slot) => slot.take(access.is_exclusive(), pointer.0),
            None => self.remove_other(pointer),
        }
    }

    /// Removes an address that no other thread removes at the same time. For a table that no thread
    /// has exclusive access to: with it, the newest entry moves.
    #[inline]
    pub(crate) fn remove_own(&self, pointer: DevicePtr) -> Option<u64> {
        match self.find(pointer.0) {
            Some(slot) => slot.take(true, pointer.0),
            None => self.remove_other(pointer),
        }
    }

    #[cold]
    fn is_other(&self, pointer: DevicePtr) -> bool {
        self.others.get().is_some_and(|others| others.contains_key(&pointer))
    }

    #[cold]
    fn remove_other(&self, pointer: DevicePtr) -> Option<u64> {
        self.others.get()?.remove(&pointer).map(|(_, value)| value)
    }

    /// All entries, by address. Those that other threads insert or remove meanwhile may be missing,
    /// or have the value that an earlier entry of the address had.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (DevicePtr, u64)> {
        let groups = self.levels.iter().filter_map(OnceLock::get).flatten();
        let slots = iter::once(&self.newest).chain(groups.flat_map(|Group(slots)| slots));
        let entries = slots.filter_map(Slot::get);
        let others = self.others.get().into_iter().flatten();
        let others = others.map(|other| (*other.key(), *other.value()));
        let mut all: Vec<(DevicePtr, u64)> = entries.chain(others).collect();
        // An entry that moves meanwhile is met twice.
        all.sort_unstable_by_key(|&(pointer, _)| pointer.0);
        all.dedup_by_key(|&mut (pointer, _)| pointer);
        all.into_iter()
    }

    #[inline]
    fn bits(level: usize) -> u32 {
        FIRST_BITS + u32::try_from(level).expect("there are few levels")
    }

    /// The index of a key's group in a level: by Fibonacci hashing (Knuth), again for each level,
    /// so that keys which share a group of one level are apart in the next.
    #[inline]
    fn index(level: usize, key: u64) -> usize {
        const PHI: u64 = 0x9E37_79B9_7F4A_7C15;
        let again = |hash: u64, _level| (hash ^ (hash >> 32)).wrapping_mul(PHI);
        let hash = (0..level).fold(key.wrapping_mul(PHI), again);
        usize::try_from(hash >> (u64::BITS - Self::bits(level))).expect("below 2^bits")
    }

    /// The groups in which a key may be.
    #[inline]
    fn groups(&self, key: u64) -> impl Iterator<Item = &[Slot; WAYS]> {
        let levels = if is_key(key) { &self.levels[..] } else { &[] };
        let levels = levels.iter().map_while(OnceLock::get).enumerate();
        levels.map(move |(level, groups)| &groups[Self::index(level, key)].0)
    }

    /// The slot with a key.
    #[inline]
    fn find(&self, key: u64) -> Option<&Slot> {
        let has_key = |slot: &&Slot| slot.key.load(Ordering::Relaxed) == key;
        let newest = Some(&self.newest).filter(has_key).filter(|_| is_key(key));
        newest.or_else(|| self.groups(key).find_map(|slots| slots.iter().find(has_key)))
    }
}

impl fmt::Debug for AddressTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AddressTable").finish_non_exhaustive()
    }
}
