//! A pool that is read from elsewhere, which does not keep it alive.

#![forbid(unsafe_code)]

use std::fmt;
use std::sync::{Arc, Weak};

use rmm_core::{Context, PropertySet};

use super::pool::{Inner, PoolMemoryResource};
use crate::suballocators::pool::state::core::PoolCore;
use crate::suballocators::pool::values::statistics::{PoolBlock, PoolStatistics};

/// A pool, to be read while it exists. A thread that reads never becomes its last owner, so it
/// closes none.
#[derive(Clone)]
pub(crate) struct PoolSource {
    /// What owners hold.
    owned: Weak<Inner>,
    core: Weak<PoolCore>,
}

impl PoolSource {
    pub(super) fn of<S: PropertySet>(pool: &PoolMemoryResource<S>) -> Self {
        let inner = &pool.inner;
        Self { owned: Arc::downgrade(inner), core: Arc::downgrade(&inner.core) }
    }

    fn core(&self) -> Option<Arc<PoolCore>> {
        self.core.upgrade().filter(|_| self.exists())
    }

    /// Whether the pool has an owner.
    pub(crate) fn exists(&self) -> bool {
        self.owned.strong_count() > 0
    }

    /// Whether both are one pool.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.owned.ptr_eq(&other.owned)
    }

    /// The context of its memory.
    pub(crate) fn context(&self) -> Option<Context> {
        Some(self.core()?.context)
    }

    /// Its name as a resource.
    pub(crate) fn name(&self) -> Option<&'static str> {
        Some(self.core()?.name)
    }

    /// Its counters, without a call of the driver.
    pub(crate) fn statistics(&self) -> Option<PoolStatistics> {
        Some(self.core()?.statistics())
    }

    /// All of its blocks. Others may take the pool's lock in between.
    pub(crate) fn blocks(&self) -> Option<Vec<PoolBlock>> {
        Some(self.core()?.blocks())
    }
}

impl fmt::Debug for PoolSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolSource").field("exists", &self.exists()).finish_non_exhaustive()
    }
}
