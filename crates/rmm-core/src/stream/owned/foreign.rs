//! Conversion of streams from and to driver handles.

use std::sync::{Arc, Mutex};

use rmm_sys::CuStream;

use super::{CudaStream, Inner, StreamKind};
use crate::{Context, Error, StreamId};

/// How long a stream created outside this library stays valid, see [`CudaStream::adopt`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum StreamLifetime {
    /// Until the last [`CudaStream`] of it is dropped. Memory freed on it is as cheap to reuse as
    /// with a stream of this library.
    UntilDropped,
    /// Only during the calls that it is passed to, while a container is on it, and while a
    /// container that was used on it by `use_on` is not settled, used elsewhere or dropped. Its
    /// owner may destroy it at any other time, even while blocks freed on it are in a pool. Each
    /// free therefore records an event.
    Unknown,
}

impl CudaStream {
    /// Wraps a stream created outside this library, which this library never destroys.
    ///
    /// Each call makes a new identity: adopt a stream once and keep the result, since pools treat
    /// two identities as two streams.
    ///
    /// ```
    /// use rmm_core::{CudaStream, StreamKind, StreamLifetime};
    ///
    /// # let machine = rmm_sim::Machine::new();
    /// # let _entered = machine.enter();
    /// let theirs = CudaStream::new()?; // in its place: a stream of another library
    /// // SAFETY: `theirs` lives until the end of the scope, longer than `ours`.
    /// let ours = unsafe { CudaStream::adopt(theirs.as_raw(), StreamLifetime::UntilDropped) }?;
    /// assert_eq!(ours.as_raw(), theirs.as_raw());
    /// assert_eq!(ours.kind(), StreamKind::Adopted(StreamLifetime::UntilDropped));
    /// assert_ne!(ours, theirs); // another identity
    /// # Ok::<(), rmm_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// If there is no driver.
    ///
    /// # Safety
    /// `handle` names an existing stream of the current context, and stays valid for as long as
    /// `lifetime` says.
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
            _ => Ok(Self::from_inner(Inner {
                handle,
                id: StreamId::next(),
                kind: StreamKind::Adopted(lifetime),
                context: Some(Context::current()?),
                is_non_blocking: false,
                watchers: Mutex::default(),
            })),
        }
    }

    /// Takes ownership of a stream created outside this library: dropping the last clone destroys
    /// it. The default streams are never destroyed.
    ///
    /// ```
    /// use rmm_core::CudaStream;
    ///
    /// # let machine = rmm_sim::Machine::new();
    /// # let _entered = machine.enter();
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
        // SAFETY: the caller's contract: no other code destroys it.
        let mut stream = unsafe { Self::adopt(handle, StreamLifetime::UntilDropped) }?;
        // The default streams have other handles, and stay what they are.
        if let Some(inner) = Arc::get_mut(&mut stream.inner) {
            inner.kind = StreamKind::Owned;
        }
        Ok(stream)
    }

    /// Releases the stream to the caller, who destroys it. Its [watchers](Self::watch) are called,
    /// as before its destruction.
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
