//! Owned streams.

mod foreign;
mod identify;
mod identity;
mod methods;
mod retiring;
mod weak;

use std::any::Any;
use std::ffi::{c_int, c_uint};
use std::fmt;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError, Weak};

use rmm_sys::{CuResult, CuStream, STREAM_NON_BLOCKING};

use self::identity::Identity;
use super::StreamId;
use super::table::{self, Key};
use crate::annotate::name_stream;
use crate::driver::{check, driver_for_drop, driver_in_context, loaded_driver};
use crate::{Context, Device, Error, fork, process_is_exiting};

pub use foreign::StreamLifetime;
pub use retiring::{RetiringStream, StreamWatcher};
pub use weak::WeakStream;

bitflags::bitflags! {
    /// Flags for [`CudaStream::with_flags`]. Without any (`sync_default`), the stream synchronizes
    /// with the legacy default stream.
    ///
    /// ```
    /// use rmm_core::{CudaStream, StreamFlags};
    ///
    /// # let _machine = rmm_sim::enter();
    /// assert!(CudaStream::with_flags(StreamFlags::NON_BLOCKING, 0)?.is_non_blocking());
    /// assert!(!CudaStream::with_flags(StreamFlags::empty(), 0)?.is_non_blocking());
    /// # Ok::<(), rmm_core::Error>(())
    /// ```
    #[doc(alias = "rmm::cuda_stream::flags")]
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct StreamFlags: u32 {
        /// The stream does not synchronize with the legacy default stream.
        #[doc(alias = "cudaStreamNonBlocking")]
        #[doc(alias = "non_blocking")]
        const NON_BLOCKING = STREAM_NON_BLOCKING;
    }
}

/// The kind of a stream.
///
/// ```
/// use rmm_core::{CudaStream, StreamKind};
///
/// # let _machine = rmm_sim::enter();
/// assert_eq!(CudaStream::new()?.kind(), StreamKind::Owned);
/// assert_eq!(CudaStream::per_thread().kind(), StreamKind::PerThread);
/// # Ok::<(), rmm_core::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum StreamKind {
    /// The legacy default stream of the current context.
    Legacy,
    /// The calling thread's own default stream: another stream on each thread.
    PerThread,
    /// Destroyed with its last [`CudaStream`]: created by this library, or [owned by
    /// it](CudaStream::from_raw).
    Owned,
    /// Created outside this library, see [`CudaStream::adopt`].
    Adopted(StreamLifetime),
}

/// A shared handle to a stream: clones are the same stream, and dropping the last one destroys it,
/// if this library owns it.
///
/// Destroying a stream does not wait for its work. [`StreamRef`](crate::StreamRef) has the same
/// methods.
///
/// ```
/// use rmm_core::{CudaStream, StreamFlags};
///
/// # fn main() -> Result<(), rmm_core::Error> {
/// # let _machine = rmm_sim::enter();
/// let stream = CudaStream::with_flags(StreamFlags::NON_BLOCKING, 0)?;
/// let same = stream.clone();
/// assert_eq!(stream, same);
/// assert_ne!(stream, CudaStream::new()?);
/// stream.synchronize()?;
/// # Ok(())
/// # }
/// ```
#[doc(alias = "rmm::cuda_stream")]
#[doc(alias = "cuda::stream")]
#[derive(Clone)]
pub struct CudaStream {
    inner: Arc<Inner>,
}

struct Inner {
    handle: CuStream,
    /// # Invariant
    /// No other stream of this process has this id. For [`StreamKind::PerThread`] it is the id of
    /// no stream: the id is the calling thread's. If and only if there is an `identity`, it is the
    /// id of the handle.
    id: StreamId,
    kind: StreamKind,
    /// Where the stream was made or adopted. The default streams belong to the context that is
    /// current when they are used, and a handle of unknown lifetime to that of its `identity`.
    context: Option<Context>,
    /// Whether it is known never to synchronize with the legacy default stream.
    is_non_blocking: bool,
    /// Called before the stream is destroyed.
    watchers: Mutex<Vec<Weak<dyn StreamWatcher>>>,
    /// The driver's id of the stream, once an adoption has asked for it.
    driver_id: OnceLock<u64>,
    /// Whether the handle names another stream by now: no one said that this one ended.
    is_replaced: AtomicBool,
    /// Which stream the handle names, if its lifetime is unknown.
    identity: Option<Identity>,
    /// What keeps an adopted stream in existence. Not dropped while the process exits: its
    /// destructor would call the driver.
    owner: ManuallyDrop<OnceLock<Arc<dyn Any + Send + Sync>>>,
}

