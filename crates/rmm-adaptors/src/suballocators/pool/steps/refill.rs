//! Between the thread caches and the heap: refill and flush, with the lock held, several blocks at
//! a time.

#![forbid(unsafe_code)]

use rmm_core::{CaptureScope, DevicePtr, StreamRef};

use crate::suballocators::pool::caches::transfer::BATCH_LEN;
use crate::suballocators::pool::caches::{CachedBlock, Class, Put, Refused, Take};
use crate::suballocators::pool::state::core::PoolCore;
use crate::suballocators::pool::state::pool_state::PoolState;
use crate::suballocators::pool::state::session::Session;
use crate::suballocators::pool::values::units::ListId;

/// Caches that are flushed before other threads may have the lock: up to 12,288 blocks, one heavy
/// fence.
const FLUSHED_TOGETHER: usize = 4;

impl PoolCore {
    /// Sees whether threads wait for each other.
    #[inline]
    pub(crate) fn note_contention(&self, state: &mut PoolState) {
        let operations = state.operations();
        self.caches.set_contended(state.contention.note(operations, || self.state.waits()));
    }

    /// Bounds what the caches hold. Returns whether they may hold more now.
    fn set_capacity(&self, state: &PoolState) -> bool {
        let peak = state.statistics.peak_live_bytes;
        self.caches.set_capacity_from(state.heap.reserved(), peak, state.operations())
    }

    /// Creates a cache for the stream on this thread, if it can have one.
    pub(crate) fn make_cache(&self, state: &mut PoolState, stream: StreamRef<'_>) {
        self.set_capacity(state);
        self.caches.make(stream.id(), |stream, flushed| {
            state.take_back_flushed(stream, flushed);
        });
        if self.caches.are_passed_by() {
            // What is in them would be out of reach until memory is short.
            self.flush_caches(state);
        }
    }

    /// Makes many blocks of the class available to this thread's cache at once, and takes one:
    /// those that only wait for an event, or a batch of the transfer cache that the stream may use.
    #[inline]
    pub(crate) fn take_many(
        &self,
        state: &mut PoolState,
        stream: StreamRef<'_>,
        list: ListId,
        (class, taken): (Class, Take),
    ) -> Option<DevicePtr> {
        if taken == Take::Unfenced
            && let Some(pointer) = self.take_fenced(state, stream, list, class)
        {
            return Some(pointer);
        }
        if state.transfer.is_empty() || CaptureScope::is_announced() {
            return None;
        }
        self.take_batch_from_transfer(state, stream, list, class)
    }

    #[cold]
    fn take_batch_from_transfer(
        &self,
        state: &mut PoolState,
        stream: StreamRef<'_>,
        list: ListId,
        class: Class,
    ) -> Option<DevicePtr> {
        let timeline = &state.timeline;
        let usable = |other, point| point <= timeline.visible_to(list, other);
        let mut batch = state.transfer.take(class, usable)?;
        let taken = batch.addresses.pop();
        state.statistics.allocations += u64::from(taken.is_some());
        self.make_cache(state, stream);
        while let Some(address) = batch.addresses.pop() {
            if !self.caches.add(stream.id(), class, address) {
                batch.addresses.push(address);
                break;
            }
        }
        state.take_back_batch(batch);
        taken.map(DevicePtr)
    }

    /// Records an event on the legacy default stream, whose list is `list`, after which all that
    /// was freed there before may be used again: what is in the heap, and this thread's cache.
    /// Returns whether there is one.
    pub(crate) fn fence(&self, state: &mut PoolState, stream: StreamRef<'_>, list: ListId) -> bool {
        let is_fenced = self.seal_at_free(state, list, stream);
        if is_fenced {
            self.caches.promote(stream.id());
        }
        is_fenced
    }

    /// Takes a block of the class from this thread's cache, after an event made its blocks
    /// available.
    #[cold]
    pub(crate) fn take_fenced(
        &self,
        state: &mut PoolState,
        stream: StreamRef<'_>,
        list: ListId,
        class: Class,
    ) -> Option<DevicePtr> {
        if !self.fence(state, stream, list) {
            return None;
        }
        match self.caches.take(stream.id(), class) {
            Take::Done(address) => Some(DevicePtr(address)),
            _ => None,
        }
    }

    /// Answers a miss that the heap has served: creates the cache, or has blocks of the class come
    /// to it that leave caches of other threads.
    #[inline]
    pub(crate) fn answer_miss(
        &self,
        state: &mut PoolState,
        stream: StreamRef<'_>,
        (class, taken): (Class, Take),
    ) {
        match taken {
            Take::NotHere if self.caches.are_passed_by() => {}
            Take::NotHere => self.make_cache(state, stream),
            Take::Short => state.transfer.record_demand(class),
            Take::Missed | Take::Unfenced | Take::Done(_) => {}
        }
    }

