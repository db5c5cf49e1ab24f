//! Conversion of streams from and to driver handles.

use std::any::Any;
use std::sync::Arc;

use rmm_sys::CuStream;

use super::identity::{Identity, driver_id_of, is_captured};
use super::{CudaStream, Inner, StreamKind};
use crate::driver::driver_in_context;
use crate::stream::table;
use crate::{Context, Error, StreamId};

/// How long a stream created outside this library stays valid, see [`CudaStream::adopt`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum StreamLifetime {
    /// Until the last clone of the [`CudaStream`] that the adoption returned is dropped. Memory
    /// freed on it is as cheap to reuse as with a stream of this library.
    UntilDropped,
    /// Only during the calls that it is passed to, while a container is on it, and while a
    /// container that was used on it by `use_on` is not settled, used elsewhere or dropped. Its
    /// owner may destroy it at any other time, even while blocks freed on it are in a pool.
    ///
    /// The driver gives the handle to a new stream then, possibly of another context, which the
    /// next call may be about: the [`CudaStream`] stands for the handle, with an [id](StreamId) of
    /// its own, and [`StreamRef::identify`](crate::StreamRef::identify) returns the identity of the
    /// stream that the handle names now.
    Unknown,
}

impl CudaStream {
    /// Wraps a stream created outside this library, which this library never destroys.
    ///
    /// Adopting a stream again returns the same stream, for as long as a [`CudaStream`] of it is
    /// there, and so does adopting a stream that this library created: pools and containers see one
    /// stream, however many libraries adopt it. A new stream with the handle of an old one is
    /// another stream: its id differs, which the driver is asked for (one call of `cuStreamGetId`).
    /// Streams adopted with an [unknown lifetime](StreamLifetime::Unknown) are apart from the
    /// others.
    ///
    /// ```
    /// use rmm_core::{CudaStream, StreamKind, StreamLifetime};
    ///
    /// # let _machine = rmm_sim::enter();
    /// let handle = CudaStream::new()?.into_raw().expect("it is the only handle");
    /// // SAFETY: nothing destroys the stream.
    /// let adopt = || unsafe { CudaStream::adopt(handle, StreamLifetime::UntilDropped) };
    /// let (first, second) = (adopt()?, adopt()?);
    /// assert_eq!(first, second);
    /// assert_eq!(first.as_raw(), handle);
    /// assert_eq!(first.kind(), StreamKind::Adopted(StreamLifetime::UntilDropped));
    ///
    /// let ours = CudaStream::new()?;
    /// // SAFETY: as long as the result exists, it keeps the stream.
    /// let again = unsafe { CudaStream::adopt(ours.as_raw(), StreamLifetime::UntilDropped) }?;
    /// assert_eq!((again.id(), again.kind()), (ours.id(), StreamKind::Owned));
    /// # Ok::<(), rmm_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// If there is no driver, or it refuses.
    ///
    /// # Safety
    /// `handle` names an existing stream, and stays valid for as long as `lifetime` says. It is of
    /// the current context, unless its lifetime is unknown.
    ///
    /// If it is ever captured, the graph is launched only while the memory that its work uses is
    /// allocated, and in order with all other uses of that memory: containers know nothing of graph
    /// launches. A capture of it does not begin or end on one thread during a call that another
    /// thread makes with it.
    #[doc(alias = "rmm::cuda_stream_view")]
    pub unsafe fn adopt(handle: CuStream, lifetime: StreamLifetime) -> Result<Self, Error> {
        match handle {
            CuStream::NULL | CuStream::LEGACY => Ok(Self::legacy()),
            CuStream::PER_THREAD => Ok(Self::per_thread()),
            // SAFETY: the caller's contract.
            _ if lifetime == StreamLifetime::Unknown => unsafe { Self::adopt_unknown(handle) },
            // SAFETY: the caller's contract.
            _ => unsafe { Self::adopt_until_dropped(handle, Context::current()?) },
        }
    }