impl Inner {
    /// A stream that has no watcher and no owner.
    fn new(
        handle: CuStream,
        id: StreamId,
        kind: StreamKind,
        context: Option<Context>,
        is_non_blocking: bool,
    ) -> Self {
        Self {
            handle,
            id,
            kind,
            context,
            is_non_blocking,
            watchers: Mutex::default(),
            driver_id: OnceLock::new(),
            is_replaced: AtomicBool::new(false),
            identity: None,
            owner: ManuallyDrop::default(),
        }
    }

    /// Whether the handle may name another stream when this value is dropped.
    fn may_be_gone(&self) -> bool {
        self.kind == StreamKind::Adopted(StreamLifetime::Unknown)
            || self.is_replaced.load(Ordering::Relaxed)
    }

    /// The key of the stream's entry in the table, and the id in it. The default streams have none.
    fn entry(&self) -> (Key, StreamId) {
        ((self.handle.addr(), self.context.map(Context::key)), self.id)
    }
}

static LEGACY: LazyLock<CudaStream> = LazyLock::new(|| {
    CudaStream::default_stream(CuStream::LEGACY, StreamId::legacy(), StreamKind::Legacy)
});
static LEGACY_OF_OWN_WORK: LazyLock<CudaStream> = LazyLock::new(|| {
    let id = StreamId::legacy_of_own_work();
    CudaStream::default_stream(CuStream::LEGACY, id, StreamKind::Legacy)
});
static PER_THREAD: LazyLock<CudaStream> = LazyLock::new(|| {
    CudaStream::default_stream(CuStream::PER_THREAD, StreamId::next(), StreamKind::PerThread)
});

impl CudaStream {
    /// A new stream of the current device that synchronizes with the legacy default stream.
    ///
    /// # Errors
    /// If the driver refuses.
    #[doc(alias = "cudaStreamCreate")]
    pub fn new() -> Result<Self, Error> {
        Self::with_flags(StreamFlags::empty(), 0)
    }

    /// A new stream of the current device that does not synchronize with the legacy default stream.
    /// What most programs want: work on the default stream, which libraries may use, delays nothing
    /// here.
    ///
    /// ```
    /// use rmm_core::CudaStream;
    ///
    /// # let _machine = rmm_sim::enter();
    /// assert!(CudaStream::non_blocking()?.is_non_blocking());
    /// # Ok::<(), rmm_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the driver refuses.
    #[doc(alias = "cudaStreamCreateWithFlags")]
    pub fn non_blocking() -> Result<Self, Error> {
        Self::with_flags(StreamFlags::NON_BLOCKING, 0)
    }

    /// Names the stream, and all its clones, for messages: `Debug` and errors show the name beside
    /// the [id](StreamId), and the reports of the software device beside the driver's id. The
    /// default streams have no other names.
    ///
    /// ```
    /// use rmm_core::CudaStream;
    ///
    /// # let _machine = rmm_sim::enter();
    /// let upload = CudaStream::new()?.with_name("upload");
    /// assert_eq!(upload.clone().name().as_deref(), Some("upload"));
    /// assert!(upload.id().to_string().ends_with(" \"upload\""));
    /// assert!(format!("{upload:?}").contains("upload"));
    /// # Ok::<(), rmm_core::Error>(())
    /// ```
    #[doc(alias = "nvtxNameCudaStreamA")]
    #[must_use = "the stream is returned"]
    pub fn with_name(self, name: impl Into<String>) -> Self {
        if !matches!(self.inner.kind, StreamKind::Legacy | StreamKind::PerThread) {
            let name = name.into();
            name_stream(self.inner.handle, &name);
            if let Some(identity) = &self.inner.identity {
                identity.set_name(name.clone());
            }
            self.inner.id.set_name(name);
        }
        self
    }

