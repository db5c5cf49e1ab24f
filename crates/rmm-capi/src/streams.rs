//! The streams that raw handles name.
//!
//! ```text
//! handle ── 0, 1, 2 ──────────────> the default streams
//!    |
//!    ├── in the thread's table ───> a known stream       no lock, no atomic read-modify-write
//!    |
//!    ├── in the process's table ──> a known stream       a lock
//!    |
//!    ├── the resource keeps ──────> adopted until forgotten, and known from here on
//!    |
//!    └── else ────────────────────> a stream of unknown end: the driver is asked for its id
//! ```
//!
//! A known stream is one whose end this library is told.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use dashmap::DashMap;
use dashmap::mapref::entry::Entry;
use rmm_core::sys::CuStream;
use rmm_core::{Context, CudaStream, Error, StreamLifetime, StreamRef};

use crate::resource::Resource;

/// A stream whose end this library is told.
#[derive(Debug)]
pub(crate) struct Known {
    /// Behind an `Arc`, so that it stays where it is while the table grows.
    stream: Arc<CudaStream>,
    /// The adoptions that were not released yet.
    adoptions: usize,
}

static KNOWN: LazyLock<DashMap<CuStream, Known>> = LazyLock::new(DashMap::new);

/// How often an entry was removed from [`KNOWN`]. What a thread's table has is valid while this
/// stays as it was.
static REMOVALS: AtomicU64 = AtomicU64::new(0);

const SLOTS: usize = 64;

#[derive(Clone, Copy)]
struct Recent {
    handle: CuStream,
    /// # Invariant
    /// Points to a stream in [`KNOWN`], unless [`REMOVALS`] differs from `removals`.
    stream: *const CudaStream,
    removals: u64,
}

thread_local! {
    static RECENT: [Cell<Recent>; SLOTS] = const {
        [const { Cell::new(Recent { handle: CuStream::NULL, stream: ptr::null(), removals: 0 }) }; SLOTS]
    };
}

