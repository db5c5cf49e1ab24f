//! The table of streams: what leads from a raw handle to its stream.
//!
//! ```text
//! the table, under a lock
//!    streams    (handle, context) -> the stream, weakly      what an adoption returns
//!               (handle, -)       -> the handle's own, of unknown lifetime
//!    announced  handle -> the stream, until its announcer says that it ends
//!    unknown    handle -> the handle's own, while it is in use; some thousands
//!
//! the thread's slots, without a lock or an atomic read-modify-write
//!    handle -> what `announced` and `unknown` have of it
//! ```
//!
//! An entry of `streams` never outlives its stream: [`remove`] removes it before the stream is
//! destroyed. So there are as many entries as streams. A new stream with the handle of an old one
//! has another id from the driver, which an adoption compares.
//!
//! The driver gives the handle of a destroyed stream to the next one. So a handle alone names a
//! stream only if someone says when that stream ends. Bindings whose callers do
//! [announce](CudaStream::announce) it, and [`StreamRef::with_announced`] then recognises the
//! handle. Of any other handle the driver is asked at each use which stream it names now:
//! [`StreamRef::with_raw`] gives the handle's own [`CudaStream`], whose identity a resource asks
//! for ([`StreamRef::identify`]). What is known of a handle of unknown lifetime is void once a
//! context was noticed to have ended.

mod entries;
#[cfg(all(test, rmm_loom))]
mod models;

use std::cell::{Cell, RefCell};
use std::mem;
use std::ptr;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use rmm_sys::{CuStream, epoch};

use self::entries::{Announced, Table};
use super::{CudaStream, StreamId, StreamRef};
use crate::{Error, fork};

pub(super) use self::entries::Key;

/// How many handles of unknown lifetime there are before any is removed.
const UNKNOWN_UNSWEPT: usize = 1024;

/// The slots of a thread: as many as a byte has values.
const SLOTS: usize = 1 << u8::BITS;

/// Lock order: only that of an identity's context comes after it. No stream is dropped under it:
/// that takes it, and runs the stream's watchers.
static TABLE: Mutex<Table<CudaStream>> = Mutex::new(Table::new(UNKNOWN_UNSWEPT));

/// How often a stream was announced, or its announcement ended. What the slots have of announced
/// streams is valid while this stays as it was.
static CHANGES: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static RECENT: [Slot; SLOTS] = const { [const { Slot::new() }; SLOTS] };
}

/// What the thread knows of a handle.
struct Slot {
    /// A default stream's, such as 0, is in no slot.
    handle: Cell<CuStream>,
    /// [`CHANGES`] before the table was asked for `announced`.
    changes: Cell<u64>,
    /// The announced stream, or null if there is none.
    ///
    /// # Invariant
    /// [`TABLE`] had it after `changes` was read: each end of its announcement counts [`CHANGES`]
    /// beyond `changes`.
    announced: Cell<*const CudaStream>,
    /// The handle's own stream, if the thread has used it.
    unknown: RefCell<Option<Rc<Unknown>>>,
}

/// The stream of a handle of unknown lifetime.
struct Unknown {
    stream: CudaStream,
    /// When it was found: [`epoch::ends_of_contexts`].
    ends: u64,
}

impl Slot {
    const fn new() -> Self {
        Self {
            handle: Cell::new(CuStream::NULL),
            changes: Cell::new(0),
            announced: Cell::new(ptr::null()),
            unknown: RefCell::new(None),
        }
    }

    /// The announced stream of the handle, null if the table has none; `None` if the table has to
    /// be asked.
    #[inline]
    fn announced(&self, handle: CuStream) -> Option<*const CudaStream> {
        // Acquire: what a thread did before it forgot a stream comes before what is done here then.
        let is_valid =
            self.handle.get() == handle && self.changes.get() == CHANGES.load(Ordering::Acquire);
        is_valid.then(|| self.announced.get())
    }

