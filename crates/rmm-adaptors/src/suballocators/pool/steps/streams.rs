//! Streams join a pool, leave events in it, retire, and are forgotten.

use rmm_core::{
    Context, CudaStream, Error, RelaxedCapture, RetiringStream, StreamKind, StreamLifetime,
    StreamRef, StreamWatcher,
};

use crate::suballocators::pool::state::core::PoolCore;
use crate::suballocators::pool::state::pool_state::{PoolState, RECLAIM_BATCH};
use crate::suballocators::pool::timeline::RecordPolicy;
use crate::suballocators::pool::values::units::ListId;

/// Slots in use above which a new stream first sweeps slots of streams that are gone.
const SWEEP_ABOVE: usize = 32;

/// How many slots a new stream sweeps. More than one, so that slots are freed faster than they are
/// taken; few, so that a new stream costs the same however many there are.
const SWEEP_LEN: usize = 4;

impl PoolCore {
    /// The list of a stream. A stream that is new to the pool gets one, and notifies the pool when
    /// it retires.
    ///
    /// # Errors
    /// For a stream of another context.
    #[inline]
    pub(crate) fn list_of(
        &self,
        state: &mut PoolState,
        stream: StreamRef<'_>,
    ) -> Result<ListId, Error> {
        let known = state.timeline.find(stream.id());
        known.map_or_else(|| self.join(state, stream), Ok)
    }

    /// Gives a stream that is new to the pool a list.
    #[cold]
    fn join(&self, state: &mut PoolState, stream: StreamRef<'_>) -> Result<ListId, Error> {
        let context = stream.context()?;
        if context != self.context {
            return Err(other_context(self.context, context));
        }
        if state.timeline.slots_in_use() >= SWEEP_ABOVE {
            self.sweep(state);
        }
        let policy = match stream.kind() {
            StreamKind::Owned | StreamKind::Adopted(StreamLifetime::UntilDropped) => {
                RecordPolicy::OnDemand
            }
            // The stream exists while the pool does, by the program's promise.
            StreamKind::Adopted(_) if self.streams_outlive => RecordPolicy::OnDemand,
            StreamKind::Legacy if stream.id() == StreamRef::legacy().id() => RecordPolicy::Fenced,
            // Only its own work uses the memory, which is done before that of the next block.
            StreamKind::Legacy => RecordPolicy::OnDemand,
            StreamKind::PerThread => RecordPolicy::PerThread,
            _ => RecordPolicy::Unknown,
        };
        let idle_tells = stream.as_stream().is_non_blocking();
        let (list, is_new) = state.timeline.add(stream.id(), stream.as_raw(), policy, idle_tells);
        if is_new {
            let made = state.heap.add_list();
            debug_assert_eq!(made, list, "slots and lists are made together");
        }
        stream.as_stream().watch(self.this.clone());
        Ok(list)
    }

    /// Records an event on the stream of a list, in a call that was given the stream. Returns
    /// whether there is one now.
    pub(crate) fn seal_at_free(
        &self,
        state: &mut PoolState,
        list: ListId,
        stream: StreamRef<'_>,
    ) -> bool {
        let Ok(_context) = self.context.enter() else { return false };
        // SAFETY: the stream is borrowed.
        if unsafe { CudaStream::may_be_capturing_raw(stream.as_raw()) } {
            return false;
        }
        let _relaxed = RelaxedCapture::enter();
        // What is complete becomes idle, for other streams. For its own stream it is in parts then:
        // it does not coalesce with what is freed beside it.
        if !state.timeline.is_alone() {
            state.timeline.poll(list);
        }
        state.timeline.seal(list, |event| event.record(stream)).is_ok()
    }

    /// Frees the slots, among the next few, of streams that may be gone and whose lists are empty
    /// once the driver was asked what is complete.
    #[cold]
    fn sweep(&self, state: &mut PoolState) {
        let Ok(_context) = self.context.enter() else { return };
        let _relaxed = RelaxedCapture::enter();
        state.timeline.poll_context();
        if state.timeline.is_context_event_due() {
            // If none can be recorded the slots stay.
            let _ignored = state.seal_context();
        }
        for _ in 0..SWEEP_LEN {
            let Some(list) = state.timeline.next_to_sweep() else { continue };
            if let Some(stream) = state.timeline.stream(list) {
                self.caches.flush_all(Some(stream), |stream, flushed| {
                    state.take_back_flushed(stream, flushed);
                });
                state.flush_transfer(Some(list));
            }
            if !state.heap.is_empty(list) {
                state.timeline.poll(list);
                state.heap.reclaim(list, state.timeline.done(list), RECLAIM_BATCH);
            }
            if state.heap.is_empty(list) {
                state.timeline.recycle(list);
            }
        }
    }
}

impl StreamWatcher for PoolCore {
    fn stream_retires(&self, stream: &RetiringStream<'_>) {
        let mut state = self.lock();
        let Some(list) = state.timeline.find(stream.id()) else { return };
        self.caches.flush_all(Some(stream.id()), |stream, flushed| {
            state.take_back_flushed(stream, flushed);
        });
        state.flush_transfer(Some(list));
        if state.timeline.is_unsealed(list)
            && let Ok(_context) = self.context.enter()
        {
            // If it fails, only a wait for the whole device can show that the blocks are idle.
            let _ignored = state.timeline.seal(list, |event| stream.record(event));
        }
        state.timeline.retire(list);
        if state.heap.is_empty(list) {
            state.timeline.recycle(list);
        }
    }
}

/// Why a stream of the context `its` is refused by a pool of the context `own`.
#[cold]
fn other_context(own: Context, its: Context) -> Error {
    let ended = own.check().and_then(|()| its.check()).err();
    ended.unwrap_or_else(|| {
        let message = "the stream belongs to another context than the pool: to another device, a \
                       green context, or one made by cuCtxCreate; build a pool with that context \
                       current";
        Error::invalid_argument("pool", message)
    })
}