    /// Puts a block, which this thread's cache for the stream has refused, into it after all: where
    /// it has room by now, as `has_flushed` another cache may have left; else it is created, or
    /// some of its blocks are flushed, or the grant of another one is taken back. Returns whether
    /// the block is in the cache. The stream has not retired.
    pub(crate) fn put_in_cache(
        &self,
        state: &mut PoolState,
        stream: StreamRef<'_>,
        list: ListId,
        pointer: DevicePtr,
        (class, mut refused): (Class, Refused),
        has_flushed: bool,
    ) -> bool {
        if self.caches.are_passed_by() {
            return false;
        }
        if self.set_capacity(state) || has_flushed {
            match self.put_under_lock(state, stream, class, pointer) {
                Put::Refused(why) => refused = why,
                put => return put == Put::Done,
            }
        }
        match refused {
            // It has no place in any cache, whatever else leaves this one.
            Refused::Full if !self.caches.may_hold(class) => return false,
            Refused::Full => self.flush(state, stream, list, class),
            Refused::Starved => self.caches.take_grant_back(|stream, flushed| {
                state.take_back_flushed(stream, flushed);
            }),
            Refused::NotHere => self.make_cache(state, stream),
        }
        self.put_under_lock(state, stream, class, pointer) == Put::Done
    }

    /// Puts a block into this thread's cache for the stream, and another one, that has left it for
    /// that, into the heap.
    fn put_under_lock(
        &self,
        state: &mut PoolState,
        stream: StreamRef<'_>,
        class: Class,
        pointer: DevicePtr,
    ) -> Put {
        let mut evicted = None;
        let put = self.caches.put(stream.id(), class, pointer.0, &mut evicted);
        if let Some(block) = evicted
            && let Some(list) = state.take_back_cached(stream.id(), block)
        {
            self.seal_at_free(state, list, stream);
        }
        put
    }

    /// Frees a block that left this thread's cache for the stream into the heap.
    #[inline(never)]
    pub(crate) fn flush_one(&self, stream: StreamRef<'_>, block: CachedBlock) {
        let mut state = self.lock();
        if let Some(list) = state.take_back_cached(stream.id(), block) {
            self.seal_at_free(&mut state, list, stream);
        }
    }

    /// Flushes some blocks of this thread's cache for the stream: to the transfer cache, or to the
    /// heap.
    fn flush(&self, state: &mut PoolState, stream: StreamRef<'_>, list: ListId, class: Class) {
        let mut flushed = [CachedBlock::default(); BATCH_LEN];
        let (flushed, of_class) = self.caches.flush(stream.id(), class, &mut flushed);
        let release = (list, state.timeline.open(list));
        let addresses = flushed.iter().map(|block| block.address);
        let mut is_due = false;
        if of_class == BATCH_LEN
            && !class.is_large()
            && state.transfer.offer(class, release, addresses, self.caches.capacity())
        {
            state.statistics.flushed_blocks += flushed.len() as u64;
            for _ in flushed {
                is_due |= state.timeline.note_free(list, class.block_size());
            }
        } else {
            for &block in flushed {
                is_due |= state.take_back_cached(stream.id(), block).is_some();
            }
        }
        if is_due {
            self.seal_at_free(state, list, stream);
        }
    }

    /// Flushes the large blocks of all thread caches to the heap, and dissolves all spans.
    pub(crate) fn flush_large_blocks_and_spans(&self, state: &mut PoolState) {
        self.flush_large_blocks(state);
        self.dissolve_all_spans(state);
    }

    /// Flushes the large blocks of all thread caches to the heap. Spans stay.
    pub(crate) fn flush_large_blocks(&self, state: &mut PoolState) {
        self.caches.flush_large(|stream, flushed| {
            state.take_back_flushed(stream, flushed);
        });
    }

    /// Flushes the next cache if it is [low tide](crate::suballocators::pool::values::tide), or
    /// sees whether it is. Returns whether it has flushed one.
    #[inline]
    pub(crate) fn follow_tide(&self, state: &mut PoolState) -> bool {
        if !self.caches.follows_demand() {
            return false;
        }
        if let Some(slot) = state.tide.next_slot() {
            self.flush_at_low_tide(state, slot);
            return true;
        }
        // What is free in spans counts as used: to add it up takes too long for each free.
        let cached = self.caches.granted_to_blocks() + state.transfer.bytes();
        let used = state.heap.live().saturating_sub(cached);
        state.tide.note_use(used, state.heap.reserved(), state.operations());
        false
    }

    #[cold]
    fn flush_at_low_tide(&self, state: &mut PoolState, mut slot: usize) {
        let has_more = self.caches.flush_next(&mut slot, 1, |stream, flushed| {
            state.take_back_flushed(stream, flushed);
        });
        if !has_more {
            state.flush_transfer(None);
        }
        state.tide.go_on_at(has_more.then_some(slot));
    }

    /// Flushes all thread caches and the transfer cache to the heap, without releasing the lock.
    pub(crate) fn flush_caches(&self, state: &mut PoolState) {
        self.caches.flush_all(None, |stream, flushed| {
            state.take_back_flushed(stream, flushed);
        });
        state.flush_transfer(None);
    }
}

impl Session<'_> {
    /// Flushes all thread caches and the transfer cache to the heap. Threads that wait for the lock
    /// have it now and then.
    pub(crate) fn flush_caches(&mut self) {
        let core = self.core;
        let mut next = 0;
        let flush = |session: &mut Self, next: &mut usize| {
            core.caches.flush_next(next, FLUSHED_TOGETHER, |stream, flushed| {
                session.take_back_flushed(stream, flushed);
            })
        };
        while flush(self, &mut next) {
            self.pause();
        }
        // What threads have cached meanwhile.
        core.flush_caches(self);
    }
}
