//! All arenas of a resource: which stream has which, and who serves a request.
//!
//! Locks are taken in this order: an arena's, the directory's, the global arena's. Whoever holds
//! several arenas took them in the order of their streams.

use std::alloc::Layout;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};

use rmm_core::{Context, DevicePtr, Error, StreamId, StreamRef, SyncResource};

use super::directory::Directory;
use super::give_back::Surrendered;
use super::local;
use super::member::{Arena, Small};
use super::superblock::SUPERBLOCK;
use super::superblocks::Given;
use crate::pool::{Base, Giver, padded_size};

static LAST: AtomicU64 = AtomicU64::new(0);

#[derive(Debug)]
pub(super) struct Arenas {
    /// Of all arena resources of this process, which this is.
    pub(super) number: u64,
    pub(super) base: Base,
    pub(super) of_stream: RwLock<BTreeMap<StreamId, Arc<Arena>>>,
    directory: Mutex<Directory<Arc<Arena>>>,
    pub(super) slow_allocations: AtomicU64,
    pub(super) unknown_frees: AtomicU64,
    /// Allocations and frees of arenas that are gone.
    pub(super) past: Mutex<(u64, u64)>,
    /// How threads that end reach this.
    pub(super) link: Arc<local::Link>,
    this: Weak<Self>,
}

impl Arenas {
    pub(super) fn new(base: Base) -> Arc<Self> {
        let arenas = Arc::new_cyclic(|this: &Weak<Self>| Self {
            number: LAST.fetch_add(1, Ordering::Relaxed),
            base,
            of_stream: RwLock::default(),
            directory: Mutex::new(Directory::new()),
            slow_allocations: AtomicU64::new(0),
            unknown_frees: AtomicU64::new(0),
            past: Mutex::default(),
            link: Arc::default(),
            this: this.clone(),
        });
        arenas.link.open(&arenas);
        arenas
    }

    pub(super) fn directory(&self) -> MutexGuard<'_, Directory<Arc<Arena>>> {
        self.directory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All arenas, in the order of their streams.
    pub(super) fn all(&self) -> Vec<Arc<Arena>> {
        self.of_stream.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Whether the stream may have an arena. What is freed on the legacy default stream, or on one
    /// that may be gone at any time, has to be marked at once: the global arena does that.
    fn may_have_arena(&self, stream: StreamRef<'_>) -> bool {
        Base::seals_late(stream)
            && (!stream.is_per_thread_default()
                || Context::current().is_ok_and(|context| context == self.base.context()))
    }

    /// Does something with the stream's arena, if it has one.
    #[inline]
    fn with_arena<T>(&self, stream: StreamRef<'_>, f: impl FnMut(&Arena) -> T) -> Option<T> {
        if !self.may_have_arena(stream) {
            return None;
        }
        local::with(self.number, stream.id(), f, || {
            let arenas = self.of_stream.read().unwrap_or_else(PoisonError::into_inner);
            arenas.get(&stream.id()).cloned()
        })
    }

    /// The stream's arena; it is made if there is none. `None` if the stream can have none.
    fn join(&self, stream: StreamRef<'_>) -> Result<Option<Arc<Arena>>, Error> {
        if !self.may_have_arena(stream) {
            return Ok(None);
        }
        let known = self.of_stream.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.get(&stream.id()) {
            return Ok(Some(Arc::clone(known)));
        }
        drop(known);
        if stream.is_per_thread_default() && !local::tell_at_exit(&self.link, stream.id()) {
            // The thread is ending.
            return Ok(None);
        }
        let mut arenas = self.of_stream.write().unwrap_or_else(PoisonError::into_inner);
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
        self.base.look_after_context()?;
        // Graphs get memory from the global arena, which knows what no work uses.
        let small = if Base::is_captured(stream)? { None } else { Small::of(layout) };
        let (Some(stream), Some(small)) = (stream, small) else {
            return self.allocate_globally(upstream, stream, layout);
        };
        let taken = self.with_arena(stream, |arena| arena.lock().take(&small)).flatten();
        let pointer = match taken {
            Some(pointer) => pointer,
            None => match self.take_slowly(stream, &small)? {
                Some(pointer) => pointer,
                None => return self.allocate_globally(upstream, Some(stream), layout),
            },
        };
        self.base.annotator().allocated(pointer, layout, Some(stream));
        Ok(pointer)
    }

    /// Takes a block from a new superblock, if there is one without making anybody wait.
    #[cold]
    fn take_slowly(
        &self,
        stream: StreamRef<'_>,
        small: &Small,
    ) -> Result<Option<DevicePtr>, Error> {
        let Some(arena) = self.join(stream)? else { return Ok(None) };
        self.slow_allocations.fetch_add(1, Ordering::Relaxed);
        // What is idle here is too small.
        self.give_back_idle(&arena, Giver::Owner(stream));
        let mut base = self.base.find_piece(stream, SUPERBLOCK)?;
        if base.is_none() {
            self.collect_idle(Some(stream));
            base = self.base.find_piece(stream, SUPERBLOCK)?;
        }
        let Some(base) = base else { return Ok(None) };
        let mut state = arena.lock();
        state.superblocks.add(base);
        self.directory().add(base, SUPERBLOCK, Arc::clone(&arena));
        if state.is_closed {
            // Only a thread's own, by something that ran after the thread's end began.
            self.give_back(&mut state, &arena, &[base], Giver::Other);
            return Ok(None);
        }
        Ok(state.take(small))
    }

    /// A block of the global arena, by all the steps there are. Before anybody waits for it, idle
    /// superblocks go back there; before it is refused, all free memory of the arenas does.
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
        self.take_all_apart(stream);
        self.base.allocate(upstream, stream, layout)
    }

    pub(super) fn deallocate(
        &self,
        stream: Option<StreamRef<'_>>,
        pointer: DevicePtr,
        layout: Layout,
    ) {
        let is_small = Small::of(layout).is_some();
        // Memory of which that is not known stays allocated, too.
        if Base::is_captured(stream).unwrap_or(true) || self.base.look_after_context().is_err() {
            // The global arena knows what to do on a captured stream, and after the end of the
            // context.
            if !is_small || matches!(self.surrender(pointer), Surrendered::Global) {
                self.base.deallocate(stream, pointer, layout);
            }
            return;
        }
        self.base.annotator().freed(pointer, layout, stream);
        if is_small {
            if let Some(stream) = stream
                && self.with_arena(stream, |arena| self.give(arena, stream, pointer)) == Some(true)
            {
                return;
            }
            if matches!(self.surrender(pointer), Surrendered::Unknown) {
                return;
            }
        }
        self.base.take_back(stream, pointer);
    }

    /// Takes a block back into the arena of the stream that it is freed on. Says whether it is one
    /// of its own.
    #[inline]
    fn give(&self, arena: &Arena, stream: StreamRef<'_>, pointer: DevicePtr) -> bool {
        let mut state = arena.lock();
        match state.superblocks.give(pointer.0) {
            Given::Unknown => return false,
            Given::Kept => {}
            Given::Idle(base) => {
                self.give_back(&mut state, arena, &[base], Giver::Owner(stream));
            }
        }
        state.frees += 1;
        true
    }
}
