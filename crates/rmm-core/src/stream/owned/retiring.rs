//! Callbacks before a stream is destroyed.

use std::fmt;
use std::sync::Weak;

use super::{CudaStream, Inner};
use crate::{Context, CudaEvent, Error, StreamId, fork};

/// A callback before a stream is destroyed, for a pool that holds memory freed on it. **Unstable**:
/// may change in any release.
///
/// ```
/// use std::sync::{Arc, Mutex, Weak};
/// use rmm_core::{CudaEvent, CudaStream, RetiringStream, StreamWatcher};
///
/// /// Keeps the event that marks a stream's end.
/// struct Pool(Mutex<Option<CudaEvent>>);
/// impl StreamWatcher for Pool {
///     fn stream_retires(&self, stream: &RetiringStream<'_>) {
///         let recorded = CudaEvent::new().and_then(|event| stream.record(&event).map(|()| event));
///         *self.0.lock().expect("no thread panics with it") = recorded.ok();
///     }
/// }
///
/// # let _machine = rmm_sim::enter();
/// let pool = Arc::new(Pool(Mutex::new(None)));
/// let watcher: Arc<dyn StreamWatcher> = pool.clone();
/// let stream = CudaStream::new()?;
/// stream.watch(Arc::downgrade(&watcher));
/// drop(stream);
/// let end = pool.0.lock().expect("no thread panics with it").take().expect("it was told");
/// end.synchronize()?; // the stream is gone, its mark is not
/// # Ok::<(), rmm_core::Error>(())
/// ```
pub trait StreamWatcher: Send + Sync {
    /// The stream is about to be destroyed: the last chance to record an event on it.
    ///
    /// It is called on the thread that drops the last [`CudaStream`] (or that
    /// [identifies](crate::StreamRef::identify) another stream of the same handle), with no lock of
    /// this library held. A panic is caught, and does not reach that thread.
    fn stream_retires(&self, stream: &RetiringStream<'_>);
}

impl CudaStream {
    /// Registers `watcher`, which is called once, when the last clone of this stream is dropped and
    /// before the stream is destroyed. Takes time in proportion to the number of watchers.
    ///
    /// A stream of [unknown lifetime](crate::StreamLifetime::Unknown) has several identities:
    /// `watcher` is called whenever [`StreamRef::identify`](crate::StreamRef::identify) finds that
    /// one has ended, and at the end for the last one and for the [handle's](Self::id).
    pub fn watch(&self, watcher: Weak<dyn StreamWatcher>) {
        let mut watchers = fork::lock(&self.inner.watchers);
        watchers.retain(|known| known.strong_count() > 0 && !known.ptr_eq(&watcher));
        watchers.push(watcher);
    }
}

/// A stream that is about to be destroyed. It still takes work while this value is borrowed, unless
/// it was [adopted](CudaStream::adopt) with an [unknown lifetime](crate::StreamLifetime::Unknown),
/// or its handle has come back for another stream that was announced: then it may be gone already.
pub struct RetiringStream<'a> {
    inner: &'a Inner,
    id: StreamId,
}

impl<'a> RetiringStream<'a> {
    pub(super) fn new(inner: &'a Inner, id: StreamId) -> Self {
        Self { inner, id }
    }

    /// The identity that ends.
    pub fn id(&self) -> StreamId {
        self.id
    }

    /// Records `event` at the stream's end.
    ///
    /// # Errors
    /// If the driver refuses, or the stream may be gone already, or is being captured: the event
    /// would become part of the graph.
    pub fn record(&self, event: &CudaEvent) -> Result<(), Error> {
        if self.inner.may_be_gone() {
            return Err(Error::unsupported(
                "RetiringStream::record",
                "the stream's owner may have destroyed it",
            ));
        }
        self.inner.context.map_or(Ok(()), Context::check)?;
        // SAFETY: as below.
        if unsafe { CudaStream::may_be_capturing_raw(self.inner.handle) } {
            return Err(Error::unsupported(
                "RetiringStream::record",
                "the stream is being captured",
            ));
        }
        // SAFETY: the stream is destroyed only after this value is gone: by `Inner::drop` if it is
        // this library's, by its owner after the last `CudaStream` is dropped if it was adopted so.
        unsafe { event.record_raw(self.inner.handle) }
    }
}

impl fmt::Debug for RetiringStream<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetiringStream").field("id", &self.id).finish_non_exhaustive()
    }
}
