//! A pool without its upstream's type: the lock, and the steps of allocation in their order.

use std::alloc::Layout;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, Weak};

use rmm_core::{
    CUDA_ALLOCATION_ALIGNMENT, CudaStream, Device, DevicePtr, Error, RetiringStream, StreamKind,
    StreamLifetime, StreamRef, StreamWatcher, SyncResource, driver_in_context,
};
use rmm_sys::CuContext;

use super::growth::Growth;
use super::heap::{GRANULE, ListId, NodeId};
use super::order::Sealing;
use super::state::{Chunk, State};

/// Streams with a slot above which idle ones are forgotten when a new one comes.
const STREAMS_KEPT: usize = 32;

#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    /// Signalled when somebody has come back from upstream.
    grown: Condvar,
    growth: Growth,
    /// The context whose streams and events this pool may use.
    context: CuContext,
    /// The pool itself, for the streams that it watches.
    this: Weak<Shared>,
}

/// A request on its way through the steps.
#[derive(Clone, Copy)]
struct Request<'a> {
    upstream: &'a dyn SyncResource,
    /// The stream whose work will use the memory; `None` if anybody may, at once.
    stream: Option<StreamRef<'a>>,
    /// The stream's list, or the clean one.
    list: ListId,
    layout: Layout,
    /// Bytes, a multiple of the granule, with room for the alignment.
    size: u64,
}

/// The block, or why there is none, with the lock that was held.
type Outcome<'s, E> = (MutexGuard<'s, State>, Result<NodeId, E>);

impl Shared {
    pub(super) fn new(growth: Growth, context: CuContext, this: Weak<Self>) -> Self {
        Self { state: Mutex::new(State::new()), grown: Condvar::new(), growth, context, this }
    }

