//! Functions of the program that hear of what a pool has from upstream.

#![forbid(unsafe_code)]

use std::panic::{AssertUnwindSafe, catch_unwind};

use rmm_core::DevicePtr;
use rmm_core::siblings::in_program;

use super::callbacks::{Callbacks, Registration};

/// A change of what a pool has from upstream, see
/// [`observe_upstream`](crate::PoolMemoryResource::observe_upstream).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum UpstreamChange {
    /// There is memory that no block is in yet: from upstream, or mapped again when the pool wakes.
    Allocated {
        /// Its address.
        base: DevicePtr,
        /// Its bytes.
        bytes: u64,
    },
    /// Memory is about to go back to upstream, or to be unmapped since the pool falls asleep.
    Released {
        /// Its address.
        base: DevicePtr,
        /// Its bytes.
        bytes: u64,
    },
}

/// A function that is called with each change.
pub(crate) type Observer = dyn Fn(&UpstreamChange) + Send + Sync;

/// The observers of a pool.
pub(crate) type UpstreamObservers = Callbacks<Observer>;

/// Keeps a function of [`observe_upstream`](crate::PoolMemoryResource::observe_upstream)
/// registered. A call that another thread has begun may go on after the drop.
#[derive(Debug)]
#[must_use = "the function is called only while the guard lives"]
pub struct UpstreamObserver {
    pub(crate) registration: Registration<Observer>,
}

impl UpstreamObserver {
    /// Keeps the function registered until the pool's end.
    pub fn detach(self) {
        self.registration.detach();
    }
}

/// The change for memory that is there now.
pub(crate) fn allocated((base, bytes): (DevicePtr, u64)) -> UpstreamChange {
    UpstreamChange::Allocated { base, bytes }
}

/// The change for memory that is about to go.
pub(crate) fn released((base, bytes): (DevicePtr, u64)) -> UpstreamChange {
    UpstreamChange::Released { base, bytes }
}

impl UpstreamObservers {
    /// Calls the observers with changes. The caller holds no lock of the pool. A panic is reported
    /// when it begins; the pool goes on, since the memory is there, or goes, all the same.
    pub(crate) fn call(&self, changes: impl Iterator<Item = UpstreamChange>) {
        let observers = self.all();
        if observers.is_empty() {
            return;
        }
        in_program(|| {
            for change in changes {
                for observer in &observers {
                    let _ignored = catch_unwind(AssertUnwindSafe(|| observer(&change)));
                }
            }
            // The last of one whose registration has ended meanwhile: its captured values go here.
            for observer in observers {
                let _ignored = catch_unwind(AssertUnwindSafe(|| drop(observer)));
            }
        });
    }
}
