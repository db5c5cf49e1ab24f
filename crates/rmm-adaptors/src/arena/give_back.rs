//! What leaves the arenas, and how it gets to the global arena.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use rmm_core::{DevicePtr, RetiringStream, StreamId, StreamRef, StreamWatcher};

use super::arenas::Arenas;
use super::member::{Arena, State};
use super::superblock::{GRANULE, SUPERBLOCK};
use crate::pool::{OnBehalfOf, Slice};

/// What has become of a block that was freed by somebody else than its arena's stream.
pub(super) enum Released {
    /// It is the global arena's now, or was before.
    Global,
    /// There is no such block.
    Unknown,
}

impl Arenas {
    /// As whom a call with this stream gives an arena's memory back. Every call of a thread can
    /// mark the thread's own stream.
    fn giver<'a>(arena: &Arena, stream: Option<StreamRef<'a>>) -> OnBehalfOf<'a> {
        let mut reached = stream.into_iter().chain([StreamRef::per_thread()]);
        reached
            .find(|stream| stream.id() == arena.stream)
            .map_or(OnBehalfOf::Other, OnBehalfOf::Stream)
    }

    /// Gives the idle superblocks back of all arenas whose streams can be reached by a call with
    /// this one.
    pub(super) fn collect_idle(&self, stream: Option<StreamRef<'_>>) {
        for arena in self.all() {
            let giver = Self::giver(&arena, stream);
            if matches!(giver, OnBehalfOf::Stream(_)) || !arena.owner.is_bound() {
                self.give_back_idle(&arena, giver);
            }
        }
    }

    pub(super) fn give_back_idle(&self, arena: &Arena, giver: OnBehalfOf<'_>) {
        let mut state = arena.lock();
        let idle = state.superblocks.idle();
        self.give_back(&mut state, arena, &idle, giver);
    }

    /// Gives all free memory of all arenas back. Their blocks become the global arena's.
    pub(super) fn take_all_apart(&self, stream: Option<StreamRef<'_>>) {
        for arena in self.all() {
            let mut state = arena.lock();
            let bases = state.superblocks.bases();
            self.give_back(&mut state, &arena, &bases, Self::giver(&arena, stream));
        }
    }

    /// Gives superblocks back. Blocks in them that are handed out become the global arena's.
    pub(super) fn give_back(
        &self,
        state: &mut State,
        arena: &Arena,
        bases: &[u64],
        giver: OnBehalfOf<'_>,
    ) {
        let mut pieces: Vec<(u64, Vec<Slice>)> = Vec::new();
        let mut directory = self.directory();
        for &base in bases {
            let Some(block) = state.superblocks.remove(base) else { continue };
            let held = directory.remove(base, SUPERBLOCK);
            if block.is_new() {
                pieces.push((base, vec![Slice { bytes: SUPERBLOCK, is_live: false }]));
                state.superblocks.recycle(block);
                continue;
            }
            for (start, end) in held {
                let place = |address: u64| {
                    u16::try_from((address - base) / GRANULE)
                        .expect("what is held of a superblock lies in it")
                };
                let parts = block.parts(place(start), place(end)).map(|(_, part)| part);
                pieces.push((start, parts.collect()));
            }
        }
        if !pieces.is_empty() {
            let pieces = pieces.iter().map(|(start, parts)| (*start, parts.as_slice()));
            self.base.dissolve(arena.owner, giver, pieces);
        }
    }

    /// Makes a block that is an arena's one of the global arena.
    #[cold]
    pub(super) fn transfer_to_global(&self, pointer: DevicePtr) -> Released {
        loop {
            let Some(arena) = self.directory().owner(pointer.0).cloned() else {
                return Released::Global;
            };
            let mut state = arena.lock();
            let mut directory = self.directory();
            if !directory.owner(pointer.0).is_some_and(|owner| Arc::ptr_eq(owner, &arena)) {
                // It changed hands meanwhile.
                continue;
            }
            let Some(bytes) = state.superblocks.transfer_to_global(pointer.0) else {
                self.unknown_frees.fetch_add(1, Ordering::Relaxed);
                return Released::Unknown;
            };
            if let Some((start, _)) = directory.cut(pointer.0, bytes) {
                self.base.split_off(start, pointer.0 - start, bytes);
            }
            return Released::Global;
        }
    }

    /// Parts with the arena of a stream that is about to be gone.
    fn close(&self, stream: StreamId, retiring: Option<&RetiringStream<'_>>) {
        let known = self.of_stream.read().unwrap_or_else(PoisonError::into_inner);
        let arena = known.get(&stream).cloned();
        drop(known);
        let Some(arena) = arena else { return };
        let mut state = arena.lock();
        state.is_closed = true;
        let bases = state.superblocks.bases();
        self.give_back(&mut state, &arena, &bases, OnBehalfOf::Other);
        let mut past = self.past.lock().unwrap_or_else(PoisonError::into_inner);
        past.0 += std::mem::take(&mut state.allocations);
        past.1 += std::mem::take(&mut state.frees);
        self.base.leave(arena.owner, retiring);
        drop((past, state));
        // Not before: whoever lacks memory goes through all that are there.
        self.of_stream.write().unwrap_or_else(PoisonError::into_inner).remove(&stream);
    }

    /// A thread ends, and with it its own stream: the last chance to take its memory. The driver
    /// may be past its part in the end of the thread, so it is not called: what the stream used is
    /// free once the device was waited for.
    pub(super) fn thread_exits(&self, stream: StreamId) {
        self.close(stream, None);
    }
}

impl StreamWatcher for Arenas {
    fn stream_retires(&self, stream: &RetiringStream<'_>) {
        self.close(stream.id(), Some(stream));
    }
}
