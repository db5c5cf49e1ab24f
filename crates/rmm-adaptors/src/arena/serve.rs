//! Allocation and free: the stream's arena first, else the global arena.

#![forbid(unsafe_code)]

use std::alloc::Layout;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rmm_core::{DevicePtr, Error, StreamRef, SyncResource, fork};

use super::arenas::Arenas;
use super::local;
use super::member::{Arena, Small};
use super::reclaim::Released;
use super::superblock::SUPERBLOCK;
use super::superblocks::FreeOutcome;
use crate::pool::{OnBehalfOf, Suballocator, padded_size};

impl Arenas {
    /// Calls `f` with the stream's arena, if it has one.
    #[inline]
    fn with_arena<T>(&self, stream: StreamRef<'_>, f: impl FnMut(&Arena) -> T) -> Option<T> {
        if !Suballocator::seals_late(stream) {
            return None;
        }
        local::with(self.number, stream.id(), f, || {
            let arenas = fork::read(&self.of_stream);
            arenas.get(&stream.id()).cloned()
        })
    }

    /// The stream's arena; creates it if there is none. `None` if the stream can have none.
    fn join(&self, stream: StreamRef<'_>) -> Result<Option<Arc<Arena>>, Error> {
        if !Suballocator::seals_late(stream) {
            return Ok(None);
        }
        let known = fork::read(&self.of_stream);
        if let Some(known) = known.get(&stream.id()) {
            return Ok(Some(Arc::clone(known)));
        }
        drop(known);
        if stream.is_per_thread_default() && !local::watch_exit(&self.link, stream.id()) {
            // The thread is ending.
            return Ok(None);
        }
        let mut arenas = fork::write(&self.of_stream);
        if let Some(known) = arenas.get(&stream.id()) {
            return Ok(Some(Arc::clone(known)));
        }
        let owner = self.base.join(stream)?;
        let arena = Arc::new(Arena::new(stream.id(), owner));
        arenas.insert(stream.id(), Arc::clone(&arena));
        drop(arenas);
        if !owner.is_bound() {
            stream.as_stream().watch(self.this.clone());
        }
        Ok(Some(arena))
    }

    pub(super) fn allocate(
        &self,
        upstream: &dyn SyncResource,
        stream: Option<StreamRef<'_>>,
        layout: Layout,
    ) -> Result<DevicePtr, Error> {
        self.base.check_memory()?;
        let stream = stream.and_then(|stream| self.base.in_context(stream));
        // Graphs are served by the global arena, which knows which memory no work uses.
        let small = if Suballocator::is_captured(stream)? { None } else { Small::of(layout) };
        let (Some(stream), Some(small)) = (stream, small) else {
            return self.allocate_globally(upstream, stream, layout);
        };
        let taken = self.with_arena(stream, |arena| arena.lock().allocate(&small)).flatten();
        let pointer = match taken {
            Some(pointer) => pointer,
            None => match self.allocate_slow(stream, &small)? {
                Some(pointer) => pointer,
                None => return self.allocate_globally(upstream, Some(stream), layout),
            },
        };
        self.base.annotator().allocated(pointer, layout, Some(stream));
        Ok(pointer)
    }

    /// Allocates a block from a new superblock, if the global arena has one without a wait.
    #[cold]
    fn allocate_slow(
        &self,
        stream: StreamRef<'_>,
        small: &Small,
    ) -> Result<Option<DevicePtr>, Error> {
        let Some(arena) = self.join(stream)? else { return Ok(None) };
        self.slow_allocations.fetch_add(1, Ordering::Relaxed);
        // Idle superblocks of this arena are too fragmented for the request.
        self.return_idle(&arena, OnBehalfOf::Stream(stream));
        let mut base = self.base.find_piece(stream, SUPERBLOCK)?;
        if base.is_none() {
            self.collect_idle(Some(stream));
            base = self.base.find_piece(stream, SUPERBLOCK)?;
        }
        let Some(base) = base else { return Ok(None) };
        let mut state = arena.lock();
        state.superblocks.add(base);
        self.address_map().add(base, SUPERBLOCK, Arc::clone(&arena));
        if state.is_closed {
            // Only the arena of a thread's own stream, in a destructor that runs as the thread
            // ends.
            self.return_superblocks(&mut state, &arena, &[base], OnBehalfOf::Other);
            return Ok(None);
        }
        Ok(state.allocate(small))
    }

    /// Allocates from the global arena, by all the steps of the pool. Before any stream waits, idle
    /// superblocks are returned to the global arena; before the request fails, all free memory of
    /// the arenas is.
    fn allocate_globally(
        &self,
        upstream: &dyn SyncResource,
        stream: Option<StreamRef<'_>>,
        layout: Layout,
    ) -> Result<DevicePtr, Error> {
        if let Some(size) = padded_size(layout)
            && let Some(pointer) = self.base.find(stream, layout, size)?
        {
            return Ok(pointer);
        }
        self.slow_allocations.fetch_add(1, Ordering::Relaxed);
        self.collect_idle(stream);
        match self.base.allocate(upstream, stream, layout) {
            Err(error) if error.is_out_of_memory() => {}
            outcome => return outcome,
        }
        self.dissolve_all(stream);
        self.base.allocate(upstream, stream, layout)
    }

    pub(super) fn deallocate(
        &self,
        stream: Option<StreamRef<'_>>,
        pointer: DevicePtr,
        layout: Layout,
    ) {
        if fork::is_child() {
            return;
        }
        let is_small = Small::of(layout).is_some();
        // If the driver cannot say whether the stream is under capture, keep the block.
        if Suballocator::is_captured(stream).unwrap_or(true) || self.base.check_contexts().is_err()
        {
            // The global arena handles frees during capture, and after the context was lost.
            if !is_small || matches!(self.transfer_to_global(pointer), Released::Global) {
                self.base.deallocate(stream, pointer, layout);
            }
            return;
        }
        self.base.annotator().freed(pointer, layout, stream);
        if is_small {
            if let Some(stream) = stream.and_then(|stream| self.base.in_context(stream))
                && self.with_arena(stream, |arena| self.free(arena, stream, pointer)) == Some(true)
            {
                return;
            }
            if matches!(self.transfer_to_global(pointer), Released::Unknown) {
                return;
            }
        }
        self.base.take_back(stream, pointer);
    }

    /// Frees a block to the arena of the stream of the free. Returns whether the block is that
    /// arena's.
    #[inline]
    fn free(&self, arena: &Arena, stream: StreamRef<'_>, pointer: DevicePtr) -> bool {
        let mut state = arena.lock();
        match state.superblocks.free(pointer.0) {
            FreeOutcome::Unknown => return false,
            FreeOutcome::Done => {}
            FreeOutcome::SuperblockIdle(base) => {
                self.return_superblocks(&mut state, arena, &[base], OnBehalfOf::Stream(stream));
            }
        }
        state.frees += 1;
        true
    }
}