    fn unknown(&self, handle: CuStream) -> Option<Rc<Unknown>> {
        if self.handle.get() != handle {
            return None;
        }
        let unknown = self.unknown.borrow();
        unknown.as_ref().filter(|found| found.ends == epoch::ends_of_contexts()).cloned()
    }

    /// Makes this the slot of the handle. Returns what has to be dropped, which may run code of the
    /// program.
    fn take_for(&self, handle: CuStream) -> Option<Rc<Unknown>> {
        if self.handle.replace(handle) == handle {
            return None;
        }
        self.announced.set(ptr::null());
        // No count of changes is as high, so that the table is asked.
        self.changes.set(u64::MAX);
        self.unknown.take()
    }
}

/// The thread's slot for the handle; `None` while the thread ends.
#[inline]
fn with_slot<R>(handle: CuStream, act: impl FnOnce(&Slot) -> R) -> Option<R> {
    // Fibonacci hashing (Knuth): the product's upper bits depend on all bits of the address.
    let hash = (handle.addr() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    RECENT.try_with(|slots| act(&slots[usize::from(hash.to_be_bytes()[0])])).ok()
}

fn table() -> MutexGuard<'static, Table<CudaStream>> {
    fork::lock(&TABLE)
}

/// Enters the stream, and returns it; or returns the one that is there, if it `is_same`.
pub(super) fn enter_or_get(
    new: CudaStream,
    is_same: impl FnOnce(&CudaStream) -> bool,
) -> CudaStream {
    entries::enter_or_get(&TABLE, new.entry(), new, is_same)
}

/// Enters the stream in place of what is there.
pub(super) fn replace(new: &CudaStream) {
    entries::replace(&TABLE, new.entry(), new);
}

/// Removes a stream's entry, if it still has one. Called when the stream is dropped.
pub(super) fn remove(entry: (Key, StreamId)) {
    entries::remove(&TABLE, entry);
}

impl Table<CudaStream> {
    fn find_unknown(&mut self, handle: CuStream, ends: u64) -> Option<CudaStream> {
        if self.ends != ends {
            return None;
        }
        let (stream, is_used) = self.unknown.get_mut(&handle.addr())?;
        *is_used = true;
        Some(stream.clone())
    }

    /// Returns what has to be dropped when the lock is released.
    fn keep_unknown(&mut self, stream: &CudaStream, ends: u64) -> Vec<CudaStream> {
        let mut removed = Vec::new();
        if self.ends != ends {
            self.ends = ends;
            removed.extend(mem::take(&mut self.unknown).into_values().map(|(stream, _)| stream));
        } else if self.unknown.len() >= self.sweep_at {
            removed = self.sweep();
        }
        let former = self.unknown.insert(stream.as_raw().addr(), (stream.clone(), false));
        removed.extend(former.map(|(stream, _)| stream));
        removed
    }

    /// Removes what was not looked up since the last sweep (second chance, also known as the clock
    /// algorithm) and no thread has in a slot. The next sweep is due when the rest has doubled, so
    /// an insertion costs the same however many there are.
    fn sweep(&mut self) -> Vec<CudaStream> {
        let mut removed = Vec::new();
        for (handle, (stream, is_used)) in mem::take(&mut self.unknown) {
            if is_used || !stream.is_only_handle() {
                self.unknown.insert(handle, (stream, false));
            } else {
                removed.push(stream);
            }
        }
        self.sweep_at = UNKNOWN_UNSWEPT.max(2 * self.unknown.len());
        removed
    }