    /// The state. A thread that panicked with the lock held was in code that leaves the state whole between its steps, and an
    /// allocator has to go on in `Drop`.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn growth(&self) -> &Growth {
        &self.growth
    }

    /// Allocates for a stream, or for anybody.
    pub(super) fn allocate(
        &self,
        upstream: &dyn SyncResource,
        stream: Option<StreamRef<'_>>,
        layout: Layout,
    ) -> Result<DevicePtr, Error> {
        let size =
            block_size(layout).ok_or_else(|| Error::out_of_memory("pool").with_layout(layout))?;
        let mut state = self.lock();
        let list = stream.map_or(ListId::CLEAN, |stream| self.list_of(&mut state, stream));
        let node = if let Some(node) = state.take_known(list, size) {
            node
        } else {
            let request = Request { upstream, stream, list, layout, size };
            let (guard, outcome) = self.allocate_slowly(state, request);
            state = guard;
            outcome?
        };
        Ok(state.hand_out(node, layout.align().max(CUDA_ALLOCATION_ALIGNMENT) as u64))
    }

    /// Takes memory back, in a stream's order or (with no stream) with all use of it completed.
    pub(super) fn deallocate(&self, stream: Option<StreamRef<'_>>, pointer: DevicePtr) {
        let mut state = self.lock();
        let Some(stream) = stream else {
            state.take_back(pointer, ListId::CLEAN);
            return;
        };
        let list = self.list_of(&mut state, stream);
        let Some(bytes) = state.take_back(pointer, list) else { return };
        if state.order.note_free(list, bytes) && self.is_current() {
            state.order.poll(list);
            // If it fails the blocks stay this stream's own, until a later seal covers them.
            let _stays_unknown = state.order.seal(list, |event| event.record(stream));
        }
    }

    /// Whether the calling thread's context is the pool's. Another one's default streams and events are not ours to use.
    fn is_current(&self) -> bool {
        driver_in_context().is_ok_and(|(_, context)| context == self.context)
    }

    /// The list of a stream; a stream that is new to the pool gets one, and the pool gets to know when it retires.
    fn list_of(&self, state: &mut State, stream: StreamRef<'_>) -> ListId {
        if let Some(list) = state.order.find(stream.id()) {
            return list;
        }
        if state.order.streams() >= STREAMS_KEPT {
            self.forget_idle(state);
        }
        let sealing = match stream.kind() {
            StreamKind::Legacy
            | StreamKind::Owned
            | StreamKind::Adopted(StreamLifetime::UntilDropped) => Sealing::Late,
            // The per-thread default streams, which only their own thread can reach, and those that may be gone at any time.
            _ => Sealing::AtFree,
        };
        let (list, is_new) = state.order.add(stream.id(), stream.as_raw(), sealing);
        if is_new {
            let made = state.heap.add_list();
            debug_assert_eq!(made, list, "slots and lists are made together");
        }
        stream.as_stream().watch(self.this.clone());
        list
    }

    /// Frees the slots of streams that hold nothing here.
    fn forget_idle(&self, state: &mut State) {
        self.poll_others(state, ListId::CLEAN);
        state.clean_all();
        for list in state.order.lists() {
            if state.heap.is_empty(list) && !state.order.is_unsealed(list) {
                state.order.recycle(list);
            }
        }
    }

    /// Seals a stream from outside its own calls, if that can be done.
    fn seal_late(&self, state: &mut State, list: ListId) -> Result<(), Error> {
        let Some(handle) = state.order.late_handle(list) else {
            return Err(Error::unsupported("pool", "the stream can not be reached from here"));
        };
        if !self.is_current() {
            return Err(Error::unsupported("pool", "another device than the pool's is current"));
        }
        state.order.seal(list, |event| {
            // SAFETY: `late_handle` gives a stream that exists until `Order::retire` is called for it. That is done by
            // `stream_retires`, before the stream is destroyed, and needs the lock that is held here.
            unsafe { event.record_raw(handle) }
        })
    }

    /// Asks the driver what is done of what others than `list`'s owner freed.
    fn poll_others(&self, state: &mut State, list: ListId) {
        for other in state.order.lists() {
            if other != list {
                self.poll(state, other);
            }
        }
    }

    /// Asks the driver what is done of what was freed on a stream. If the stream is not idle it is sealed, so that its part up
    /// to now can be told apart next time.
    fn poll(&self, state: &mut State, list: ListId) {
        if state.order.is_unsealed(list)
            && !state.heap.is_empty(list)
            && self.is_current()
            && let Some(handle) = state.order.late_handle(list)
        {
            state.order.counts.queries += 1;
            // SAFETY: as in `seal_late`.
            if unsafe { CudaStream::is_idle_raw(handle) }.unwrap_or(false) {
                state.order.finish_all(list);
                return;
            }
            // What can not be sealed stays unknown; there are further steps.
            let _unknown = self.seal_late(state, list);
        }
        state.order.poll(list);
    }

    /// The steps that cost a driver call: polling, growth to the soft limit, a wait on the stream, growth to the hard limit, a
    /// wait on the host, giving back.
    #[cold]
    fn allocate_slowly<'s>(
        &'s self,
        mut state: MutexGuard<'s, State>,
        request: Request<'_>,
    ) -> Outcome<'s, Error> {
        let Request { list, size, .. } = request;
        loop {
            self.poll_others(&mut state, list);
            state.clean_all();
            if let Some(node) =
                state.take_known(list, size).or_else(|| state.take_fused(list, size))
            {
                return (state, Ok(node));
            }
            state = self.give_back_surplus(state, request);
            let (guard, grown) = self.grow(state, request, self.growth.soft_limit());
            state = guard;
            if let Ok(node) = grown {
                return (state, Ok(node));
            }
            if let Some(node) = self.take_by_waiting(&mut state, request) {
                return (state, Ok(node));
            }
            let (guard, grown) = self.grow(state, request, self.growth.hard_limit());
            state = guard;
            if let Ok(node) = grown {
                return (state, Ok(node));
            }
            let (guard, taken) = self.take_after_device_wait(state, request);
            state = guard;
            if let Some(node) = taken {
                return (state, Ok(node));
            }
            let (guard, grown) = self.give_back_and_grow(state, request);
            state = guard;
            let error = match grown {
                Ok(node) => return (state, Ok(node)),
                Err(error) => error,
            };
            if state.pending == 0 {
                let error = self.exhausted(&state, request, error);
                return (state, Err(error));
            }
            // Another thread's growth counted against the limit. It may have failed, or left something over.
            state = self.grown.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Gives unused pieces back if growth would leave the pool with much more than the program has ever used: a program whose
    /// requests grow would otherwise stack up pieces that are each too small. Never waits for work; what is still in use stays.
    fn give_back_surplus<'s>(
        &'s self,
        mut state: MutexGuard<'s, State>,
        request: Request<'_>,
    ) -> MutexGuard<'s, State> {
        let enough =
            Growth::enough(state.statistics.peak_live_bytes.max(state.heap.live() + request.size));
        if state.heap.reserved() + request.size <= enough {
            return state;
        }
        // The others' were asked about just now.
        if request.list != ListId::CLEAN {
            self.poll(&mut state, request.list);
        }
        state.clean_all();
        let mut chunks = Vec::new();
        for (segment, _) in state.heap.unused_segments() {
            if state.heap.reserved() + request.size <= enough {
                break;
            }
            chunks.extend(state.remove_chunk(segment));
        }
        if chunks.is_empty() {
            return state;
        }
        drop(state);
        give_back(request.upstream, &chunks);
        self.lock()
    }

    /// Asks upstream for more, with the lock released meanwhile, and takes the block out of it. `None` as the error means
    /// that the limit leaves no room.
    fn grow<'s>(
        &'s self,
        mut state: MutexGuard<'s, State>,
        request: Request<'_>,
        limit: u64,
    ) -> Outcome<'s, Option<Error>> {
        let held = state.heap.reserved() + state.pending;
        let Some(mut bytes) = Growth::chunk_size(held, request.size, limit) else {
            return (state, Err(None));
        };
        loop {
            let layout = match Layout::from_size_align(
                usize::try_from(bytes).unwrap_or(usize::MAX),
                CUDA_ALLOCATION_ALIGNMENT,
            ) {
                Ok(layout) => layout,
                Err(error) => {
                    return (state, Err(Some(Error::out_of_memory("pool").with_source(error))));
                }
            };
            state.pending += bytes;
            drop(state);
            let grown = request.upstream.allocate_sync(layout);
            state = self.lock();
            state.pending -= bytes;
            self.grown.notify_all();
            match grown {
                Ok(base) => {
                    state.add_chunk(Chunk { base, layout });
                    let taken = state.take_known(request.list, request.size);
                    return (state, taken.ok_or(None));
                }
                Err(error) if !error.is_out_of_memory() => return (state, Err(Some(error))),
                Err(error) => match Growth::smaller(bytes, request.size) {
                    Some(smaller) => bytes = smaller,
                    None => return (state, Err(Some(error))),
                },
            }
        }
    }

    /// Makes the stream wait for others, those with the most free memory first, until it gets a block.
    fn take_by_waiting(&self, state: &mut State, request: Request<'_>) -> Option<NodeId> {
        let stream = request.stream?;
        let mut others: Vec<ListId> = state
            .order
            .lists()
            .filter(|&other| other != request.list && !state.heap.is_empty(other))
            .collect();
        others
            .sort_by_key(|&other| (std::cmp::Reverse(state.heap.free_bytes(other)), other.index()));
        // First those that hold a block that fits, for its own point. Then all of them, for a run of neighbours.
        for whole in [false, true] {
            for &other in &others {
                let newest = state
                    .order
                    .open(other)
                    .saturating_sub(u64::from(!state.order.is_unsealed(other)));
                let point =
                    if whole { Some(newest) } else { state.heap.point_of_fit(other, request.size) };
                let Some(point) = point else { continue };
                if state.order.covered(request.list, other) >= point {
                    continue;
                }
                if !state.order.is_sealed_up_to(other, point)
                    && self.seal_late(state, other).is_err()
                {
                    continue;
                }
                if state.order.wait(request.list, other, point, |event| stream.wait(event)).is_err()
                {
                    continue;
                }
                if !whole && let Some(node) = state.take_known(request.list, request.size) {
                    return Some(node);
                }
            }
        }
        state.take_fused(request.list, request.size)
    }

    /// Waits on this thread until the device has done everything, after which all free memory is clean and merged.
    fn take_after_device_wait<'s>(
        &'s self,
        mut state: MutexGuard<'s, State>,
        request: Request<'_>,
    ) -> (MutexGuard<'s, State>, Option<NodeId>) {
        if !self.is_current() {
            return (state, None);
        }
        let cut = state.order.cut();
        state.statistics.host_waits += 1;
        drop(state);
        let waited = Device::synchronize_current();
        state = self.lock();
        if waited.is_ok() {
            state.order.finish_cut(&cut);
            state.clean_all();
        }
        let taken = state
            .take_known(request.list, request.size)
            .or_else(|| state.take_fused(request.list, request.size));
        (state, taken)
    }

    /// Gives every unused piece back to upstream and asks for one that is large enough.
    fn give_back_and_grow<'s>(
        &'s self,
        mut state: MutexGuard<'s, State>,
        request: Request<'_>,
    ) -> Outcome<'s, Option<Error>> {
        let unused = state.heap.unused_segments();
        let chunks: Vec<Chunk> =
            unused.into_iter().filter_map(|(segment, _)| state.remove_chunk(segment)).collect();
        drop(state);
        give_back(request.upstream, &chunks);
        self.grow(self.lock(), request, self.growth.hard_limit())
    }

    /// Gives unused pieces back until no more than `keep` bytes are reserved. Returns the bytes given back.
    pub(super) fn trim(&self, upstream: &dyn SyncResource, keep: u64) -> u64 {
        let mut state = self.lock();
        self.poll_others(&mut state, ListId::CLEAN);
        state.clean_all();
        let mut chunks = Vec::new();
        for (segment, size) in state.heap.unused_segments() {
            if state.heap.reserved() - size >= keep {
                chunks.extend(state.remove_chunk(segment));
            }
        }
        drop(state);
        give_back(upstream, &chunks);
        chunks.iter().map(|chunk| chunk.layout.size() as u64).sum()
    }

    /// Gives everything back: for the pool's end.
    pub(super) fn close(&self, upstream: &dyn SyncResource) {
        if self.is_current() {
            // Whoever freed memory did so in stream order: the device may still be at work on it. If this fails the device is
            // lost or gone, and nothing works on anything.
            let _lost = Device::synchronize_current();
        }
        let chunks: Vec<Chunk> = self.lock().drain_chunks().collect();
        give_back(upstream, &chunks);
    }

    #[cold]
    fn exhausted(&self, state: &State, request: Request<'_>, upstream: Option<Error>) -> Error {
        if let Some(error) = upstream
            && !error.is_out_of_memory()
        {
            return error;
        }
        let limit = Some(self.growth.hard_limit()).filter(|&limit| limit != u64::MAX);
        let error = Error::out_of_memory("pool")
            .with_layout(request.layout)
            .with_exhaustion(state.exhaustion(limit));
        request.stream.map(StreamRef::id).into_iter().fold(error, Error::with_stream)
    }
}

impl StreamWatcher for Shared {
    fn stream_retires(&self, stream: &RetiringStream<'_>) {
        let mut state = self.lock();
        let Some(list) = state.order.find(stream.id()) else { return };
        if state.order.is_unsealed(list) && self.is_current() {
            // If it fails the blocks can not be waited for any more, only found free after a wait for the whole device.
            let _unknown = state.order.seal(list, |event| stream.record(event));
        }
        state.order.retire(list);
        if state.heap.is_empty(list) {
            state.order.recycle(list);
        }
    }
}

/// Gives memory back upstream.
fn give_back(upstream: &dyn SyncResource, chunks: &[Chunk]) {
    for &Chunk { base, layout } in chunks {
        // SAFETY: the memory came from this upstream with this layout and is in no heap any more. All use of it has completed:
        // it was one clean block, or the whole device was waited for.
        unsafe { upstream.deallocate_sync(base, layout) };
    }
}

/// The bytes to take for a layout: whole granules, with room to align beyond them.
fn block_size(layout: Layout) -> Option<u64> {
    let slack = (layout.align() as u64).saturating_sub(GRANULE);
    (layout.size() as u64).checked_add(slack)?.checked_next_multiple_of(GRANULE)
}
