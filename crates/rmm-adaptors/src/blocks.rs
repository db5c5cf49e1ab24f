//! What is known of blocks, by address.

#![forbid(unsafe_code)]

#[cfg(test)]
mod tests;

use std::collections::HashMap;

use rmm_core::DevicePtr;

use crate::pool::BuildIdHasher;

/// A table by address. The last block that came is beside it, and gets into it when the next one
/// comes: many are freed before that.
///
/// Those cost a comparison, and spare the processor a wait: the table marks an entry by one byte,
/// and is searched by sixteen such bytes at once, which a byte that was written just before holds
/// up.
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

    /// Whether the address was not there before; else nothing changes. A new one's value is made in
    /// its place.
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

    /// Puts the last block into the table.
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