    /// Announces a stream, in place of another one that had the handle and whose end was not said.
    /// Returns the other.
    fn announce(
        &mut self,
        stream: &CudaStream,
        guards: usize,
        until_forgotten: bool,
    ) -> Option<Announced<CudaStream>> {
        let handle = stream.as_raw().addr();
        if let Some(known) = self.announced.get_mut(&handle)
            && *known.stream == *stream
        {
            known.guards += guards;
            known.until_forgotten |= until_forgotten;
            return None;
        }
        let announced = Announced { stream: Arc::new(stream.clone()), guards, until_forgotten };
        let other = self.announced.insert(handle, announced);
        if let Some(other) = &other {
            // Before its watchers are called: the handle names the new stream.
            other.stream.note_replaced();
        }
        other
    }

    /// Ends one announcement of the stream. Returns what has to be dropped after the last.
    fn release(&mut self, stream: &CudaStream) -> Option<Announced<CudaStream>> {
        let handle = stream.as_raw().addr();
        let known = self.announced.get_mut(&handle).filter(|known| *known.stream == *stream)?;
        known.guards = known.guards.saturating_sub(1);
        let is_last = known.guards == 0 && !known.until_forgotten;
        if is_last { self.announced.remove(&handle) } else { None }
    }
}

/// Changes what is announced. The announcements that `change` returns are dropped without the lock.
fn change<R>(change: impl FnOnce(&mut Table<CudaStream>) -> R) -> R {
    let removed = change(&mut table());
    // Release, and after the change: a thread that sees the count finds the change in the table.
    CHANGES.fetch_add(1, Ordering::Release);
    removed
}

/// An announcement of a stream, which ends when this is dropped. Others of the same stream go on.
#[doc(hidden)]
#[derive(Debug)]
#[must_use = "the announcement ends when it is dropped"]
pub struct AnnouncedStream {
    stream: CudaStream,
}

impl Drop for AnnouncedStream {
    fn drop(&mut self) {
        if !fork::is_child() {
            let ended = change(|table| table.release(&self.stream));
            drop(ended);
        }
    }
}

/// For bindings, whose callers pass raw handles: see [`StreamRef::with_announced`].
impl CudaStream {
    /// Says that the stream's handle names this stream until the result is dropped. The default
    /// streams need no announcement.
    #[doc(hidden)]
    pub fn announce(&self) -> AnnouncedStream {
        self.enter_announced(1, false);
        AnnouncedStream { stream: self.clone() }
    }

    /// Says that the stream's handle names this stream until it is [forgotten](Self::forget_raw),
    /// however many other announcements begin and end before.
    #[doc(hidden)]
    pub fn announce_until_forgotten(&self) {
        self.enter_announced(0, true);
    }

    fn enter_announced(&self, guards: usize, until_forgotten: bool) {
        if default_stream(self.as_raw()).is_none() {
            let other = change(|table| table.announce(self, guards, until_forgotten));
            drop(other);
        }
    }

    /// Ends all announcements of the stream with this handle, which may be destroyed from now on.
    #[doc(hidden)]
    pub fn forget_raw(handle: CuStream) {
        let ended = change(|table| table.announced.remove(&handle.addr()));
        drop(ended);
    }
}

/// The default stream that the handle means.
#[inline]
fn default_stream(handle: CuStream) -> Option<StreamRef<'static>> {
    match handle {
        CuStream::NULL | CuStream::LEGACY => Some(StreamRef::legacy()),
        CuStream::PER_THREAD => Some(StreamRef::per_thread()),
        _ => None,
    }
}