    /// Wraps a stream of any context, created outside this library, which exists [until the result
    /// is dropped](StreamLifetime::UntilDropped). Otherwise as [`adopt`](Self::adopt).
    ///
    /// # Errors
    /// The errors of [`adopt`](Self::adopt).
    ///
    /// # Safety
    /// The contract of [`adopt`](Self::adopt), but that the stream is of any context.
    #[doc(hidden)]
    pub unsafe fn adopt_of_any_context(handle: CuStream) -> Result<Self, Error> {
        match handle {
            CuStream::NULL | CuStream::LEGACY => Ok(Self::legacy()),
            CuStream::PER_THREAD => Ok(Self::per_thread()),
            _ => {
                let (driver, _) = driver_in_context()?;
                // SAFETY: the stream exists, by the caller's contract.
                let context = unsafe { Context::of_stream(driver, handle) }?;
                // SAFETY: the caller's contract.
                unsafe { Self::adopt_until_dropped(handle, context) }
            }
        }
    }

    /// # Safety
    /// The contract of [`adopt`](Self::adopt), for a stream of this context.
    unsafe fn adopt_until_dropped(handle: CuStream, context: Context) -> Result<Self, Error> {
        // The driver refuses the id of a stream that is captured.
        // SAFETY: the stream exists, by the caller's contract.
        let driver_id = if unsafe { is_captured(handle) }? {
            None
        } else {
            // SAFETY: as above.
            Some(unsafe { driver_id_of(handle) }?)
        };
        let kind = StreamKind::Adopted(StreamLifetime::UntilDropped);
        let new = Inner::new(handle, StreamId::next(), kind, Some(context), false);
        if let Some(id) = driver_id {
            // It is new, so its id was not set before.
            let _ignored = new.driver_id.set(id);
        }
        // One that this library owns, or that was captured, has not been asked for its id: it is
        // there for as long as its `Inner` is. So is one that is captured now.
        let is_same = |known: &Self| match driver_id {
            Some(id) => *known.inner.driver_id.get_or_init(|| id) == id,
            None => known.inner.identity.is_none(),
        };
        Ok(table::enter_or_get(Self { inner: Arc::new(new) }, is_same))
    }

    /// Wraps a stream of any context, created outside this library, of [unknown
    /// lifetime](StreamLifetime::Unknown). The handle is not that of a default stream.
    ///
    /// # Safety
    /// The handle names a stream that exists now, and during the calls that the result is passed
    /// to.
    pub(in crate::stream) unsafe fn adopt_unknown(handle: CuStream) -> Result<Self, Error> {
        let (driver, _) = driver_in_context()?;
        // SAFETY: the stream exists, by the caller's contract.
        let driver_id = unsafe { driver_id_of(handle) }?;
        // SAFETY: as above.
        let context = unsafe { Context::of_stream(driver, handle) }?;
        let (id, kind) = (StreamId::next_of_handle(), StreamKind::Adopted(StreamLifetime::Unknown));
        let mut new = Inner::new(handle, id, kind, None, false);
        new.identity = Some(Identity::new(driver_id, context));
        // A handle that was last seen in another context, which may have ended, begins anew.
        let is_same = |known: &Self| {
            let identity = known.inner.identity.as_ref();
            identity.is_some_and(|identity| identity.context() == context)
        };
        let stream = table::enter_or_get(Self { inner: Arc::new(new) }, is_same);
        stream.identify_as(driver_id)?;
        Ok(stream)
    }