    /// A new stream of the current device with these flags and this priority (lower numbers go
    /// first, 0 is the default; numbers outside the [device's range](crate::stream_priority_range)
    /// are clamped to it).
    ///
    /// # Errors
    /// If the driver refuses.
    #[doc(alias = "cudaStreamCreateWithPriority")]
    pub fn with_flags(flags: StreamFlags, priority: c_int) -> Result<Self, Error> {
        let context = Context::current()?;
        let driver = loaded_driver()?;
        let mut handle = CuStream::NULL;
        // SAFETY: `handle` may be written to.
        let code =
            unsafe { driver.cuStreamCreateWithPriority(&raw mut handle, flags.bits(), priority) };
        check("cuStreamCreateWithPriority", code)?;
        let is_non_blocking = flags.contains(StreamFlags::NON_BLOCKING);
        Ok(Self::new_owned(handle, context, is_non_blocking))
    }

    /// The legacy default stream.
    #[doc(alias = "cuda_stream_legacy")]
    #[doc(alias = "cuda_stream_default")]
    pub fn legacy() -> Self {
        LEGACY.clone()
    }

    /// The calling thread's own default stream. The value may be kept and sent; it always means the
    /// stream of the thread that uses it.
    #[doc(alias = "cuda_stream_per_thread")]
    pub fn per_thread() -> Self {
        PER_THREAD.clone()
    }

    /// The key of the stream's entry in the table, and the id in it.
    pub(super) fn entry(&self) -> (Key, StreamId) {
        self.inner.entry()
    }

    /// Notes that the handle names another stream: when this one is dropped, no event is recorded
    /// on the handle, and the stream is not destroyed.
    pub(super) fn note_replaced(&self) {
        // Relaxed: the drop comes after that of the caller's reference.
        self.inner.is_replaced.store(true, Ordering::Relaxed);
    }

    fn default_stream(handle: CuStream, id: StreamId, kind: StreamKind) -> Self {
        Self { inner: Arc::new(Inner::new(handle, id, kind, None, false)) }
    }

    /// A stream that only this library destroys, under a new identity.
    fn new_owned(handle: CuStream, context: Context, is_non_blocking: bool) -> Self {
        let (id, kind) = (StreamId::next(), StreamKind::Owned);
        let inner = Arc::new(Inner::new(handle, id, kind, Some(context), is_non_blocking));
        let stream = Self { inner };
        table::replace(&stream);
        stream
    }

    /// A stream that no driver knows.
    #[cfg(test)]
    pub(super) fn of_no_driver(handle: CuStream, context: Context) -> Self {
        let kind = StreamKind::Adopted(StreamLifetime::UntilDropped);
        Self { inner: Arc::new(Inner::new(handle, StreamId::next(), kind, Some(context), false)) }
    }

    /// The legacy default stream, for as long as the process runs.
    pub(super) fn legacy_static() -> &'static Self {
        &LEGACY
    }

    /// [`StreamRef::legacy_of_own_work`](crate::StreamRef::legacy_of_own_work).
    pub(super) fn legacy_of_own_work_static() -> &'static Self {
        &LEGACY_OF_OWN_WORK
    }

    /// The calling thread's own default stream, for as long as the process runs.
    pub(super) fn per_thread_static() -> &'static Self {
        &PER_THREAD
    }

    /// The stream's identity, as the calling thread sees it: the per-thread default stream is
    /// another stream on each thread.
    #[inline]
    pub(super) fn id_on_this_thread(&self) -> StreamId {
        match self.inner.kind {
            StreamKind::PerThread => StreamId::of_this_thread(),
            _ => self.inner.id,
        }
    }

    /// The driver's handle.
    #[doc(alias = "rmm::cuda_stream::value")]
    pub fn as_raw(&self) -> CuStream {
        self.inner.handle
    }

    /// What kind of stream it is.
    pub fn kind(&self) -> StreamKind {
        self.inner.kind
    }

    /// The context that the stream was made in; `None` for the default streams, which belong to the
    /// context that is current when they are used.
    pub fn own_context(&self) -> Option<Context> {
        self.inner.identity.as_ref().map(Identity::context).or(self.inner.context)
    }

    /// Whether the stream is known never to synchronize with the legacy default stream, so that
    /// only its own work and the events that it waits for can delay it.
    pub fn is_non_blocking(&self) -> bool {
        self.inner.is_non_blocking
    }

    /// Whether the stream with this handle is being captured, or the driver cannot say: then a
    /// library must neither enqueue work on it nor query it.
    ///
    /// # Safety
    /// The handle names a stream that exists now and until this call returns.
    #[doc(alias = "cudaStreamIsCapturing")]
    pub unsafe fn may_be_capturing_raw(handle: CuStream) -> bool {
        // SAFETY: the caller's contract.
        unsafe { identity::is_captured(handle) }.unwrap_or(true)
    }

    /// Whether all work on the stream with this handle has completed. Never blocks.
    ///
    /// Work that the stream would wait for if it had any, such as the legacy default stream's for a
    /// blocking stream, does not count.
    ///
    /// # Errors
    /// If the driver refuses, or that work has failed.
    ///
    /// # Safety
    /// The handle names a stream that exists now and until this call returns.
    #[doc(alias = "cudaStreamQuery")]
    pub unsafe fn is_idle_raw(handle: CuStream) -> Result<bool, Error> {
        let (driver, _) = driver_in_context()?;
        // SAFETY: the stream exists, by the caller's contract.
        match unsafe { driver.cuStreamQuery(handle) } {
            CuResult::NOT_READY => Ok(false),
            code => check("cuStreamQuery", code).map(|()| true),
        }
    }
}