impl StreamRef<'_> {
    /// Calls `act` with the stream that a raw handle names, if it is a default stream or was
    /// [announced](CudaStream::announce). Calls no driver, and takes no lock unless the handle is
    /// new to the thread, or announcements have changed.
    ///
    /// # Errors
    /// `act`, if the stream was not announced.
    ///
    /// # Safety
    /// Each end of an announcement of a stream with this handle happens-before the call, or
    /// happens-after its return. The announcement of another stream with the handle is such an end.
    #[doc(hidden)]
    #[inline]
    pub unsafe fn with_announced<R, A: FnOnce(StreamRef<'_>) -> R>(
        handle: CuStream,
        act: A,
    ) -> Result<R, A> {
        if let Some(stream) = default_stream(handle) {
            return Ok(act(stream));
        }
        match with_slot(handle, |slot| slot.announced(handle)).flatten() {
            Some(stream) if !stream.is_null() => {
                // SAFETY: the table had the stream. An end of its announcement before this call
                // happens-before the load of `CHANGES`, by the caller's contract, and so the load
                // would have returned a count beyond the slot's, by the invariant. So there was
                // none, and there is none until this call returns; and the stream is only read.
                let stream = unsafe { &*stream };
                Ok(act(stream.as_stream_ref()))
            }
            Some(_) => Err(act),
            None => match find_announced(handle) {
                Some(stream) => Ok(act(stream.as_stream_ref())),
                None => Err(act),
            },
        }
    }

    /// Calls `act` with the stream that a raw handle names, for callers that have nothing but a
    /// handle, whose lifetime is unknown: from C, or from Python.
    ///
    /// The handles 0 and 1 (`cudaStreamLegacy`) name the legacy default stream and 2
    /// (`cudaStreamPerThread`) the thread's own. Any other is a stream of [unknown
    /// lifetime](crate::StreamLifetime::Unknown), the same as [`CudaStream::adopt`] returns. The
    /// thread remembers handles that it used lately, and then calls no driver and takes no lock;
    /// the process remembers some thousands. `act` may call this function again.
    ///
    /// ```
    /// use rmm_core::{CudaStream, StreamRef};
    ///
    /// # let _machine = rmm_sim::enter();
    /// let theirs = CudaStream::new()?.into_raw().expect("it is the only handle");
    /// // SAFETY: nothing destroys the stream.
    /// let identify = || unsafe { StreamRef::with_raw(theirs, |stream| stream.identify()) };
    /// assert_eq!(identify()??, identify()??);
    /// # Ok::<(), rmm_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// If there is no driver, or it refuses; then `act` is not called.
    ///
    /// # Safety
    /// `handle` names a stream that exists until this function returns, of any context. What `act`
    /// clones or makes on it, such as a container, is used as the contract of
    /// [`CudaStream::adopt`] for an unknown lifetime says, and that for graphs holds too.
    #[doc(alias = "cudaStream_t")]
    pub unsafe fn with_raw<R>(
        handle: CuStream,
        act: impl FnOnce(StreamRef<'_>) -> R,
    ) -> Result<R, Error> {
        if let Some(stream) = default_stream(handle) {
            return Ok(act(stream));
        }
        let unknown = with_slot(handle, |slot| slot.unknown(handle)).flatten();
        if let Some(unknown) = unknown {
            return Ok(act(unknown.stream.as_stream_ref()));
        }
        // SAFETY: the stream exists during this call, by the caller's contract.
        let stream = unsafe { find_or_adopt(handle) }?;
        Ok(act(stream.as_stream_ref()))
    }
}

/// The announced stream of a handle, for which the thread has no valid slot.
#[inline(never)]
fn find_announced(handle: CuStream) -> Option<Arc<CudaStream>> {
    // Before the look: a change after it makes the slot invalid.
    let changes = CHANGES.load(Ordering::Acquire);
    let known = table().announced.get(&handle.addr()).map(|known| Arc::clone(&known.stream));
    let removed = with_slot(handle, |slot| {
        let removed = slot.take_for(handle);
        slot.announced.set(known.as_ref().map_or(ptr::null(), Arc::as_ptr));
        slot.changes.set(changes);
        removed
    });
    drop(removed);
    known
}

