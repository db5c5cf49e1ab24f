//! Transfer of memory to the global arena: idle superblocks, blocks that another stream freed, and
//! all of an arena when its stream retires (Hoard's transfer to the global heap).

#![forbid(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::Ordering;

use rmm_core::{DevicePtr, RetiringStream, StreamId, StreamRef, StreamWatcher, fork};

use super::arenas::Arenas;
use super::local::ExitWatcher;
use super::member::{Arena, State};
use super::superblock::{GRANULE, SUPERBLOCK};
use crate::pool::{OnBehalfOf, Slice};

/// The result of freeing a block on a stream other than that of its arena.
pub(super) enum Released {
    /// The block belongs to the global arena now, or already did.
    Global,
    /// There is no such block.
    Unknown,
}

impl Arenas {
    /// On whose behalf a call with this stream returns an arena's memory. Any call of a thread can
    /// record an event on the thread's own default stream.
    fn giver<'a>(arena: &Arena, stream: Option<StreamRef<'a>>) -> OnBehalfOf<'a> {
        let mut reached = stream.into_iter().chain([StreamRef::per_thread()]);
        reached
            .find(|stream| stream.id() == arena.stream)
            .map_or(OnBehalfOf::Other, OnBehalfOf::Stream)
    }

    /// Returns the idle superblocks of all arenas.
    pub(super) fn collect_idle(&self, stream: Option<StreamRef<'_>>) {
        for arena in self.all() {
            self.return_idle(&arena, Self::giver(&arena, stream));
        }
    }

    pub(super) fn return_idle(&self, arena: &Arena, giver: OnBehalfOf<'_>) {
        let mut state = arena.lock();
        let idle = state.superblocks.idle();
        self.return_superblocks(&mut state, arena, &idle, giver);
    }

    /// Returns all free memory of all arenas. Their live blocks then belong to the global arena.
    pub(super) fn dissolve_all(&self, stream: Option<StreamRef<'_>>) {
        for arena in self.all() {
            let mut state = arena.lock();
            let bases = state.superblocks.bases();
            self.return_superblocks(&mut state, &arena, &bases, Self::giver(&arena, stream));
        }
    }

    /// Returns superblocks. Live blocks in them then belong to the global arena.
    pub(super) fn return_superblocks(
        &self,
        state: &mut State,
        arena: &Arena,
        bases: &[u64],
        giver: OnBehalfOf<'_>,
    ) {
        let mut pieces: Vec<(u64, Vec<Slice>)> = Vec::new();
        let mut address_map = self.address_map();
        for &base in bases {
            let Some(block) = state.superblocks.remove(base) else { continue };
            let held = address_map.remove(base, SUPERBLOCK);
            if block.is_empty() {
                pieces.push((base, vec![Slice { bytes: SUPERBLOCK, is_live: false }]));
                state.superblocks.recycle(block);
                continue;
            }
            for (start, end) in held {
                let place = |address: u64| {
                    u16::try_from((address - base) / GRANULE)
                        .expect("a range held of a superblock lies in it")
                };
                let parts = block.slices(place(start), place(end)).map(|(_, part)| part);
                pieces.push((start, parts.collect()));
            }
        }
        if !pieces.is_empty() {
            let pieces = pieces.iter().map(|(start, parts)| (*start, parts.as_slice()));
            self.base.dissolve(arena.owner, giver, pieces);
        }
    }

    /// Moves a block of an arena to the global arena.
    #[cold]
    pub(super) fn transfer_to_global(&self, pointer: DevicePtr) -> Released {
        loop {
            let Some(arena) = self.address_map().owner(pointer.0).cloned() else {
                return Released::Global;
            };
            let mut state = arena.lock();
            let mut address_map = self.address_map();
            if !address_map.owner(pointer.0).is_some_and(|owner| Arc::ptr_eq(owner, &arena)) {
                // Another thread has moved it in the meantime.
                continue;
            }
            let Some(bytes) = state.superblocks.transfer_to_global(pointer.0) else {
                self.unknown_frees.fetch_add(1, Ordering::Relaxed);
                return Released::Unknown;
            };
            if let Some((start, _)) = address_map.remove_range(pointer.0, bytes) {
                self.base.split_off(start, pointer.0 - start, bytes);
            }
            return Released::Global;
        }
    }

    /// Dissolves the arena of a stream that is about to be destroyed.
    fn close(&self, stream: StreamId, retiring: Option<&RetiringStream<'_>>) {
        let known = fork::read(&self.of_stream);
        let arena = known.get(&stream).cloned();
        drop(known);
        let Some(arena) = arena else { return };
        let mut state = arena.lock();
        state.is_closed = true;
        let bases = state.superblocks.bases();
        self.return_superblocks(&mut state, &arena, &bases, OnBehalfOf::Other);
        let mut past = fork::lock(&self.past);
        past.0 += std::mem::take(&mut state.allocations);
        past.1 += std::mem::take(&mut state.frees);
        self.base.leave(arena.owner, retiring);
        drop((past, state));
        // Not earlier: a request that is short of memory visits every arena in this map.
        fork::write(&self.of_stream).remove(&stream);
    }
}

impl ExitWatcher for Arenas {
    /// A thread and its default stream end. The driver may have finished with the thread already,
    /// so it is not called: an event of the context covers the stream's work later.
    fn thread_exits(&self, stream: StreamId) {
        self.close(stream, None);
    }
}

impl StreamWatcher for Arenas {
    fn stream_retires(&self, stream: &RetiringStream<'_>) {
        self.close(stream.id(), Some(stream));
    }
}
