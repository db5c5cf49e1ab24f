//! The end of a pool: which memory is released to upstream, and which must not be.
//!
//! The rule, for every suballocator that is built on a pool: *memory that holds a live block is
//! never released*. Work on such a block may be in progress on any stream, context or device of the
//! process, and no wait covers them all. So at the end each upstream block is one of:
//!
//! ```text
//! all blocks are free, and the work before their frees is complete   -> is released
//! a block is live, or reserved for a graph                           -> stays allocated
//! a block is free, and it is unknown whether its uses are over       -> stays allocated
//! ```
//!
//! After the end of its context a pool releases nothing: the memory went with the context, and
//! other allocations may be at its addresses. The exception is virtual memory, which belongs to no
//! context. The waits of the pool's streams for work of other contexts ended with the streams, so
//! it is released after a wait for all contexts.
//!
//! A wait that fails proves nothing, whatever the error is: the driver refuses it while a stream is
//! under capture, and a call that fails once may do so for a reason unrelated to the device.

use std::collections::HashSet;

use rmm_core::known_contexts::wait_for_all_contexts;
use rmm_core::{
    AnyResource, CaptureScope, Device, Error, RelaxedCapture, ask_again, process_is_exiting,
};
use rmm_sys::CuResult;

use crate::suballocators::pool::heap::Block;
use crate::suballocators::pool::state::core::PoolCore;
use crate::suballocators::pool::state::pool_state::PoolState;
use crate::suballocators::pool::state::upstream_block::{UpstreamBlock, release_each};
use crate::suballocators::pool::values::units::ListId;

impl PoolCore {
    /// Releases all memory that no work uses to upstream: the pool's last call.
    pub(crate) fn close(&self, upstream: &AnyResource<()>) {
        // At the end of the process the system reclaims everything, and the driver may be gone.
        if process_is_exiting() {
            return;
        }
        let _relaxed = RelaxedCapture::enter();
        self.flush_caches(&mut self.lock());
        let entered = ask_again(|| self.context.enter());
        let unknown = match &entered {
            Ok(_context) => self.wait_for_frees(),
            // All work of the context has ended with it. So has its memory, unless it is of a kind
            // that outlives the context, which work of other contexts may use.
            Err(error) if self.is_left_without_context(error) => {
                if wait_for_all_contexts().is_err() {
                    return;
                }
                HashSet::new()
            }
            // Without its context nothing can be found out about the pool's streams: all memory
            // stays allocated.
            Err(_) => return,
        };
        self.end_sleep();
        let chunks = self.lock().blocks_to_release(&unknown);
        let chunks = self.let_go_of_all(chunks);
        // A panic of upstream was reported when it began, and must not leave a `Drop`.
        let _ignored = release_each(chunks, upstream);
    }

    /// Whether the context was reset, as this error says, and the memory is there all the same.
    pub(crate) fn is_left_without_context(&self, error: &Error) -> bool {
        error.code() == Some(CuResult::CONTEXT_IS_DESTROYED) && self.lock().outlives_context
    }

    /// Waits on this thread for the work that came before frees, as far as it can be waited for.
    /// Returns the lists with blocks whose uses may not be over. The pool's context must be
    /// current.
    fn wait_for_frees(&self) -> HashSet<ListId> {
        if self.is_for_graphs() {
            // They may be launched after the pool's end.
            return self.lock().timeline.lists().collect();
        }
        // A query that failed proves nothing, so it is made again.
        let ask = || self.lock().may_capture();
        if !(ask() && ask()) {
            // One failure proves nothing either, unless a stream is under capture: a second wait
            // could invalidate the capture.
            let wait = || CaptureScope::unless_announced(Device::synchronize_current).transpose();
            if matches!(ask_again(wait), Ok(Some(()))) {
                return HashSet::new();
            }
        }
        self.wait_for_each()
    }

    /// Waits for the streams one by one, if the device cannot be waited for. Returns the lists with
    /// blocks whose uses may not be over. The pool's context must be current.
    #[cold]
    fn wait_for_each(&self) -> HashSet<ListId> {
        let mut state = self.lock();
        let mut unknown = HashSet::new();
        if state.timeline.awaits_context(ListId::ANY_STREAM) {
            // If none can be recorded, as while a stream is under capture, those lists stay
            // unsealed.
            let _ignored = state.seal_context();
        }
        let lists: Vec<ListId> = state.timeline.lists().collect();
        for list in lists {
            // If no event can be recorded, as on a stream under capture, the list stays unsealed.
            let _ignored = state.seal_late(list);
            let waited = state.timeline.synchronize(list);
            if waited.is_err() || state.timeline.is_unsealed(list) {
                unknown.insert(list);
            }
        }
        // No event covers the quarantine; only a wait for the device would.
        unknown.extend(state.quarantine());
        unknown
    }
}

impl PoolState {
    /// The upstream blocks that may be released at the end: those without a block that is live,
    /// reserved for a graph, or free in one of the `unknown` lists. O(blocks + pieces).
    fn blocks_to_release(&self, unknown: &HashSet<ListId>) -> Vec<UpstreamBlock> {
        let stays = |block: &Block| block.free_in.is_none_or(|list| unknown.contains(&list));
        let pieces = self.heap.pieces_without(stays);
        pieces.into_iter().map(|piece| self.upstream_block(piece)).collect()
    }
}
