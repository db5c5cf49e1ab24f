//! A pool without its upstream's type: the lock, who may use it, and what a free does.

use std::alloc::Layout;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, Weak};

use rmm_core::{
    Annotator, CUDA_ALLOCATION_ALIGNMENT, CaptureScope, Context, CudaStream, Device, DevicePtr,
    Error, RelaxedCapture, RetiringStream, StreamKind, StreamLifetime, StreamRef, StreamWatcher,
    SyncResource,
};
use rmm_sys::{CuResult, watch};

use super::caches::{Cached, Caches, Class, Put, Take};
use super::captured::{asks_captured, is_captured};
use super::growth::Growth;
use super::heap::{GRANULE, ListId};
use super::order::Sealing;
use super::slow::Request;
use super::state::{CLEANED_AT_ONCE, State};
use super::statistics::PoolStatistics;
use crate::sync::fence::Fences;
use crate::trace;

/// Slots in use above which those of streams that are gone are looked for when a new stream comes.
const STREAMS_KEPT: usize = 32;

/// How many slots a new stream has looked at. More than one, so that slots are found faster than
/// they are taken; few, so that a new stream costs the same however many there are.
const SLOTS_SWEPT: usize = 4;

/// What changes with every use of the lock, apart from what the threads that do without it read:
/// else each would have to fetch that anew.
#[derive(Debug)]
#[repr(align(128))]
struct Apart<T>(T);

#[derive(Debug)]
pub(super) struct Shared {
    /// Whoever has one of them locked waits for no other lock.
    pub(super) caches: Caches,
    state: Apart<Mutex<State>>,
    /// Signalled when a call to upstream has ended.
    pub(super) settled: Condvar,
    pub(super) growth: Growth,
    /// The resource's name, for messages.
    pub(super) name: &'static str,
    pub(super) annotator: Annotator,
    /// Whether a block is looked for in the heap before it is cached.
    checks_frees: bool,
    /// Whether it is time to look for memory to give back.
    pub(super) release_is_due: AtomicBool,
    /// Where the memory, and all streams and events of this pool, belong.
    pub(super) context: Context,
    /// The process's [watch word](rmm_sys::watch) as it is while nothing concerns this pool: as
    /// many contexts have ended as when its own was last seen to work, and no capture is announced.
    calm: AtomicU64,
    /// The pool itself, for the streams that it watches.
    this: Weak<Self>,
}

impl Shared {
    pub(super) fn new(
        name: &'static str,
        growth: Growth,
        cached: Cached,
        fences: Fences,
        checks_frees: bool,
        context: Context,
        this: Weak<Self>,
    ) -> Self {
        Self {
            caches: Caches::new(cached, fences),
            state: Apart(Mutex::new(State::new())),
            settled: Condvar::new(),
            growth,
            name,
            annotator: Annotator::new(name),
            checks_frees,
            release_is_due: AtomicBool::new(false),
            context,
            calm: AtomicU64::new(watch::ends(watch::word())),
            this,
        }
    }

    /// The state. A thread that panicked with the lock held was in code that leaves the state whole
    /// between its steps, and an allocator has to go on in `Drop`.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The size of the block for a layout.
    #[inline]
    fn block_size(&self, layout: Layout) -> Result<u64, Error> {
        let refused = || Error::out_of_memory(self.name).with_layout(layout);
        let size = padded_size(layout).ok_or_else(refused)?;
        match self.growth.block {
            None => Ok(size),
            Some(block) if size <= block => Ok(block),
            Some(block) => {
                let message = format!("{size} bytes, as aligned, are more than a block's {block}");
                Err(refused().with_source(Error::invalid_argument(self.name, message)))
            }
        }
    }

    /// The class of the blocks for a layout that is not empty, if they are cached.
    #[inline]
    fn class(&self, layout: Layout) -> Option<Class> {
        // An address is all that a cache knows of a block.
        let is_plain = layout.align() <= CUDA_ALLOCATION_ALIGNMENT;
        if is_plain { self.caches.class(layout.size() as u64) } else { None }
    }

    /// Whether nothing has happened that concerns every allocator of the process: one load and a
    /// comparison.
    #[inline]
    pub(super) fn is_calm(&self) -> bool {
        watch::word() == self.calm.load(Ordering::Relaxed)
    }

