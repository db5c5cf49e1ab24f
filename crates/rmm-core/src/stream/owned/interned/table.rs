//! Weak references by key: the steps of the [table of streams](super), each of which takes its lock
//! once.
//!
//! They are generic over the reference and the lock, so that the models of the table run these
//! lines with those of `loom`.
//!
//! # Invariant
//! An entry refers to the stream that was entered last under its key. There is none if that one
//! has been removed.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::ops::DerefMut;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use crate::{StreamId, fork};

/// The handle's address and the key of the stream's context, which a handle of unknown lifetime
/// does not have.
pub(super) type Key = (usize, Option<(usize, u64)>);

pub(super) type Entries<R> = BTreeMap<Key, Entry<R>>;

pub(super) struct Entry<R: Shared> {
    id: StreamId,
    stream: R::Weak,
}

/// A reference that shares the ownership of its object, as [`Arc`] does.
pub(super) trait Shared: Sized {
    /// A reference that does not keep the object.
    type Weak;

    fn downgrade(&self) -> Self::Weak;
    fn upgrade(weak: &Self::Weak) -> Option<Self>;
}

impl<T> Shared for Arc<T> {
    type Weak = Weak<T>;

    fn downgrade(&self) -> Weak<T> {
        Self::downgrade(self)
    }

    fn upgrade(weak: &Weak<T>) -> Option<Self> {
        weak.upgrade()
    }
}

/// What one thread at a time can get to.
pub(super) trait Lock<T> {
    type Guard<'a>: DerefMut<Target = T>
    where
        Self: 'a;

    fn acquire(&self) -> Self::Guard<'_>;
}

impl<T> Lock<T> for Mutex<T> {
    type Guard<'a>
        = MutexGuard<'a, T>
    where
        T: 'a;

    fn acquire(&self) -> MutexGuard<'_, T> {
        fork::lock(self)
    }
}

/// Enters the stream, and returns it; or returns the one that is there, if it `is_same`.
pub(super) fn enter_or_get<R: Shared>(
    table: &impl Lock<Entries<R>>,
    (key, id): (Key, StreamId),
    new: R,
    is_same: impl FnOnce(&R) -> bool,
) -> R {
    let mut entries = table.acquire();
    let known = entries.get(&key).and_then(|entry| R::upgrade(&entry.stream));
    let is_known = known.as_ref().is_some_and(is_same);
    if !is_known {
        entries.insert(key, Entry { id, stream: new.downgrade() });
    }
    // Before the one that is not returned is dropped.
    drop(entries);
    known.filter(|_| is_known).unwrap_or(new)
}

/// Enters the stream in place of what is there.
pub(super) fn replace<R: Shared>(
    table: &impl Lock<Entries<R>>,
    (key, id): (Key, StreamId),
    new: &R,
) {
    table.acquire().insert(key, Entry { id, stream: new.downgrade() });
}

/// Removes the entry of the stream with this id, if it still has one.
pub(super) fn forget<R: Shared>(table: &impl Lock<Entries<R>>, (key, id): (Key, StreamId)) {
    let mut entries = table.acquire();
    if entries.get(&key).is_some_and(|entry| entry.id == id) {
        entries.remove(&key);
    }
}
