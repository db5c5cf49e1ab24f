//! The arenas of a resource: one for each stream that may have one, over a global arena.
//!
//! ```text
//!   stream 1: Arena [superblock][superblock]     small blocks, under the arena's lock
//!   stream 2: Arena [superblock]
//!   AddressMap: address -> Arena                  who owns a block that another stream frees
//!   global arena: Suballocator (a pool)           superblocks, large blocks, everything else
//! ```
//!
//! Lock order: an arena's, the address map's, the global arena's. A thread that takes the locks of
//! several arenas takes them in the order of their streams.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock, Weak};

use rmm_core::{StreamId, fork};

use super::address_map::AddressMap;
use super::local;
use super::member::Arena;
use crate::pool::Suballocator;

/// The number of the next resource.
static NEXT: AtomicU64 = AtomicU64::new(0);

#[derive(Debug)]
pub(super) struct Arenas {
    /// Unique among the arena resources of this process.
    pub(super) number: u64,
    /// The global arena.
    pub(super) base: Suballocator,
    pub(super) of_stream: RwLock<BTreeMap<StreamId, Arc<Arena>>>,
    address_map: Mutex<AddressMap<Arc<Arena>>>,
    pub(super) slow_allocations: AtomicU64,
    pub(super) unknown_frees: AtomicU64,
    /// Allocations and frees of arenas that no longer exist.
    pub(super) past: Mutex<(u64, u64)>,
    /// The link through which ending threads notify this resource.
    pub(super) link: Arc<local::Link>,
    pub(super) this: Weak<Self>,
}

impl Arenas {
    pub(super) fn new(base: Suballocator) -> Arc<Self> {
        Arc::new_cyclic(|this: &Weak<Self>| Self {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            base,
            of_stream: RwLock::default(),
            address_map: Mutex::new(AddressMap::new()),
            slow_allocations: AtomicU64::new(0),
            unknown_frees: AtomicU64::new(0),
            past: Mutex::default(),
            link: Arc::default(),
            this: this.clone(),
        })
    }

    pub(super) fn address_map(&self) -> MutexGuard<'_, AddressMap<Arc<Arena>>> {
        fork::lock(&self.address_map)
    }

    /// All arenas, in the order of their streams.
    pub(super) fn all(&self) -> Vec<Arc<Arena>> {
        fork::read(&self.of_stream).values().cloned().collect()
    }
}
