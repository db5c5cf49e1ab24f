//! A free: into the thread's cache, else into a free list at the stream's current point.

#![forbid(unsafe_code)]

use std::alloc::Layout;

use rmm_core::known_contexts::wait_for_all_contexts;
use rmm_core::{CaptureScope, Context, Device, DevicePtr, Error, StreamRef, fork};
use rmm_sys::CuResult;

use crate::suballocators::pool::caches::{Class, Put, Refused};
use crate::suballocators::pool::state::core::PoolCore;
use crate::suballocators::pool::state::pool_state::PoolState;
use crate::suballocators::pool::state::probe::asks_captured;
use crate::suballocators::pool::values::units::ListId;

impl PoolCore {
    /// Takes memory back, in a stream's order or (with no stream) with all use of it completed.
    #[inline]
    pub(crate) fn deallocate(
        &self,
        stream: Option<StreamRef<'_>>,
        pointer: DevicePtr,
        layout: Layout,
    ) {
        if let Some(stream) = stream
            && self.is_identified(stream)
            && self.in_checked_epoch()
            && self.checks.is_none()
            && let Some(class) = self.small_class(layout)
        {
            self.annotator.freed(pointer, layout, Some(stream));
            if !self.caches.put_own(stream.id(), class, pointer.0) {
                self.deallocate_uncached(stream, pointer, class);
            }
            return;
        }
        self.deallocate_any(stream, pointer, layout);
    }

    /// Takes any block back, in a stream's order or (with no stream) with all use of it completed.
    #[inline(never)]
    fn deallocate_any(&self, stream: Option<StreamRef<'_>>, pointer: DevicePtr, layout: Layout) {
        if fork::is_child() {
            return;
        }
        let mut layout = layout;
        if let Some(checks) = &self.checks {
            let Some(own) = checks.check_free(pointer, layout) else {
                // A free of what is no block changes nothing. Where no function of the program has
                // got it, it is the checker's to report.
                if !checks.captures_callers() {
                    self.annotator.freed(pointer, layout, stream);
                }
                return;
            };
            layout = own;
        }
        // The handle may name another stream than at the last call.
        let identified = self.identified(stream);
        match (&identified, stream) {
            (Err(_), Some(stream)) => {
                return self.deallocate_unidentified(stream, pointer, layout);
            }
            (Ok(None), Some(stream)) => return self.deallocate_elsewhere(stream, pointer, layout),
            _ => {}
        }
        let stream = identified.unwrap_or(stream);
        if !self.in_checked_epoch() && self.withholds(stream, pointer, layout) {
            return;
        }
        self.annotator.freed(pointer, layout, stream);
        let class = self.class(layout);
        if let (Some(class), Some(stream)) = (class, stream)
            && self.caches.keeps(stream.id(), class)
        {
            return self.deallocate_uncached(stream, pointer, class);
        }
        self.deallocate_block(stream, pointer, class, None);
    }

    /// Takes back a block that is not in the thread's own cache, and whose free was annotated.
    #[inline(never)]
    fn deallocate_uncached(&self, stream: StreamRef<'_>, pointer: DevicePtr, class: Class) {
        let mut evicted = None;
        match self.caches.put(stream.id(), class, pointer.0, &mut evicted) {
            Put::Done => {
                if let Some(block) = evicted {
                    self.flush_one(stream, block);
                }
            }
            Put::Refused(why) => {
                self.deallocate_block(Some(stream), pointer, Some(class), Some(why));
            }
            Put::Never => self.deallocate_block(Some(stream), pointer, Some(class), None),
        }
    }

    /// Takes memory back on a stream that the driver does not know. Only a wait for the device
    /// shows that its uses are complete.
    #[cold]
    fn deallocate_unidentified(&self, stream: StreamRef<'_>, pointer: DevicePtr, layout: Layout) {
        if !self.in_checked_epoch() && self.withholds(Some(stream), pointer, layout) {
            return;
        }
        self.annotator.freed(pointer, layout, Some(stream));
        let mut state = self.lock();
        let quarantine = state.quarantine_list();
        self.take_back(&mut state, pointer, quarantine, self.class(layout));
    }

    /// Takes memory back on a default stream of another context.
    #[cold]
    fn deallocate_elsewhere(&self, stream: StreamRef<'_>, pointer: DevicePtr, layout: Layout) {
        if !self.in_checked_epoch() && self.withholds(Some(stream), pointer, layout) {
            return;
        }
        self.annotator.freed(pointer, layout, Some(stream));
        self.take_back_after_uses(stream, pointer, self.class(layout));
    }

