//! Streams made outside this library, or handed over to its caller.

use std::sync::{Arc, Mutex};

use rmm_sys::CuStream;

use super::{CudaStream, Inner, StreamKind};
use crate::{Context, Error, StreamId};

/// How long a stream made outside this library stays valid, see [`CudaStream::adopt`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum StreamLifetime {
    /// Until the last [`CudaStream`] that stands for it is dropped. Memory freed on it is as cheap
    /// to reuse as with a stream of this library.
    UntilDropped,
    /// Only during the calls that it is given to, and for as long as a container is on it, or has
    /// work there by `use_on` and is not settled, used elsewhere or dropped since: its owner may
    /// destroy it at any time in between, although blocks freed on it are still pooled. Each free
    /// then records an event.
    Unknown,
}

impl CudaStream {
    /// A stream made outside this library. It is never destroyed by this library.
    ///
    /// Each call makes a new identity: adopt a stream once and keep the result, since memory freed
    /// under one identity is, for another, memory of another stream.
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
    /// If it is ever captured, here or where it came from, the graph is launched only while the
    /// memory that its work uses is there, and in order with all other uses of that memory:
    /// libraries have safe calls that launch graphs, and containers know of none. Nor does a
    /// capture of it begin or end on one thread during a call that another makes for it.
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

    /// A stream made outside this library and handed over: it is destroyed with the last clone, as one
    /// that this library made. The default streams are never destroyed.
    ///
    /// ```
    /// use rmm_core::CudaStream;
    ///
    /// # let machine = rmm_sim::Machine::new();
    /// # let _entered = machine.enter();
    /// let handle = CudaStream::new()?.into_raw().expect("it is the only handle");
    /// // SAFETY: the stream exists, belongs to the current context, and no other code has its handle.
    /// let stream = unsafe { CudaStream::from_raw(handle) }?;
    /// stream.synchronize()?;
    /// let clone = stream.clone();
    /// assert_eq!(stream.into_raw(), Err(clone)); // it is not the only one
    /// # Ok::<(), rmm_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// If there is no driver; then the stream is still the caller's.
    ///
    /// # Safety
    /// `handle` names an existing stream of the current context, which only this library destroys
    /// from now on. For graphs that are captured from it the same holds as for
    /// [`adopt`](Self::adopt).
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

    /// Hands the stream over to the caller, who destroys it. Whoever [watches](Self::watch) it is
    /// told, as if it were destroyed.
    ///
    /// # Errors
    /// The stream as it was, if it has other clones; a default stream always has one.
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
