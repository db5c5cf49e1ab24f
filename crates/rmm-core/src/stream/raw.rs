//! Streams from raw handles, as callers from C and Python pass them with each call.
//!
//! ```text
//! with_raw(handle)
//!    |   0, 1, 2     the default streams
//!    v
//! Recent             a direct-mapped table of the thread: no lock, no atomic read-modify-write
//!    |   miss
//!    v
//! Kept               a table of the process: a lock
//!    |   miss
//!    v
//! CudaStream::adopt  the driver is called
//! ```
//!
//! Both tables keep a handle's [`CudaStream`], whose identity a resource asks for
//! ([`StreamRef::identify`]): an entry does not go wrong when the driver gives the handle to
//! another stream. They are emptied when a context was noticed to have ended.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Mutex, MutexGuard};

use rmm_sys::{CuStream, watch};

use super::{CudaStream, StreamRef};
use crate::{Error, fork};

/// The entries of a thread's table: as many as a byte has values.
const RECENT: usize = 1 << u8::BITS;

/// How many handles [`Kept`] holds before it removes any.
const KEPT_UNSWEPT: usize = 1024;

/// The handles that a thread used last, by a hash of the handle.
struct Recent {
    /// When the entries were made: [`watch::ends_of_contexts`].
    ends: Cell<u64>,
    slots: [RefCell<Option<Rc<CudaStream>>>; RECENT],
}

thread_local! {
    static OF_THREAD: Recent = const {
        Recent { ends: Cell::new(0), slots: [const { RefCell::new(None) }; RECENT] }
    };
}

fn slot_of(handle: CuStream) -> usize {
    // Fibonacci hashing (Knuth): the product's upper bits depend on all bits of the address.
    let hash = (handle.addr() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    usize::from(hash.to_be_bytes()[0])
}

impl Recent {
    fn find(&self, handle: CuStream) -> Option<Rc<CudaStream>> {
        if self.ends.get() != watch::ends_of_contexts() {
            return None;
        }
        let slot = self.slots[slot_of(handle)].borrow();
        slot.as_ref().filter(|stream| stream.as_raw() == handle).cloned()
    }

    /// Returns what has to be dropped, which may run code of the program.
    fn insert(&self, stream: &Rc<CudaStream>, ends: u64) -> Vec<Rc<CudaStream>> {
        let mut removed = Vec::new();
        if self.ends.replace(ends) != ends {
            removed.extend(self.slots.iter().filter_map(RefCell::take));
        }
        removed.extend(self.slots[slot_of(stream.as_raw())].replace(Some(Rc::clone(stream))));
        removed
    }
}

/// The handles that any thread used, each with whether it was looked up since the last sweep.
struct Kept {
    /// When the entries were made: [`watch::ends_of_contexts`].
    ends: u64,
    streams: BTreeMap<usize, (CudaStream, bool)>,
    sweep_above: usize,
}

/// Lock order: leaf. No stream is dropped under it, since its watchers would run.
static KEPT: Mutex<Kept> =
    Mutex::new(Kept { ends: 0, streams: BTreeMap::new(), sweep_above: KEPT_UNSWEPT });

fn kept() -> MutexGuard<'static, Kept> {
    fork::lock(&KEPT)
}

impl Kept {
    fn find(&mut self, handle: CuStream, ends: u64) -> Option<CudaStream> {
        if self.ends != ends {
            return None;
        }
        let (stream, is_used) = self.streams.get_mut(&handle.addr())?;
        *is_used = true;
        Some(stream.clone())
    }

    /// Returns what has to be dropped when the lock is released.
    fn insert(&mut self, stream: &CudaStream, ends: u64) -> Vec<CudaStream> {
        let mut removed = Vec::new();
        if self.ends != ends {
            self.ends = ends;
            let before = std::mem::take(&mut self.streams);
            removed.extend(before.into_values().map(|(stream, _)| stream));
        } else if self.streams.len() >= self.sweep_above {
            removed = self.sweep();
        }
        let former = self.streams.insert(stream.as_raw().addr(), (stream.clone(), false));
        removed.extend(former.map(|(stream, _)| stream));
        removed
    }