    /// Wraps a stream created outside this library, which exists for as long as `owner` does: the
    /// stream keeps `owner`, so that containers may outlive every variable of the program's that
    /// refers to the stream.
    ///
    /// Otherwise as [`adopt`](Self::adopt) with [`StreamLifetime::UntilDropped`]. `owner` is
    /// dropped once, on the thread that drops the last [`CudaStream`], after the
    /// [watchers](Self::watch) were called; at once, if the stream has an owner already, is owned
    /// by this library or is a default stream; and never once the process [is
    /// exiting](crate::process_is_exiting), when the driver may be gone. A panic of its destructor
    /// is caught.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use rmm_core::CudaStream;
    /// # use rmm_core::Error;
    /// # use rmm_sys::CuStream;
    ///
    /// /// In its place: the stream type of another library.
    /// struct Theirs(CuStream);
    /// # impl Theirs {
    /// #     fn new() -> Result<Self, Error> {
    /// #         Ok(Self(CudaStream::new()?.into_raw().expect("it is the only handle")))
    /// #     }
    /// # }
    ///
    /// # let _machine = rmm_sim::enter();
    /// let theirs = Arc::new(Theirs::new()?);
    /// let (handle, gone) = (theirs.0, Arc::downgrade(&theirs));
    /// // SAFETY: the stream of the current context exists for as long as `theirs`.
    /// let stream = unsafe { CudaStream::adopt_owned_by(handle, theirs) }?;
    /// stream.synchronize()?;
    /// assert!(gone.upgrade().is_some());
    /// drop(stream);
    /// assert!(gone.upgrade().is_none());
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`adopt`](Self::adopt); `owner` is dropped.
    ///
    /// # Safety
    /// The contract of [`adopt`](Self::adopt), but for the lifetime: the stream exists for as long
    /// as `owner` does.
    pub unsafe fn adopt_owned_by(
        handle: CuStream,
        owner: Arc<dyn Any + Send + Sync>,
    ) -> Result<Self, Error> {
        // SAFETY: the stream exists now, since `owner` does, and then for as long as the result,
        // which keeps an owner or is known to this library as one that needs none.
        let stream = unsafe { Self::adopt(handle, StreamLifetime::UntilDropped) }?;
        if stream.inner.kind == StreamKind::Adopted(StreamLifetime::UntilDropped) {
            // The first owner is kept, even if the stream was adopted without one before: those who
            // did so promise its existence to themselves only.
            let _ignored = stream.inner.owner.set(owner);
        }
        Ok(stream)
    }

    /// Takes ownership of a stream created outside this library: dropping the last clone destroys
    /// it. The default streams are never destroyed.
    ///
    /// The stream has a new identity, also if it was adopted before.
    ///
    /// ```
    /// use rmm_core::CudaStream;
    ///
    /// # let _machine = rmm_sim::enter();
    /// let handle = CudaStream::new()?.into_raw().expect("it is the only handle");
    /// // SAFETY: the stream exists, belongs to the current context, and no other code has its
    /// // handle.
    /// let stream = unsafe { CudaStream::from_raw(handle) }?;
    /// stream.synchronize()?;
    /// let clone = stream.clone();
    /// assert_eq!(stream.into_raw(), Err(clone)); // it is not the only one
    /// # Ok::<(), rmm_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// If there is no driver; then the caller still owns the stream.
    ///
    /// # Safety
    /// `handle` names an existing stream of the current context, which only this library destroys
    /// from now on. For graphs captured from it, the contract of [`adopt`](Self::adopt) holds.
    #[doc(alias = "cuda::stream::from_native_handle")]
    pub unsafe fn from_raw(handle: CuStream) -> Result<Self, Error> {
        match handle {
            CuStream::NULL | CuStream::LEGACY => Ok(Self::legacy()),
            CuStream::PER_THREAD => Ok(Self::per_thread()),
            _ => Ok(Self::new_owned(handle, Context::current()?, false)),
        }
    }

    /// Releases the stream to the caller, who destroys it; an adopted one stays its owner's. Its
    /// [watchers](Self::watch) are called, as before its destruction.
    ///
    /// # Errors
    /// The stream unchanged, if it has other clones; a default stream always has one.
    #[doc(alias = "cuda::stream::release")]
    pub fn into_raw(self) -> Result<CuStream, Self> {
        let mut inner = Arc::try_unwrap(self.inner).map_err(|inner| Self { inner })?;
        if inner.kind == StreamKind::Owned {
            // So that it is dropped without being destroyed.
            inner.kind = StreamKind::Adopted(StreamLifetime::UntilDropped);
        }
        Ok(inner.handle)
    }
}