fn slot_of(handle: CuStream) -> usize {
    // Fibonacci hashing (Knuth): the product's upper bits depend on all bits of the address.
    let hash = (handle.as_raw().addr() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    usize::try_from(hash >> 58).unwrap_or(0)
}

/// Whether the handle means a default stream of the device that is current.
pub(crate) fn is_default(handle: CuStream) -> bool {
    matches!(handle, CuStream::NULL | CuStream::LEGACY | CuStream::PER_THREAD)
}

/// Calls `act` with the stream, if it is one of the thread's recent ones.
///
/// # Safety
/// No thread [forgets](forget) the handle during the call.
#[inline]
unsafe fn with_recent<R, A: FnOnce(StreamRef<'_>) -> R>(handle: CuStream, act: A) -> Result<R, A> {
    let slot = RECENT.try_with(|recent| recent[slot_of(handle)].get()).ok();
    // Acquire: what a thread did before it forgot a stream comes before what is done here then.
    let removals = REMOVALS.load(Ordering::Acquire);
    match slot {
        Some(slot)
            if slot.handle == handle && slot.removals == removals && !slot.stream.is_null() =>
        {
            // SAFETY: by the invariant the stream is in the table, where it stays during this call,
            // by the caller's contract; and it is only read.
            let stream = unsafe { &*slot.stream };
            Ok(act(stream.as_stream_ref()))
        }
        _ => Err(act),
    }
}

/// The stream of a handle in the process's table, which becomes one of the thread's recent ones.
fn find(handle: CuStream) -> Option<Arc<CudaStream>> {
    // Before the look: a removal after it makes the slot invalid.
    let removals = REMOVALS.load(Ordering::Acquire);
    let stream = KNOWN.get(&handle).map(|known| Arc::clone(&known.stream))?;
    let slot = Recent { handle, stream: Arc::as_ptr(&stream), removals };
    let _ending = RECENT.try_with(|recent| recent[slot_of(handle)].set(slot));
    Some(stream)
}

/// Calls `act` with the stream that a handle names.
///
/// # Errors
/// If there is no driver, or it does not know the handle; then `act` is not called.
///
/// # Safety
/// The handle is 0, 1 or 2, or names a stream that exists during the call, during which no thread
/// [forgets](forget) it; and, if it was adopted or `resource` keeps streams, until a thread does.
#[inline]
pub(crate) unsafe fn with<R>(
    handle: CuStream,
    resource: &Resource,
    act: impl FnOnce(StreamRef<'_>) -> R,
) -> Result<R, Error> {
    // SAFETY: the caller's contract.
    unsafe { with_policy(handle, || resource.keeps_streams(), act) }
}

/// As [`with`], for a resource that keeps streams.
///
/// # Safety
/// The handle is 0, 1 or 2, or names a stream that exists until a thread [forgets](forget) it.
#[inline]
pub(crate) unsafe fn with_kept<R>(
    handle: CuStream,
    act: impl FnOnce(StreamRef<'_>) -> R,
) -> Result<R, Error> {
    // SAFETY: the caller's contract.
    unsafe { with_policy(handle, || true, act) }
}

/// # Safety
/// As [`with`]; `keeps` says whether the resource keeps streams.
#[inline]
unsafe fn with_policy<R>(
    handle: CuStream,
    keeps: impl FnOnce() -> bool,
    act: impl FnOnce(StreamRef<'_>) -> R,
) -> Result<R, Error> {
    match handle {
        CuStream::NULL | CuStream::LEGACY => return Ok(act(StreamRef::legacy())),
        CuStream::PER_THREAD => return Ok(act(StreamRef::per_thread())),
        _ => {}
    }
    // SAFETY: the caller's contract.
    match unsafe { with_recent(handle, act) } {
        Ok(result) => Ok(result),
        // SAFETY: the caller's contract.
        Err(act) => unsafe { with_other(handle, keeps, act) },
    }
}

/// # Safety
/// As [`with_policy`].
#[inline(never)]
unsafe fn with_other<R>(
    handle: CuStream,
    keeps: impl FnOnce() -> bool,
    act: impl FnOnce(StreamRef<'_>) -> R,
) -> Result<R, Error> {
    if let Some(stream) = find(handle) {
        return Ok(act(stream.as_stream_ref()));
    }
    if keeps() {
        // SAFETY: the caller's contract: the stream exists until it is forgotten.
        let stream = unsafe { keep(handle) }?;
        return Ok(act(stream.as_stream_ref()));
    }
    // SAFETY: the stream exists during this call, by the caller's contract.
    unsafe { StreamRef::with_raw(handle, act) }
}

/// Calls `act` with the stream that a handle names, if it is a default stream or known. Calls no
/// driver, and takes no lock but for a stream that is new to the thread.
///
/// # Safety
/// As [`with`].
pub(crate) unsafe fn with_known<R>(
    handle: CuStream,
    act: impl FnOnce(StreamRef<'_>) -> R,
) -> Option<R> {
    match handle {
        CuStream::NULL | CuStream::LEGACY => return Some(act(StreamRef::legacy())),
        CuStream::PER_THREAD => return Some(act(StreamRef::per_thread())),
        _ => {}
    }
    // SAFETY: the caller's contract.
    match unsafe { with_recent(handle, act) } {
        Ok(result) => Some(result),
        Err(act) => find(handle).map(|stream| act(stream.as_stream_ref())),
    }
}

/// Adopts a stream of any context, until the result is dropped.
///
/// # Safety
/// The handle names a stream that exists until then.
pub(crate) unsafe fn adopt(handle: CuStream) -> Result<CudaStream, Error> {
    // SAFETY: the stream exists during this call, by the caller's contract.
    let named = unsafe { CudaStream::adopt(handle, StreamLifetime::Unknown) }?;
    // The caller has any context current, and a stream is adopted in its own.
    let _entered = named.own_context().map(Context::enter).transpose()?;
    // SAFETY: the stream exists until the result is dropped, by the caller's contract.
    unsafe { CudaStream::adopt(handle, StreamLifetime::UntilDropped) }
}

/// The stream of a handle, kept until it is [forgotten](forget).
///
/// # Safety
/// The handle names a stream that exists until it is forgotten.
unsafe fn keep(handle: CuStream) -> Result<Arc<CudaStream>, Error> {
    // SAFETY: the caller's contract. It is dropped when the handle is forgotten.
    let stream = Arc::new(unsafe { adopt(handle) }?);
    Ok(match KNOWN.entry(handle) {
        Entry::Occupied(known) => Arc::clone(&known.get().stream),
        Entry::Vacant(vacant) => {
            let _kept = vacant.insert(Known { stream: Arc::clone(&stream), adoptions: 0 });
            stream
        }
    })
}

/// Enters a stream whose end this library will be told, by [`release`].
pub(crate) fn enter(stream: &Arc<CudaStream>) {
    let handle = stream.as_raw();
    let mut replaced = None;
    match KNOWN.entry(handle) {
        Entry::Occupied(mut known) => {
            let known = known.get_mut();
            if *known.stream == **stream {
                known.adoptions += 1;
            } else {
                // Another stream had the handle, and no caller said that it ended.
                let new = Known { stream: Arc::clone(stream), adoptions: 1 };
                replaced = Some(std::mem::replace(known, new));
                let _counted = REMOVALS.fetch_add(1, Ordering::Release);
            }
        }
        Entry::Vacant(vacant) => {
            let _entered = vacant.insert(Known { stream: Arc::clone(stream), adoptions: 1 });
        }
    }
    // Without the lock: the pools are told, which may run code of the program.
    drop(replaced);
}

/// Ends one adoption of a stream that was [entered](enter); with the last one it is not known any
/// more.
pub(crate) fn release(stream: &Arc<CudaStream>) {
    let handle = stream.as_raw();
    let mut removed = None;
    if let Entry::Occupied(mut known) = KNOWN.entry(handle)
        && *known.get().stream == **stream
    {
        let entry = known.get_mut();
        entry.adoptions = entry.adoptions.saturating_sub(1);
        if entry.adoptions == 0 {
            let _counted = REMOVALS.fetch_add(1, Ordering::Release);
            removed = Some(known.remove());
        }
    }
    drop(removed);
}

/// Forgets a handle, whose stream may be destroyed from now on. Returns whether it was known.
pub(crate) fn forget(handle: CuStream) -> bool {
    let removed = KNOWN.remove(&handle);
    if removed.is_some() {
        let _counted = REMOVALS.fetch_add(1, Ordering::Release);
    }
    removed.is_some()
}
