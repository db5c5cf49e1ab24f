//! The [table of streams](super), and the steps that enter a stream, find it again and remove it,
//! each of which takes the table's lock once.
//!
//! They are generic over the reference and the lock, so that the models of the table run these
//! lines with those of `loom`.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::ops::DerefMut;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::{CudaStream, StreamId, WeakStream, fork};

/// The handle's address and the key of the stream's context, which a handle of unknown lifetime
/// does not have.
pub(in crate::stream) type Key = (usize, Option<(usize, u64)>);

pub(in crate::stream) struct Table<R: Shared> {
    /// The streams that exist.
    ///
    /// # Invariant
    /// An entry refers to the stream that was entered last under its key. There is none if that one
    /// has been removed.
    pub(super) streams: BTreeMap<Key, Entry<R>>,
    /// The streams that were announced, by the handle's address.
    pub(super) announced: BTreeMap<usize, Announced<R>>,
    /// The handles of unknown lifetime that were used lately, each with whether it was looked up
    /// since the last sweep.
    pub(super) unknown: BTreeMap<usize, (R, bool)>,
    /// When the entries of `unknown` were made: [`rmm_sys::epoch::ends_of_contexts`].
    pub(super) ends: u64,
    /// How many entries `unknown` has when it is swept.
    pub(super) sweep_at: usize,
}

pub(super) struct Entry<R: Shared> {
    id: StreamId,
    stream: R::Weak,
}

/// A stream whose announcer says when it ends.
pub(super) struct Announced<R> {
    /// Behind an `Arc` of its own, so that it stays where it is: threads have its address.
    pub(super) stream: Arc<R>,
    /// The announcements that were not released yet.
    pub(super) guards: usize,
    /// Whether it stays announced after the last release.
    pub(super) until_forgotten: bool,
}

impl<R: Shared> Table<R> {
    pub(super) const fn new(sweep_at: usize) -> Self {
        Self {
            streams: BTreeMap::new(),
            announced: BTreeMap::new(),
            unknown: BTreeMap::new(),
            ends: 0,
            sweep_at,
        }
    }
}

/// A reference that shares the ownership of its object, as [`Arc`] does.
pub(in crate::stream) trait Shared: Sized {
    /// A reference that does not keep the object.
    type Weak;

    fn to_weak(&self) -> Self::Weak;
    fn upgrade(weak: &Self::Weak) -> Option<Self>;
}

impl Shared for CudaStream {
    type Weak = WeakStream;

    fn to_weak(&self) -> WeakStream {
        self.downgrade()
    }

    fn upgrade(weak: &WeakStream) -> Option<Self> {
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
    table: &impl Lock<Table<R>>,
    (key, id): (Key, StreamId),
    new: R,
    is_same: impl FnOnce(&R) -> bool,
) -> R {
    let mut entries = table.acquire();
    let known = entries.streams.get(&key).and_then(|entry| R::upgrade(&entry.stream));
    let is_known = known.as_ref().is_some_and(is_same);
    if !is_known {
        entries.streams.insert(key, Entry { id, stream: new.to_weak() });
    }
    // Before the one that is not returned is dropped.
    drop(entries);
    known.filter(|_| is_known).unwrap_or(new)
}

/// Enters the stream in place of what is there.
pub(super) fn replace<R: Shared>(table: &impl Lock<Table<R>>, (key, id): (Key, StreamId), new: &R) {
    table.acquire().streams.insert(key, Entry { id, stream: new.to_weak() });
}

/// Removes the entry of the stream with this id, if it still has one.
pub(super) fn remove<R: Shared>(table: &impl Lock<Table<R>>, (key, id): (Key, StreamId)) {
    let mut entries = table.acquire();
    if entries.streams.get(&key).is_some_and(|entry| entry.id == id) {
        entries.streams.remove(&key);
    }
}
