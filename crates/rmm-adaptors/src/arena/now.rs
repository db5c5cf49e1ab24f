//! Calls that do not wait: from and to the stream's arena, if no other thread has it locked.

#![forbid(unsafe_code)]

use std::alloc::Layout;
use std::sync::TryLockError;

use rmm_core::{DevicePtr, StreamRef};

use super::arenas::Arenas;
use super::local;
use super::member::{Arena, Small};
use crate::pool::Suballocator;

impl Arenas {
    /// Calls `f` with the stream's arena, if it has one that is found without a wait.
    #[inline]
    fn with_arena_now<T>(
        &self,
        stream: StreamRef<'_>,
        f: impl FnMut(&Arena) -> Option<T>,
    ) -> Option<T> {
        if !Suballocator::seals_late(stream) || !self.base.is_identified(stream) {
            return None;
        }
        let find = || match self.of_stream.try_read() {
            Ok(arenas) => arenas.get(&stream.id()).cloned(),
            Err(TryLockError::Poisoned(arenas)) => arenas.into_inner().get(&stream.id()).cloned(),
            Err(TryLockError::WouldBlock) => None,
        };
        local::with(self.number, stream.id(), f, find).flatten()
    }

    /// Allocates a block of the stream's arena. `None` if that is not certain to need no driver
    /// call and no wait for a lock.
    pub(super) fn try_allocate_now(
        &self,
        stream: StreamRef<'_>,
        layout: Layout,
    ) -> Option<DevicePtr> {
        let small = Small::of(layout)?;
        if !self.base.is_calm() {
            return None;
        }
        let take = |arena: &Arena| arena.try_lock()?.allocate(&small);
        let pointer = self.with_arena_now(stream, take)?;
        self.base.annotator().allocated(pointer, layout, Some(stream));
        Some(pointer)
    }

    /// Frees a block to the stream's arena. `false` if that is not certain to need no driver call
    /// and no wait for a lock, or if its superblock is then to be returned, which `deallocate`
    /// does.
    pub(super) fn try_deallocate_now(
        &self,
        stream: StreamRef<'_>,
        pointer: DevicePtr,
        layout: Layout,
    ) -> bool {
        if Small::of(layout).is_none() || !self.base.is_calm() {
            return false;
        }
        let free = |arena: &Arena| {
            let mut state = arena.try_lock()?;
            // Before another thread can get the block: the arena is locked.
            let freed = || self.base.annotator().freed(pointer, layout, Some(stream));
            let is_freed = state.superblocks.free_in_place(pointer.0, freed);
            state.frees += u64::from(is_freed);
            Some(is_freed)
        };
        self.with_arena_now(stream, free).unwrap_or(false)
    }
}