    /// Takes memory back on a stream of another context, on which this pool's events cannot be
    /// recorded, or one that the driver does not know. If the wait fails the block stays allocated:
    /// its last use cannot be waited for.
    #[cold]
    fn take_back_after_uses(
        &self,
        stream: StreamRef<'_>,
        pointer: DevicePtr,
        class: Option<Class>,
    ) {
        if wait_for_uses(stream).is_ok() {
            let mut state = self.lock();
            let list = state.list_after_uses();
            self.take_back(&mut state, pointer, list, class);
        }
    }

    /// Withholds a block that no stream may reuse, and says whether it is one: a block freed on a
    /// stream under capture, or after the end of the context.
    #[cold]
    fn withholds(&self, stream: Option<StreamRef<'_>>, pointer: DevicePtr, layout: Layout) -> bool {
        if let Err(error) = self.check_contexts() {
            if self.is_left_without_context(&error) {
                // Work of another context may use it: then it stays allocated.
                if wait_for_all_contexts().is_err() {
                    return true;
                }
                self.annotator.freed(pointer, layout, None);
            } else if error.code() != Some(CuResult::CONTEXT_IS_DESTROYED) {
                // All work of a failed context is over. Another error says nothing about it.
                let ordered = stream.filter(|_| !error.is_context_lost());
                self.annotator.freed(pointer, layout, ordered);
            }
            // Else the memory has ended with the context, and another allocation may be at its
            // address.
            let mut state = self.lock();
            let quarantine = state.quarantine_list();
            self.take_back(&mut state, pointer, quarantine, self.class(layout));
            return true;
        }
        CaptureScope::is_announced()
            && !self.is_for_graphs()
            && self.withholds_for_graph(stream, pointer, layout)
    }

    /// Withholds a block that is freed on a stream under capture, and says whether it is one.
    #[cold]
    fn withholds_for_graph(
        &self,
        stream: Option<StreamRef<'_>>,
        pointer: DevicePtr,
        layout: Layout,
    ) -> bool {
        // If the driver cannot say whether the stream is under capture, keep the block.
        let withholds = asks_captured(stream).unwrap_or(true);
        if withholds
            && let Some(bytes) = self.keep_for_graph(pointer, layout)
            && self.is_undersized(layout, bytes)
        {
            self.caches.forget_undersized();
        }
        withholds
    }

    /// Takes a block back into the heap, or into the cache that has `refused` it, if that is made
    /// or gets room.
    #[inline(never)]
    pub(crate) fn deallocate_block(
        &self,
        stream: Option<StreamRef<'_>>,
        pointer: DevicePtr,
        class: Option<Class>,
        refused: Option<Refused>,
    ) {
        let mut state = self.lock();
        let Some(stream) = stream else {
            let list = state.list_after_uses();
            self.take_back(&mut state, pointer, list, class);
            return;
        };
        let Ok(list) = self.list_of(&mut state, stream) else {
            drop(state);
            return self.take_back_after_uses(stream, pointer, class);
        };
        let has_flushed = self.follow_tide(&mut state);
        if let (Some(class), Some(refused)) = (class, refused)
            && state.phase.is_awake()
            && self.put_in_cache(&mut state, stream, list, pointer, (class, refused), has_flushed)
        {
            return;
        }
        let Some(bytes) = self.take_back(&mut state, pointer, list, class) else { return };
        if !self.caches.keeps_large() && Class::is_large_size(bytes) {
            state.large_demand.note_free(list, bytes);
        }
        if state.timeline.note_free(list, bytes) {
            // If it fails the blocks stay this stream's own, until a later event covers them.
            self.seal_at_free(&mut state, list, stream);
        }
    }

    /// Takes a block back into a list of the heap; returns its bytes.
    pub(crate) fn take_back(
        &self,
        state: &mut PoolState,
        pointer: DevicePtr,
        list: ListId,
        class: Option<Class>,
    ) -> Option<u64> {
        self.dissolve_span_at(state, pointer);
        let bytes = state.take_back(pointer, list, class)?;
        self.note_freed(state, bytes);
        if class.is_some_and(|class| class.block_size() > bytes) {
            self.caches.forget_undersized();
        }
        Some(bytes)
    }
}

/// Waits on this thread for all work that a free on the stream comes after: the stream's, and that
/// of the streams it is implicitly ordered with.
fn wait_for_uses(stream: StreamRef<'_>) -> Result<(), Error> {
    if stream.as_stream().is_non_blocking() {
        return stream.synchronize();
    }
    let _context = stream.own_context().map(Context::enter).transpose()?;
    Device::synchronize_current()
}