/// The stream of a handle of unknown lifetime that is not in the thread's slot, into which it goes.
///
/// # Safety
/// As for [`CudaStream::adopt`] with an unknown lifetime.
#[cold]
unsafe fn find_or_adopt(handle: CuStream) -> Result<CudaStream, Error> {
    // Before the driver is asked: an end that is noticed later empties the tables again.
    let ends = epoch::ends_of_contexts();
    let known = table().find_unknown(handle, ends);
    let stream = if let Some(stream) = known {
        stream
    } else {
        // SAFETY: the caller's contract.
        let stream = unsafe { CudaStream::adopt_unknown(handle) }?;
        let removed = table().keep_unknown(&stream, ends);
        drop(removed);
        stream
    };
    let unknown = Rc::new(Unknown { stream: stream.clone(), ends });
    let removed =
        with_slot(handle, |slot| (slot.take_for(handle), slot.unknown.replace(Some(unknown))));
    drop(removed);
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;
    use crate::WeakStream;

    fn weak_of(handle: CuStream) -> WeakStream {
        // SAFETY: the tests' streams exist until their machines end.
        unsafe { StreamRef::with_raw(handle, |stream| stream.as_stream().downgrade()) }
            .expect("the driver works")
    }

    #[test]
    fn the_tables_stay_small_over_many_streams() {
        let _machine = rmm_sim::enter();
        let alive = |streams: &[WeakStream]| {
            streams.iter().filter(|stream| stream.upgrade().is_some()).count()
        };
        let favourite = CudaStream::new().expect("a stream").into_raw().expect("the only one");
        let first = weak_of(favourite);
        let mut streams = Vec::new();
        for _ in 0..5 * UNKNOWN_UNSWEPT {
            let stream = CudaStream::new().expect("a stream").into_raw().expect("the only one");
            streams.push(weak_of(stream));
            assert!(alive(&streams[streams.len() - 1..]) == 1, "the last one is remembered");
            weak_of(favourite);
        }
        assert!(first.upgrade().is_some(), "what is in use is kept");
        let alive = alive(&streams);
        assert!(alive <= 2 * UNKNOWN_UNSWEPT + 2 * SLOTS, "{alive} streams of handles are kept");
        // Tests beside this one have a few of their own.
        let kept = table().unknown.len();
        assert!(kept <= 2 * UNKNOWN_UNSWEPT + 2 * SLOTS, "{kept}");
    }

    /// How many entries a handle has, of any context.
    fn entries_of(handle: CuStream) -> usize {
        let handle = handle.addr();
        table().streams.range((handle, None)..=(handle, Some((usize::MAX, u64::MAX)))).count()
    }

    #[test]
    fn an_entry_ends_with_its_stream() -> Result<(), Error> {
        let _machine = rmm_sim::enter();
        let stream = CudaStream::new()?;
        let handle = stream.as_raw();
        let context = stream.own_context().expect("a created stream has one");
        assert_eq!(entries_of(handle), 1);
        let handle = stream.into_raw().expect("it is the only one");
        assert_eq!(entries_of(handle), 0);
        // A million streams that come and go, the last hundred of which are there.
        let mut streams = VecDeque::new();
        for number in 1..1_000_000 {
            let handle = CuStream::from_raw(ptr::without_provenance_mut(number << 4));
            streams.push_back(enter_or_get(CudaStream::of_no_driver(handle, context), |_| true));
            if streams.len() > 100 {
                streams.pop_front();
            }
        }
        // Tests beside this one have some of their own, but not a million.
        let len = table().streams.len();
        assert!((streams.len()..streams.len() + 10_000).contains(&len), "{len}");
        Ok(())
    }

    #[test]
    fn a_stream_leaves_the_entry_of_its_successor() -> Result<(), Error> {
        let _machine = rmm_sim::enter();
        let former = CudaStream::new()?;
        // Two identities of one stream, as if the first were dropped while a new stream with its
        // handle is made. Their owner is neither.
        let handle = former.as_raw();
        let context = former.own_context().expect("a created stream has one");
        let successor = CudaStream::of_no_driver(handle, context);
        replace(&successor);
        drop(former);
        assert_eq!(entries_of(handle), 1);
        drop(successor);
        assert_eq!(entries_of(handle), 0);
        Ok(())
    }
}
