//! A hash table from block addresses to values, with a one-entry cache for the newest block.

#![forbid(unsafe_code)]

#[cfg(test)]
mod tests;

use std::collections::HashMap;

use rmm_core::DevicePtr;

use crate::hash::BuildIdHasher;

/// A table by address. The newest block is kept beside the table and moves into it when the next
/// one is inserted: many blocks are freed before that.
///
/// Such a pair costs one comparison. It also avoids a store-forwarding stall: the hash table writes
/// one control byte per entry, and a lookup right afterwards loads sixteen of them at once.
#[derive(Debug)]
pub(crate) struct Blocks<V> {
    /// Not in `others`.
    last: Option<(DevicePtr, V)>,
    others: HashMap<DevicePtr, V, BuildIdHasher>,
}

impl<V> Default for Blocks<V> {
    fn default() -> Self {
        Self { last: None, others: HashMap::default() }
    }
}

impl<V> Blocks<V> {
    pub(crate) fn len(&self) -> usize {
        self.others.len() + usize::from(self.last.is_some())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (DevicePtr, &V)> {
        let last = self.last.iter().map(|(pointer, value)| (pointer, value));
        last.chain(&self.others).map(|(pointer, value)| (*pointer, value))
    }

    pub(crate) fn into_entries(self) -> impl Iterator<Item = (DevicePtr, V)> {
        self.others.into_iter().chain(self.last)
    }

    /// Inserts a block. Returns whether the address was absent; otherwise nothing changes. `value`
    /// is called only for a new address, and constructs the value in place.
    #[inline]
    pub(crate) fn insert(&mut self, pointer: DevicePtr, value: impl FnOnce() -> V) -> bool {
        if self.others.contains_key(&pointer) {
            return false;
        }
        if let Some((last, _)) = &self.last {
            if *last == pointer {
                return false;
            }
            self.put_aside();
        }
        self.last = Some((pointer, value()));
        true
    }

    /// Moves the newest block into the table.
    #[inline]
    fn put_aside(&mut self) {
        if let Some((pointer, value)) = self.last.take() {
            self.others.insert(pointer, value);
        }
    }

    #[inline]
    pub(crate) fn remove(&mut self, pointer: DevicePtr) -> Option<V> {
        match self.last.take_if(|(last, _)| *last == pointer) {
            Some((_, value)) => Some(value),
            None => self.others.remove(&pointer),
        }
    }
}