    /// Removes what was not looked up since the last sweep (second chance, also known as the clock
    /// algorithm) and no thread has in its table. The next sweep is due when the rest has doubled,
    /// so an insertion costs the same however many there are.
    fn sweep(&mut self) -> Vec<CudaStream> {
        let mut removed = Vec::new();
        for (handle, (stream, is_used)) in std::mem::take(&mut self.streams) {
            if is_used || !stream.is_only_handle() {
                self.streams.insert(handle, (stream, false));
            } else {
                removed.push(stream);
            }
        }
        self.sweep_above = KEPT_UNSWEPT.max(2 * self.streams.len());
        removed
    }
}

impl StreamRef<'_> {
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
    /// # let machine = rmm_sim::Machine::new();
    /// # let _entered = machine.enter();
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
        match handle {
            CuStream::NULL | CuStream::LEGACY => return Ok(act(StreamRef::legacy())),
            CuStream::PER_THREAD => return Ok(act(StreamRef::per_thread())),
            _ => {}
        }
        // The table is gone while the thread ends.
        let recent = OF_THREAD.try_with(|recent| recent.find(handle)).ok().flatten();
        if let Some(stream) = recent {
            return Ok(act(stream.as_stream_ref()));
        }
        // SAFETY: the stream exists during this call, by the caller's contract.
        let stream = unsafe { find_or_adopt(handle) }?;
        Ok(act(stream.as_stream_ref()))
    }
}

/// The stream of a handle that is not in the thread's table, into which it goes.
///
/// # Safety
/// As for [`CudaStream::adopt`] with an unknown lifetime.
#[cold]
unsafe fn find_or_adopt(handle: CuStream) -> Result<Rc<CudaStream>, Error> {
    // Before the driver is asked: an end that is noticed later empties the tables again.
    let ends = watch::ends_of_contexts();
    let known = kept().find(handle, ends);
    let stream = if let Some(stream) = known {
        stream
    } else {
        // SAFETY: the caller's contract.
        let stream = unsafe { CudaStream::adopt_unknown(handle) }?;
        let removed = kept().insert(&stream, ends);
        drop(removed);
        stream
    };
    let stream = Rc::new(stream);
    let removed = OF_THREAD.try_with(|recent| recent.insert(&stream, ends));
    drop(removed);
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use rmm_sim::Machine;

    use super::*;
    use crate::WeakStream;

    fn weak_of(handle: CuStream) -> WeakStream {
        // SAFETY: the tests' streams exist until their machines end.
        unsafe { StreamRef::with_raw(handle, |stream| stream.as_stream().downgrade()) }
            .expect("the driver works")
    }

    #[test]
    fn the_tables_stay_small_over_many_streams() {
        let machine = Machine::new();
        let _entered = machine.enter();
        let alive = |streams: &[WeakStream]| {
            streams.iter().filter(|stream| stream.upgrade().is_some()).count()
        };
        let favourite = CudaStream::new().expect("a stream").into_raw().expect("the only one");
        let first = weak_of(favourite);
        let mut streams = Vec::new();
        for _ in 0..5 * KEPT_UNSWEPT {
            let stream = CudaStream::new().expect("a stream").into_raw().expect("the only one");
            streams.push(weak_of(stream));
            assert!(alive(&streams[streams.len() - 1..]) == 1, "the last one is remembered");
            weak_of(favourite);
        }
        assert!(first.upgrade().is_some(), "what is in use is kept");
        let alive = alive(&streams);
        assert!(alive <= 2 * KEPT_UNSWEPT + 2 * RECENT, "{alive} streams of handles are kept");
        // Tests beside this one have a few of their own.
        let kept = kept();
        assert!(kept.streams.len() <= 2 * KEPT_UNSWEPT + 2 * RECENT, "{}", kept.streams.len());
    }
}
