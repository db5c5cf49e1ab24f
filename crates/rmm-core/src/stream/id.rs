//! Identity of streams.

use crate::fork;
use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

/// The identity of a stream: a number that is unique in the process and never reused. A key for
/// per-stream state.
///
/// ```
/// use rmm_core::{CudaStream, StreamRef};
///
/// # let _machine = rmm_sim::enter();
/// let stream = CudaStream::new()?;
/// assert_eq!(stream.id(), stream.clone().id());
/// assert_ne!(stream.id(), CudaStream::new()?.id());
/// assert_eq!(StreamRef::legacy().id().to_string(), "legacy");
/// # Ok::<(), rmm_core::Error>(())
/// ```
#[doc(alias = "cuda::stream_ref::id")]
#[doc(alias = "cudaStreamGetId")]
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamId(NonZeroU64);

/// The legacy default stream's id.
const LEGACY: StreamId = StreamId(NonZeroU64::MIN.saturating_add(StreamId::OF_DEFAULT));

/// The id of [`StreamRef::legacy_of_own_work`](crate::StreamRef::legacy_of_own_work).
const LEGACY_OF_OWN_WORK: StreamId = StreamId(LEGACY.0.saturating_add(1));

/// The next id. No process makes 2^62 streams, so it does not reach the bits for kinds of streams.
static NEXT: AtomicU64 = AtomicU64::new(3);

/// The names of the streams that have one. Lock order: leaf.
static NAMES: Mutex<BTreeMap<StreamId, String>> = Mutex::new(BTreeMap::new());

fn names() -> MutexGuard<'static, BTreeMap<StreamId, String>> {
    fork::lock(&NAMES)
}

thread_local! {
    /// The id of this thread's own default stream.
    static OF_THREAD: StreamId = StreamId::next_of_thread();
}

impl StreamId {
    /// Set in the id of a handle whose stream may change between calls.
    #[doc(hidden)]
    pub const OF_HANDLE: u64 = 1 << 63;

    /// Set in the id of a default stream, whose handle means another stream in each context.
    #[doc(hidden)]
    pub const OF_DEFAULT: u64 = 1 << 62;

    /// The legacy default stream's id.
    pub(super) const fn legacy() -> Self {
        LEGACY
    }

    /// The legacy default stream's id for memory that only its own work uses.
    pub(super) const fn legacy_of_own_work() -> Self {
        LEGACY_OF_OWN_WORK
    }

    /// An id that no other stream has.
    pub(super) fn next() -> Self {
        // Relaxed: the numbers only have to be distinct, and atomic addition ensures that.
        Self(NonZeroU64::new(NEXT.fetch_add(1, Ordering::Relaxed)).unwrap_or(NonZeroU64::MAX))
    }

    /// An id that no other handle has, for a handle whose stream may change between calls.
    pub(super) fn next_of_handle() -> Self {
        Self(Self::next().0 | Self::OF_HANDLE)
    }

    /// An id that no other thread has, for its own default stream.
    fn next_of_thread() -> Self {
        Self(Self::next().0 | Self::OF_DEFAULT)
    }

    /// The id with this number, which [`get`](Self::get) returned.
    pub(super) fn from_number(number: u64) -> Self {
        Self(NonZeroU64::new(number).unwrap_or(NonZeroU64::MIN))
    }

    /// The id of the calling thread's own default stream.
    pub(super) fn of_this_thread() -> Self {
        // The thread-local is gone while the thread ends: work that is still enqueued gets a new
        // id, under which no block was ever freed.
        OF_THREAD.try_with(|id| *id).unwrap_or_else(|_| Self::next_of_thread())
    }

    pub(super) fn set_name(self, name: String) {
        names().insert(self, name);
    }

    /// Called when the stream is destroyed.
    pub(super) fn forget_name(self) {
        names().remove(&self);
    }

    pub(super) fn name(self) -> Option<String> {
        // Messages show it, also where the lock may be the parent's.
        if fork::is_child() { None } else { names().get(&self).cloned() }
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0.get()
    }

    /// Whether it is the id of a handle whose stream may change between calls, so that
    /// [`StreamRef::identify`](crate::StreamRef::identify) has to find the stream. For authors of
    /// resources. **Unstable**: may change in any release.
    ///
    /// ```
    /// use rmm_core::{CudaStream, StreamRef};
    ///
    /// # let _machine = rmm_sim::enter();
    /// assert!(!CudaStream::new()?.id().needs_identification());
    /// assert!(!StreamRef::per_thread().id().needs_identification());
    /// # Ok::<(), rmm_core::Error>(())
    /// ```
    #[inline]
    pub const fn needs_identification(self) -> bool {
        self.0.get() & Self::OF_HANDLE != 0
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if matches!(*self, LEGACY | LEGACY_OF_OWN_WORK) {
            return f.write_str("legacy");
        }
        write!(f, "#{}", self.get() & !(Self::OF_HANDLE | Self::OF_DEFAULT))?;
        match self.name() {
            Some(name) => write!(f, " {name:?}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StreamId({self})")
    }
}
