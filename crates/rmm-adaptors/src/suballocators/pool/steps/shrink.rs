//! Shrinking: idle upstream blocks are released to upstream, for a request that needs the room, by
//! [`trim`](crate::PoolMemoryResource::trim), or as the [release policy](crate::ReleasePolicy)
//! says.

#![forbid(unsafe_code)]

use std::panic::resume_unwind;
use std::sync::atomic::Ordering;

use rmm_core::{AnyResource, Effort, RelaxedCapture, fork};

use crate::suballocators::pool::state::core::PoolCore;
use crate::suballocators::pool::state::pool_state::PoolState;
use crate::suballocators::pool::state::session::{Request, Session};
use crate::suballocators::pool::state::upstream_block::UpstreamBlock;
use crate::suballocators::pool::values::policy::ReleasePolicy;
use crate::suballocators::pool::values::units::ListId;

/// A pool that grows waits for the device if it would otherwise hold this fraction more than it
/// should.
const WAITED_FOR_FRACTION: u64 = 64;

/// What such a wait costs: about a millisecond of the device's time, as much as this many
/// exchanges.
const EXCHANGES_PER_WAIT: u64 = 16;

impl Session<'_> {
    /// Releases idle upstream blocks if growth would leave the pool with much more than the program
    /// has ever used: a program whose requests grow would otherwise collect upstream blocks that
    /// are each too small. Never waits for work; what is still in use stays.
    pub(crate) fn release_surplus(&mut self, request: Request<'_>) {
        if self.core.growth.extends {
            // Growth in place does it later, when it is known how much is missing.
            return;
        }
        let most = self.core.growth.retain_target(self.peak_with(request.size));
        self.make_room(request, request.size, most, most);
    }

    /// Releases idle upstream blocks, until `missing` bytes more would leave the pool with no more
    /// than `most`, or with no more than `limit` and all pieces are exchanged that may be. Where
    /// that keeps much memory from being mapped, waits for the device once. Does nothing if the
    /// thread's effort does not allow a wait: the driver may wait before it takes memory back.
    pub(crate) fn make_room(&mut self, request: Request<'_>, missing: u64, most: u64, limit: u64) {
        let effort = Effort::current();
        if self.held_with(missing) <= most || !effort.may_wait() {
            return;
        }
        // The other lists were polled just now.
        if request.list != ListId::ANY_STREAM {
            self.poll(request.list);
        }
        self.reclaim_completed();
        self.release_for_room(request, missing, most, limit);
        // What the device still uses cannot be unmapped.
        let is_worth_a_wait = most < limit
            && self.held_with(missing) > most + most / WAITED_FOR_FRACTION
            && self.exchanges.allowed(self.operations()) >= EXCHANGES_PER_WAIT
            && self.timeline.polls
            && self.heap.idle_bytes() > 0;
        let has_time = effort.deadline().is_none();
        if is_worth_a_wait && has_time && self.may_wait_for_device() {
            self.exchanges.note(EXCHANGES_PER_WAIT);
            self.wait_for_device();
            self.release_for_room(request, missing, most, limit);
        }
    }

    /// Bytes that are held, or asked for, once `missing` are mapped. Requests may be as large as
    /// half of what the numbers hold, and several may be pending.
    fn held_with(&self, missing: u64) -> u64 {
        (self.heap.reserved() + self.pending).saturating_add(missing)
    }

    /// Releases pieces that are known to be idle, as [`make_room`](Self::make_room) says.
    fn release_for_room(&mut self, request: Request<'_>, missing: u64, most: u64, limit: u64) {
        let allowed =
            if most < limit { self.exchanges.allowed(self.operations()) } else { u64::MAX };
        let mut held = self.held_with(missing);
        let (mut pieces, mut count) = (self.heap.unused_pieces(), 0);
        pieces.retain(|piece| {
            let goes = held > limit || held > most && count < allowed;
            (held, count) = if goes { (held - piece.size, count + 1) } else { (held, count) };
            goes
        });
        self.exchanges.note(pieces.len() as u64);
        let blocks = self.remove_pieces(pieces);
        self.release_blocks(request.upstream, &blocks);
    }

    /// Releases idle upstream blocks, the largest first, while at least `keep` bytes stay reserved.
    /// Returns the bytes.
    fn release_idle_beyond(&mut self, upstream: &AnyResource<()>, keep: u64) -> u64 {
        let mut reserved = self.heap.reserved();
        let mut pieces = self.heap.unused_pieces();
        pieces.retain(|piece| {
            let goes = reserved - piece.size >= keep;
            reserved -= if goes { piece.size } else { 0 };
            goes
        });
        let blocks = self.remove_pieces(pieces);
        self.release_blocks(upstream, &blocks)
    }

    /// Releases blocks that are in the heap no more. Returns the bytes: less if callbacks do not
    /// let go of some.
    pub(crate) fn release_blocks(
        &mut self,
        upstream: &AnyResource<()>,
        blocks: &[UpstreamBlock],
    ) -> u64 {
        if blocks.is_empty() {
            return 0;
        }
        self.release_or_keep(upstream, blocks).unwrap_or_else(|panic| resume_unwind(panic))
    }
}

