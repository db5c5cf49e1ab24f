//! What a thread remembers: the arenas that it used last, and those of its own stream, which end
//! with it.

#![forbid(unsafe_code)]

use std::cell::RefCell;
use std::sync::{Arc, Mutex, PoisonError};

use rmm_core::StreamId;

use super::arenas::Arenas;
use super::member::Arena;

/// Arenas that a thread remembers.
const REMEMBERED: usize = 8;

/// How the ends of threads reach a resource, until it ends itself.
#[derive(Debug, Default)]
pub(super) struct Link(Mutex<Option<Arc<Arenas>>>);

impl Link {
    /// Lets the ends of threads reach the resource from now on.
    pub(super) fn open(&self, arenas: &Arc<Arenas>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(arenas));
    }

    /// Waits for threads that are telling the resource of their end, and lets no more do so: none
    /// of them will be the one to drop what is left, and with it events of the driver.
    pub(super) fn close(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    fn is_open(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }
}

#[derive(Default)]
struct Local {
    /// By the resource's number and the stream.
    recent: Vec<(u64, StreamId, Arc<Arena>)>,
    /// Which of them is replaced next.
    next: usize,
    /// The resources in which this thread's own stream has an arena.
    own: Vec<(Arc<Link>, StreamId)>,
}

thread_local! {
    static LOCAL: RefCell<Local> = RefCell::default();
}

/// Does something with the arena of a stream, which is remembered or else found by `find`.
#[inline]
pub(super) fn with<T>(
    resource: u64,
    stream: StreamId,
    mut f: impl FnMut(&Arena) -> T,
    find: impl FnOnce() -> Option<Arc<Arena>>,
) -> Option<T> {
    let known = LOCAL.try_with(|local| {
        let local = local.borrow();
        let mut recent = local.recent.iter();
        let known = recent.find(|known| known.1 == stream && known.0 == resource);
        known.map(|(_, _, arena)| f(arena))
    });
    if let Ok(Some(done)) = known {
        return Some(done);
    }
    let arena = find()?;
    let done = f(&arena);
    let _ending = LOCAL.try_with(|local| local.borrow_mut().remember(resource, stream, arena));
    Some(done)
}

/// Has the resource told when the calling thread ends, for the sake of its own stream. Says whether
/// it will be.
pub(super) fn tell_at_exit(link: &Arc<Link>, stream: StreamId) -> bool {
    let told = LOCAL.try_with(|local| {
        let mut local = local.borrow_mut();
        local.own.retain(|(known, _)| known.is_open());
        local.own.push((Arc::clone(link), stream));
    });
    told.is_ok()
}

impl Local {
    fn remember(&mut self, resource: u64, stream: StreamId, arena: Arc<Arena>) {
        let entry = (resource, stream, arena);
        if self.recent.len() < REMEMBERED {
            self.recent.push(entry);
        } else {
            self.recent[self.next] = entry;
            self.next = (self.next + 1) % REMEMBERED;
        }
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        for (link, stream) in self.own.drain(..) {
            if let Some(arenas) = &*link.0.lock().unwrap_or_else(PoisonError::into_inner) {
                arenas.thread_exits(stream);
            }
        }
    }
}