    /// Looks whether the pool's context still works, if one has ended since that was last known.
    ///
    /// # Errors
    /// If not: then the pool hands nothing out any more.
    #[cold]
    pub(super) fn look_after_context(&self) -> Result<(), Error> {
        let ends = watch::ends(watch::word());
        if ends != self.calm.load(Ordering::Relaxed) {
            self.context.check_works()?;
            self.calm.store(ends, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Whether a block of so many bytes is smaller than the class of its layout.
    fn is_odd(&self, layout: Layout, bytes: u64) -> bool {
        self.class(layout).is_some_and(|class| class.block_size() > bytes)
    }

    /// Allocates for a stream, or for anybody.
    #[inline]
    pub(super) fn allocate(
        &self,
        upstream: &dyn SyncResource,
        stream: Option<StreamRef<'_>>,
        layout: Layout,
    ) -> Result<DevicePtr, Error> {
        let class = self.class(layout);
        let mut taken = Take::NotHere;
        if let (Some(class), Some(stream)) = (class, stream)
            && self.is_calm()
        {
            taken = self.caches.take(stream.id(), class);
            if let Take::Done(address) = taken {
                let pointer = DevicePtr(address);
                self.annotator.allocated(pointer, layout, Some(stream));
                return Ok(pointer);
            }
        }
        self.allocate_from_heap(upstream, stream, layout, class.map(|class| (class, taken)))
    }

    /// Allocates a block of the class from the heap, or where memory is too scarce for that, one
    /// made to measure. `cached` is the class and what came of a request to a cache.
    #[inline(never)]
    fn allocate_from_heap(
        &self,
        upstream: &dyn SyncResource,
        stream: Option<StreamRef<'_>>,
        layout: Layout,
        cached: Option<(Class, Take)>,
    ) -> Result<DevicePtr, Error> {
        if !self.is_calm() {
            self.look_after_context()?;
        }
        let needed = self.block_size(layout)?;
        let size = cached.map_or(needed, |(class, _)| class.block_size());
        let allocated = self.allocate_block(upstream, stream, layout, size, cached);
        trace::tell_waits(self.name);
        if allocated.is_err() && size > needed {
            let pointer = self.allocate_block(upstream, stream, layout, needed, None)?;
            self.caches.note_odd();
            return Ok(pointer);
        }
        allocated
    }

    /// Allocates a block of `size` bytes from the heap.
    fn allocate_block(
        &self,
        upstream: &dyn SyncResource,
        stream: Option<StreamRef<'_>>,
        layout: Layout,
        size: u64,
        cached: Option<(Class, Take)>,
    ) -> Result<DevicePtr, Error> {
        let mut state = self.lock();
        let list = match stream {
            Some(stream) => self.list_of(&mut state, stream)?,
            None => ListId::CLEAN,
        };
        if let (Some(stream), Some((class, _))) = (stream, cached)
            && let Some(pointer) = self.take_batch(&mut state, stream, list, class)
        {
            drop(state);
            self.annotator.allocated(pointer, layout, Some(stream));
            return Ok(pointer);
        }
        let mut for_graph = is_captured(stream)?;
        let known = if for_graph { None } else { state.take_known(list, size) };
        // A capture that was not announced shows here at the latest, before anything is asked for
        // its sake.
        if known.is_none() && size <= self.growth.hard_limit {
            for_graph |= asks_captured(stream)?;
        }
        let node = if let Some(node) = known {
            if let (Some(stream), Some(cached)) = (stream, cached) {
                self.stock(&mut state, stream, list, cached);
            }
            node
        } else if let Some(stream) = stream.filter(|_| for_graph) {
            self.drain_caches(&mut state);
            state.take_for_graph(stream, layout, size)?
        } else {
            let calls = Cell::new(0);
            let request = Request { upstream, stream, list, layout, size, calls: &calls };
            let (guard, outcome) = self.allocate_slowly(state, request);
            state = guard;
            outcome?
        };
        let pointer = state.hand_out(node, layout.align().max(CUDA_ALLOCATION_ALIGNMENT) as u64);
        drop(state);
        // What a graph gets, any stream may use: it may be launched on any.
        self.annotator.allocated(pointer, layout, stream.filter(|_| !for_graph));
        Ok(pointer)
    }

    /// Takes memory back, in a stream's order or (with no stream) with all use of it completed.
    #[inline]
    pub(super) fn deallocate(
        &self,
        stream: Option<StreamRef<'_>>,
        pointer: DevicePtr,
        layout: Layout,
    ) {
        if !self.is_calm() && self.keeps(stream, pointer, layout) {
            return;
        }
        self.annotator.freed(pointer, layout, stream);
        let mut class = self.class(layout);
        if let (Some(its), Some(stream)) = (class, stream) {
            if self.checks_frees && !self.may_be_freed(its, pointer) {
                return;
            }
            match self.caches.put(stream.id(), its, pointer.0) {
                Put::Done => return,
                Put::Instead(other) => return self.pass_on(stream, other),
                Put::Full if its.is_exact() => class = None,
                Put::Full | Put::NotHere => {}
            }
        }
        self.deallocate_block(stream, pointer, class);
    }

    /// Keeps a block that no one else may have, and says so: one that is freed on a captured
    /// stream, or after the end of the context.
    #[cold]
    fn keeps(&self, stream: Option<StreamRef<'_>>, pointer: DevicePtr, layout: Layout) -> bool {
        if let Err(error) = self.look_after_context() {
            // The memory may have ended with the context, and others may be at its address.
            let is_there = self.lock().outlives_context;
            if is_there || error.code() != Some(CuResult::CONTEXT_IS_DESTROYED) {
                // All work of a context that is lost is over. Another error says nothing of it.
                let order = stream.filter(|_| !error.is_context_lost());
                self.annotator.freed(pointer, layout, order);
            }
            let mut state = self.lock();
            let lost = state.lost_list();
            self.take_back(&mut state, pointer, lost, self.class(layout));
            return true;
        }
        CaptureScope::is_announced() && self.keeps_for_graph(stream, pointer, layout)
    }

    /// Keeps a block that is freed on a captured stream, and says so.
    #[cold]
    fn keeps_for_graph(
        &self,
        stream: Option<StreamRef<'_>>,
        pointer: DevicePtr,
        layout: Layout,
    ) -> bool {
        // Memory of which that is not known stays allocated, too.
        let keeps = asks_captured(stream).unwrap_or(true);
        if keeps
            && let Some(bytes) = self.lock().keep_for_graph(pointer, layout)
            && self.is_odd(layout, bytes)
        {
            self.caches.forget_odd();
        }
        keeps
    }

    /// Whether a block with this address is handed out; counts it as unknown if not.
    #[cold]
    fn may_be_freed(&self, class: Class, pointer: DevicePtr) -> bool {
        let mut state = self.lock();
        let is_live = state.is_live(pointer)
            && !self.caches.contain(class, pointer.0)
            && !state.depot.contains(pointer.0);
        state.statistics.unknown_frees += u64::from(!is_live);
        is_live
    }

    /// Takes a block back into the heap, or into a new cache.
    #[inline(never)]
    pub(super) fn deallocate_block(
        &self,
        stream: Option<StreamRef<'_>>,
        pointer: DevicePtr,
        class: Option<Class>,
    ) {
        let mut state = self.lock();
        let Some(stream) = stream else {
            self.take_back(&mut state, pointer, ListId::CLEAN, class);
            return;
        };
        let Ok(list) = self.list_of(&mut state, stream) else {
            // A stream of another device, which this pool's events cannot mark, or one that the
            // driver does not tell of. Memory that cannot be waited for is not given to others: it
            // stays allocated.
            drop(state);
            if wait_for_uses(stream).is_ok() {
                self.take_back(&mut self.lock(), pointer, ListId::CLEAN, class);
            }
            return;
        };
        if let Some(class) = class
            && state.order.is_cached(list)
            && self.cache(&mut state, stream, list, class, pointer)
        {
            return;
        }
        if state.order.is_barrier(list) && !self.seal_at_free(&mut state, list, stream) {
            // Nothing stands between the block's former uses and its next on this stream.
            let unreachable = state.lost_list();
            self.take_back(&mut state, pointer, unreachable, class);
            return;
        }
        let Some(bytes) = self.take_back(&mut state, pointer, list, class) else { return };
        if state.order.note_free(list, bytes) {
            // If it fails the blocks stay this stream's own, until a later seal covers them.
            self.seal_at_free(&mut state, list, stream);
        }
    }

    /// Takes a block back into a list of the heap; returns its bytes.
    fn take_back(
        &self,
        state: &mut State,
        pointer: DevicePtr,
        list: ListId,
        class: Option<Class>,
    ) -> Option<u64> {
        let bytes = state.take_back(pointer, list)?;
        self.note_freed(state, bytes);
        if class.is_some_and(|class| class.block_size() > bytes) {
            self.caches.forget_odd();
        }
        Some(bytes)
    }

    /// What the pool has done so far.
    pub(super) fn statistics(&self) -> PoolStatistics {
        self.lock().statistics(&self.caches)
    }

    /// Records an event on the stream; says whether there is one now.
    pub(super) fn seal_at_free(
        &self,
        state: &mut State,
        list: ListId,
        stream: StreamRef<'_>,
    ) -> bool {
        let Ok(_context) = self.context.enter() else { return false };
        // SAFETY: the stream is borrowed.
        if unsafe { CudaStream::may_be_capturing_raw(stream.as_raw()) } {
            return false;
        }
        let _relaxed = RelaxedCapture::enter();
        state.order.poll(list);
        state.order.seal(list, |event| event.record(stream)).is_ok()
    }

    /// The list of a stream; a stream that is new to the pool gets one, and the pool gets to know
    /// when it retires.
    ///
    /// Fails for a stream of another context, and for a default stream while another context is
    /// current: its handle then means another stream.
    pub(super) fn list_of(
        &self,
        state: &mut State,
        stream: StreamRef<'_>,
    ) -> Result<ListId, Error> {
        let context = stream.own_context();
        if context.is_none() {
            let current = Context::current()?;
            if current != self.context {
                return Err(other_context(self.context, current));
            }
        }
        if let Some(list) = state.order.find(stream.id()) {
            return Ok(list);
        }
        if let Some(context) = context
            && context != self.context
        {
            return Err(other_context(self.context, context));
        }
        if state.order.slots_in_use() >= STREAMS_KEPT {
            self.sweep(state);
        }
        let sealing = match stream.kind() {
            StreamKind::Owned | StreamKind::Adopted(StreamLifetime::UntilDropped) => Sealing::Late,
            StreamKind::Legacy => Sealing::Barrier,
            // The per-thread default streams, which only their own thread can reach, and those that
            // may be gone at any time.
            _ => Sealing::AtFree,
        };
        let idle_tells = stream.as_stream().is_non_blocking();
        let (list, is_new) = state.order.add(stream.id(), stream.as_raw(), sealing, idle_tells);
        if is_new {
            let made = state.heap.add_list();
            debug_assert_eq!(made, list, "slots and lists are made together");
        }
        stream.as_stream().watch(self.this.clone());
        Ok(list)
    }

    /// Frees the slots of streams that may be gone and hold nothing here, among the next few, after
    /// asking the driver what is done of what they freed.
    #[cold]
    fn sweep(&self, state: &mut State) {
        for _ in 0..SLOTS_SWEPT {
            let Some(list) = state.order.next_to_sweep() else { continue };
            if !state.heap.is_empty(list)
                && let Ok(_context) = self.context.enter()
            {
                let _relaxed = RelaxedCapture::enter();
                state.order.poll(list);
                state.heap.clean(list, state.order.done(list), CLEANED_AT_ONCE);
            }
            if state.heap.is_empty(list) {
                state.order.recycle(list);
            }
        }
    }

    /// Frees the slots of all streams that may be gone and hold nothing here.
    fn sweep_all(state: &mut State) {
        let lists: Vec<ListId> = state.order.lists().collect();
        for list in lists {
            if state.order.may_be_gone(list) && state.heap.is_empty(list) {
                state.order.recycle(list);
            }
        }
    }

    /// Seals a stream from outside its own calls, if that can be done. The pool's context must be
    /// current.
    pub(super) fn seal_late(state: &mut State, list: ListId) -> Result<(), Error> {
        let Some(handle) = state.order.late_handle(list) else {
            return Err(Error::unsupported("pool", "the stream cannot be reached from here"));
        };
        // SAFETY: as below.
        if unsafe { CudaStream::may_be_capturing_raw(handle) } {
            return Err(Error::unsupported("pool", "the stream is being captured"));
        }
        state.order.seal(list, |event| {
            // SAFETY: `late_handle` gives a stream that exists until `Order::retire` is called for
            // it. That is done by `stream_retires`, before the stream is destroyed, and needs the
            // lock that is held here.
            unsafe { event.record_raw(handle) }
        })
    }

    /// Asks the driver what is done of what others than `list`'s owner freed. The pool's context
    /// must be current.
    pub(super) fn poll_others(state: &mut State, list: ListId) {
        let mut next = 0;
        while let Some(other) = state.heap.next_occupied(&mut next) {
            if other != list {
                Self::poll(state, other);
            }
        }
    }

    /// Asks the driver what is done of what was freed on a stream. If the stream is not idle it is
    /// sealed, so that its part up to now can be told apart next time. The pool's context must be
    /// current.
    pub(super) fn poll(state: &mut State, list: ListId) {
        if state.order.is_unsealed(list)
            && !state.heap.is_empty(list)
            && let Some(handle) = state.order.late_handle(list)
        {
            if state.order.idle_tells(list) {
                state.order.counts.queries += 1;
                // SAFETY: as in `seal_late`.
                let is_captured = unsafe { CudaStream::may_be_capturing_raw(handle) };
                // SAFETY: as in `seal_late`.
                if !is_captured && unsafe { CudaStream::is_idle_raw(handle) }.unwrap_or(false) {
                    state.order.finish_all(list);
                    return;
                }
            }
            // What cannot be sealed stays unknown; there are further steps.
            let _unknown = Self::seal_late(state, list);
        }
        state.order.poll(list);
    }

    /// Gives unused pieces back until no more than `keep` bytes are reserved. Returns the bytes
    /// given back.
    pub(super) fn trim(&self, upstream: &dyn SyncResource, keep: u64) -> u64 {
        let Ok(_context) = self.context.enter() else { return 0 };
        let _relaxed = RelaxedCapture::enter();
        let mut state = self.lock();
        self.drain_caches(&mut state);
        self.caches.shrink();
        state.depot.shrink();
        // The wait would spoil a capture.
        if !state.order.polls && !Self::may_capture(&state) {
            state = self.wait_for_device(state);
        }
        Self::poll_others(&mut state, ListId::CLEAN);
        state.clean_all();
        Self::sweep_all(&mut state);
        let bytes = self.give_back_beyond(state, upstream, keep);
        self.lock().shrink();
        bytes
    }
}

impl StreamWatcher for Shared {
    fn stream_retires(&self, stream: &RetiringStream<'_>) {
        let mut state = self.lock();
        let Some(list) = state.order.find(stream.id()) else { return };
        self.caches.drain(Some(stream.id()), |stream, address| {
            state.take_back_cached(stream, address);
        });
        state.empty_depot(Some(list));
        if state.order.is_unsealed(list)
            && let Ok(_context) = self.context.enter()
        {
            // If it fails the blocks cannot be waited for any more, only found free after a wait
            // for the whole device.
            let _unknown = state.order.seal(list, |event| stream.record(event));
        }
        state.order.retire(list);
        if state.heap.is_empty(list) {
            state.order.recycle(list);
        }
    }
}

/// Waits on this thread for all that a free on a stream comes after: the stream's work, and that of
/// the streams it orders itself with.
fn wait_for_uses(stream: StreamRef<'_>) -> Result<(), Error> {
    if stream.as_stream().is_non_blocking() {
        return stream.synchronize();
    }
    let _context = stream.own_context().map(Context::enter).transpose()?;
    Device::synchronize_current()
}

/// Why a stream of the context `its` is refused by a pool of the context `own`.
#[cold]
fn other_context(own: Context, its: Context) -> Error {
    let ended = own.check().and_then(|()| its.check()).err();
    ended.unwrap_or_else(|| {
        Error::invalid_argument("pool", "the stream belongs to another device than the pool")
    })
}

/// The bytes to take for a layout: whole granules, with room to align beyond them.
#[inline]
pub(crate) fn padded_size(layout: Layout) -> Option<u64> {
    let slack = (layout.align() as u64).saturating_sub(GRANULE);
    (layout.size() as u64).checked_add(slack)?.checked_next_multiple_of(GRANULE)
}