impl PoolCore {
    /// Releases idle upstream blocks until no more than `keep` bytes are reserved. Returns the
    /// bytes.
    pub(crate) fn trim(&self, upstream: &AnyResource<()>, keep: u64) -> u64 {
        if self.lock().is_trimmed(&self.caches) {
            return 0;
        }
        let Ok(_context) = self.context.enter() else { return 0 };
        let _relaxed = RelaxedCapture::enter();
        let mut session = Session::new(self);
        if !session.phase.is_awake() {
            drop(session);
            return self.release_left(upstream, keep);
        }
        session.flush_caches();
        self.caches.shrink();
        session.transfer.shrink();
        if !session.timeline.polls && session.may_wait_for_device() {
            session.wait_for_device();
        }
        session.poll_others(ListId::ANY_STREAM);
        session.reclaim_completed();
        session.sweep_all();
        let bytes = session.release_idle_beyond(upstream, keep);
        session.shrink();
        session.note_trimmed();
        bytes
    }

    /// Notes that `bytes` bytes were freed into the heap.
    #[inline]
    pub(crate) fn note_freed(&self, state: &mut PoolState, bytes: u64) {
        if state.release_is_due(self.growth.release, bytes) {
            self.release_is_due.store(true, Ordering::Relaxed);
        }
    }

    /// Releases memory if the release policy says that it is time.
    #[inline]
    pub(crate) fn release_if_due(&self, upstream: &AnyResource<()>) {
        if self.release_is_due.load(Ordering::Relaxed) {
            self.release_by_policy(upstream);
        }
    }

    /// Flushes all caches and releases what the policy does not keep. Returns the bytes.
    pub(crate) fn release_unused(&self, upstream: &AnyResource<()>) -> u64 {
        if fork::is_child() {
            return 0;
        }
        if self.growth.release == ReleasePolicy::Never && self.lock().idle_time.is_none() {
            return 0;
        }
        self.flush_caches(&mut self.lock());
        self.release_by_policy(upstream)
    }

    /// Releases what the policy does not keep, as far as it is known to be unused. Returns the
    /// bytes.
    #[cold]
    fn release_by_policy(&self, upstream: &AnyResource<()>) -> u64 {
        self.release_is_due.store(false, Ordering::Relaxed);
        let Ok(_context) = self.context.enter() else { return 0 };
        let _relaxed = RelaxedCapture::enter();
        let mut session = Session::new(self);
        if !session.phase.is_awake() {
            return 0;
        }
        if session.may_capture() {
            return 0;
        }
        let keep = session.restart_release(self.growth.release);
        if session.heap.reserved() <= keep {
            return 0;
        }
        self.dissolve_all_spans(&mut session);
        session.poll_others(ListId::ANY_STREAM);
        session.reclaim_completed();
        session.release_idle_beyond(upstream, keep)
    }
}
