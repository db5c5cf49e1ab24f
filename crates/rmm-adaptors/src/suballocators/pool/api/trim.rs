//! Trims that wait for pending frees first, and the interface through which a pool is trimmed
//! without its type: by a stack above it, and by other pools that are short of memory.

#![forbid(unsafe_code)]

use rmm_core::{AnyResource, PoolUsage, RelaxedCapture, TrimmableResource};

use super::pool::Inner;
use crate::suballocators::pool::state::core::PoolCore;
use crate::suballocators::pool::state::pool_state::PoolState;
use crate::suballocators::pool::state::session::Session;
use crate::suballocators::pool::values::units::ListId;

impl PoolCore {
    /// Releases idle upstream blocks, as [`trim`](Self::trim) does, after a wait for pending frees.
    pub(crate) fn trim_blocking(&self, upstream: &AnyResource<()>, keep: u64) -> u64 {
        if self.lock().is_trimmed(&self.caches) {
            return 0;
        }
        self.wait_for_pending_frees();
        self.trim(upstream, keep)
    }

    /// Waits on this thread until all memory that was freed is idle. Does nothing if it is already,
    /// or if the wait would invalidate a capture.
    fn wait_for_pending_frees(&self) {
        let Ok(_context) = self.context.enter() else { return };
        let _relaxed = RelaxedCapture::enter();
        let mut session = Session::new(self);
        session.flush_caches();
        session.poll_others(ListId::ANY_STREAM);
        session.reclaim_completed();
        if has_pending_frees(&session) && session.may_wait_for_device() {
            session.wait_for_device();
        }
    }

    /// The bytes reserved and live; what caches hold is free. Of memory that sleeps none is free,
    /// but for what the driver has refused to return.
    pub(crate) fn bytes_held(&self) -> PoolUsage {
        let state = self.lock();
        let reserved = state.heap.reserved();
        if self.is_asleep(&state) {
            let held = reserved.saturating_sub(state.phase.asleep_bytes());
            return PoolUsage::new(held, held - state.phase.left_bytes());
        }
        let cached = self.caches.bytes() + state.transfer.bytes();
        PoolUsage::new(reserved, state.heap.live().saturating_sub(cached))
            .with_largest_free(state.heap.largest_free())
    }
}

/// Whether memory was freed whose last use may not be over.
fn has_pending_frees(state: &PoolState) -> bool {
    state.heap.occupied().next().is_some()
}

impl TrimmableResource for Inner {
    fn trim_name(&self) -> &'static str {
        self.core.name
    }

    fn usage(&self) -> PoolUsage {
        self.core.bytes_held()
    }

    fn trim_to(&self, keep: u64) -> u64 {
        self.core.trim(&self.upstream, keep)
    }

    fn trim_to_blocking(&self, keep: u64) -> u64 {
        self.core.trim_blocking(&self.upstream, keep)
    }
}
