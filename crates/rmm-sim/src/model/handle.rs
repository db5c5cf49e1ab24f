//! Handles: a machine, a kind and a slot in one word, so that a handle alone identifies its
//! machine.
#![forbid(unsafe_code)]

use std::ffi::c_void;

/// The kind of object that a handle names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HandleKind {
    Context = 1,
    Stream = 2,
    Event = 3,
    Pool = 4,
    Physical = 5,
    Graph = 6,
    Executable = 7,
    Module = 8,
    Function = 9,
}

/// An argument of a call that identifies its machine.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Hint {
    Handle(usize),
    Address(usize),
}

/// The word that names `slot` of `machine`.
pub(crate) fn encode(machine: u32, kind: HandleKind, slot: usize) -> *mut c_void {
    assert!(slot < 0x0fff_ffff, "a larger slot would overlap the bits of the kind");
    std::ptr::without_provenance_mut(
        ((machine as usize) << 32) | ((kind as usize) << 28) | (slot + 1),
    )
}

/// The machine that a word names, if it looks like a handle at all.
pub(crate) fn machine_of(word: usize) -> Option<u32> {
    u32::try_from(word >> 32).ok().filter(|&machine| machine != 0)
}

/// The slot that a word names, if it is a handle of this kind and machine.
pub(crate) fn decode(word: usize, machine: u32, kind: HandleKind) -> Option<usize> {
    let kind_matches = (word >> 28) & 0xf == kind as usize;
    if machine_of(word) == Some(machine) && kind_matches {
        (word & 0x0fff_ffff).checked_sub(1)
    } else {
        None
    }
}

/// Slots that handles name, each with an object's key. The slot released last is reused first, as
/// real drivers reuse handle values immediately.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    keys: Vec<Option<u64>>,
    vacant: Vec<usize>,
}

impl Slots {
    pub(crate) fn insert(&mut self, key: u64) -> usize {
        if let Some(slot) = self.vacant.pop() {
            self.keys[slot] = Some(key);
            return slot;
        }
        self.keys.push(Some(key));
        self.keys.len() - 1
    }

    pub(crate) fn get(&self, slot: usize) -> Option<u64> {
        self.keys.get(slot).copied().flatten()
    }

    pub(crate) fn remove(&mut self, slot: usize) -> Option<u64> {
        let key = self.keys.get_mut(slot)?.take()?;
        self.vacant.push(slot);
        Some(key)
    }

    /// Removes every key that is not wanted. The slots are reused in their order.
    pub(crate) fn retain(&mut self, mut is_wanted: impl FnMut(u64) -> bool) {
        for slot in (0..self.keys.len()).rev() {
            if self.keys[slot].is_some_and(|key| !is_wanted(key)) {
                self.remove(slot);
            }
        }
    }

    /// Whether the object of this slot was destroyed, and the slot has not been reused.
    pub(crate) fn is_vacant(&self, slot: usize) -> bool {
        self.keys.get(slot).is_some_and(Option::is_none)
    }

    /// The slot that holds `key`.
    pub(crate) fn slot_of(&self, key: u64) -> Option<usize> {
        self.keys.iter().position(|&held| held == Some(key))
    }

    /// Every key that a handle names.
    pub(crate) fn keys(&self) -> impl Iterator<Item = u64> + '_ {
        self.keys.iter().copied().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_names_its_machine_kind_and_slot() {
        let word = encode(7, HandleKind::Event, 3).addr();
        assert_eq!(machine_of(word), Some(7));
        assert_eq!(decode(word, 7, HandleKind::Event), Some(3));
        assert_eq!(decode(word, 7, HandleKind::Stream), None);
        assert_eq!(decode(word, 8, HandleKind::Event), None);
        assert_eq!(machine_of(2), None);
    }

    #[test]
    fn the_slot_released_last_is_reused_first() {
        let mut slots = Slots::default();
        let (a, b) = (slots.insert(10), slots.insert(11));
        slots.remove(a);
        slots.remove(b);
        assert_eq!(slots.remove(b), None);
        assert_eq!(slots.insert(12), b);
        assert_eq!(slots.insert(13), a);
        assert_eq!(slots.get(a), Some(13));
    }
}
