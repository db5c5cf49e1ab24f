//! Trims of an arena: idle superblocks go to the global arena first.

#![forbid(unsafe_code)]

use rmm_core::{PoolUsage, SyncResource, TrimmableResource, fork};

use super::Inner;

impl<U: SyncResource> TrimmableResource for Inner<U> {
    fn trim_name(&self) -> &'static str {
        "arena"
    }

    fn usage(&self) -> PoolUsage {
        let statistics = self.arenas.statistics();
        // Of memory that sleeps none is free.
        let is_asleep = self.pool.has_sleeping_memory();
        let live = if is_asleep { statistics.reserved_bytes } else { statistics.live_bytes };
        PoolUsage::new(statistics.reserved_bytes, live)
    }

    fn trim_to(&self, keep: u64) -> u64 {
        if fork::is_child() {
            return 0;
        }
        self.arenas.collect_idle(None);
        self.pool.trim(keep)
    }

    fn trim_to_blocking(&self, keep: u64) -> u64 {
        if fork::is_child() {
            return 0;
        }
        self.arenas.collect_idle(None);
        self.pool.trim_blocking(keep)
    }
}