impl Device {
    /// A new stream of this device, whichever device is current. As
    /// [`CudaStream::non_blocking`], it does not synchronize with
    /// the legacy default stream.
    ///
    /// ```
    /// use rmm_core::Device;
    ///
    /// # let _machine = rmm_sim::Machine::builder().devices(2).enter();
    /// for device in Device::all()? {
    ///     assert_eq!(device.new_stream()?.device()?, device);
    /// }
    /// # Ok::<(), rmm_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn new_stream(self) -> Result<CudaStream, Error> {
        let _current = self.make_current()?;
        CudaStream::non_blocking()
    }
}

impl PartialEq for CudaStream {
    fn eq(&self, other: &Self) -> bool {
        self.id_on_this_thread() == other.id_on_this_thread()
    }
}

impl Eq for CudaStream {}

impl fmt::Debug for CudaStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { handle, id, kind, .. } = &*self.inner;
        f.debug_struct("CudaStream")
            .field("id", id)
            .field("kind", kind)
            .field("handle", handle)
            .finish()
    }
}

impl Inner {
    /// Calls the watchers for an identity that ends.
    fn retire(&self, watchers: &[Weak<dyn StreamWatcher>], id: StreamId) {
        for watcher in watchers.iter().filter_map(Weak::upgrade) {
            let retiring = RetiringStream::new(self, id);
            // A panic must not keep the other watchers from being called, or they would use the
            // stream after its end. The panic hook has reported it; it must not leave a `Drop`.
            let _ignored =
                catch_unwind(AssertUnwindSafe(move || watcher.stream_retires(&retiring)));
        }
    }

    /// Calls the watchers, and destroys the stream if this library owns it.
    fn end(&mut self) {
        let Some(driver) = driver_for_drop() else { return };
        let watchers =
            std::mem::take(self.watchers.get_mut().unwrap_or_else(PoisonError::into_inner));
        if let Some(identity) = &self.identity {
            self.retire(&watchers, identity.last());
        }
        self.retire(&watchers, self.id);
        if self.kind == StreamKind::Owned
            && !self.may_be_gone()
            && !self.context.is_some_and(Context::has_ended)
        {
            // SAFETY: the stream is owned and no `CudaStream` refers to it any more: this is its
            // last use. A failure means that the driver is gone: nothing is left to free.
            let _ignored = unsafe { driver.cuStreamDestroy_v2(self.handle) };
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if fork::is_child() {
            return;
        }
        self.id.forget_name();
        if let Some(identity) = &self.identity {
            identity.last().forget_name();
        }
        table::remove(self.entry());
        // While the process exits, no watcher is called and no owner dropped: the stream is not
        // destroyed, and both would call the driver.
        if process_is_exiting() {
            return;
        }
        self.end();
        // Only now, after the last use of the stream. A panic must not leave a `Drop`.
        if let Some(owner) = self.owner.take() {
            // The panic hook has reported a panic.
            let _ignored = catch_unwind(AssertUnwindSafe(move || drop(owner)));
        }
    }
}

const _: () = {
    const fn crosses_threads<T: Send + Sync>() {}
    crosses_threads::<CudaStream>();
    assert!(size_of::<c_uint>() == size_of::<u32>());
};
