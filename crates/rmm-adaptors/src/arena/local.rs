//! Thread-local data of arenas: a cache of recently used arenas, and those of the thread's own
//! default stream, which retire when the thread ends.

#![forbid(unsafe_code)]

use std::cell::RefCell;
use std::fmt;
use std::sync::{Arc, Mutex};

use rmm_core::{StreamId, fork};

use super::member::Arena;

/// A resource that is notified when a thread with an arena ends.
pub(super) trait ExitWatcher: Send + Sync {
    /// Called on the ending thread. `stream` is its default stream.
    fn thread_exits(&self, stream: StreamId);
}

/// The size of a thread's cache of arenas.
const REMEMBERED: usize = 8;

/// A link from ending threads to a resource, closed when the resource is dropped.
#[derive(Default)]
pub(super) struct Link(Mutex<Option<Arc<dyn ExitWatcher>>>);

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("is_open", &self.is_open()).finish()
    }
}

impl Link {
    /// Lets ending threads notify the resource from now on.
    pub(super) fn open(&self, resource: Arc<dyn ExitWatcher>) {
        *fork::lock(&self.0) = Some(resource);
    }

    /// Waits for threads that are notifying the resource, and lets no more do so. So the last
    /// handle, with its driver events, is never dropped by an ending thread.
    pub(super) fn close(&self) {
        fork::lock(&self.0).take();
    }

    fn is_open(&self) -> bool {
        fork::lock(&self.0).is_some()
    }
}

#[derive(Default)]
struct Local {
    /// By the resource's number and the stream.
    recent: Vec<(u64, StreamId, Arc<Arena>)>,
    /// The entry that is replaced next.
    next: usize,
    /// The resources in which this thread's default stream has an arena.
    own: Vec<(Arc<Link>, StreamId)>,
}

thread_local! {
    static LOCAL: RefCell<Local> = RefCell::default();
}

/// Calls `f` with the arena of a stream, from the thread's cache or else from `find`.
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

/// Registers the resource to be notified when the calling thread ends, for the thread's default
/// stream. Returns whether it will be.
pub(super) fn watch_exit(link: &Arc<Link>, stream: StreamId) -> bool {
    let is_noted = LOCAL.try_with(|local| {
        let mut local = local.borrow_mut();
        local.own.retain(|(known, _)| known.is_open());
        local.own.push((Arc::clone(link), stream));
    });
    is_noted.is_ok()
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
        if fork::is_child() {
            return;
        }
        for (link, stream) in self.own.drain(..) {
            if let Some(resource) = &*fork::lock(&link.0) {
                resource.thread_exits(stream);
            }
        }
    }
}
