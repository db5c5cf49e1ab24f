//! Streams of unknown lifetime: which stream the handle names now.

use super::CudaStream;
use super::identity::{Identity, driver_id_of};
use crate::annotate::name_stream;
use crate::driver::{driver_in_context, loaded_driver};
use crate::{Context, Error, StreamId, StreamRef, fork};

impl StreamRef<'_> {
    /// The identity of the stream itself, for authors of resources: what memory freed on the stream
    /// is kept by. **Unstable**: may change in any release.
    ///
    /// It is the [`id`](Self::id), without a driver call, for all streams but those whose handle
    /// was [adopted](CudaStream::adopt) with an [unknown lifetime](crate::StreamLifetime::Unknown):
    /// between two calls, the driver may have given that handle to a new stream, and the
    /// [`id`](Self::id) is the handle's. For these, the driver is asked for the stream's id (one
    /// call of `cuStreamGetId`). If it is another than the last time, the result is a new identity,
    /// [`own_context`](Self::own_context) is that of the new stream, and the
    /// [watchers](CudaStream::watch) are called for the identity that has ended: the caller holds
    /// no lock that a watcher takes.
    ///
    /// ```
    /// use rmm_core::{CudaStream, StreamLifetime, StreamRef};
    ///
    /// # let _machine = rmm_sim::enter();
    /// let stream = CudaStream::new()?;
    /// assert_eq!(StreamRef::from(&stream).identify()?, stream.id());
    ///
    /// let theirs = CudaStream::new()?.into_raw().expect("it is the only handle");
    /// // SAFETY: nothing destroys the stream.
    /// let unknown = unsafe { CudaStream::adopt(theirs, StreamLifetime::Unknown) }?;
    /// let identity = unknown.as_stream_ref().identify()?;
    /// assert!(unknown.id().needs_identification() && !identity.needs_identification());
    /// assert_eq!(unknown.as_stream_ref().identify()?, identity);
    /// # Ok::<(), rmm_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the driver refuses, or the stream's context [has ended](Context::check).
    #[doc(alias = "cudaStreamGetId")]
    #[inline]
    pub fn identify(self) -> Result<StreamId, Error> {
        let id = self.id();
        if id.needs_identification() { self.as_stream().identify_handle() } else { Ok(id) }
    }
}

impl CudaStream {
    fn identify_handle(&self) -> Result<StreamId, Error> {
        let Some(identity) = &self.inner.identity else { return Ok(self.inner.id) };
        identity.check_context()?;
        // SAFETY: the stream exists during a call that it is passed to, such as this one, by the
        // contract of `adopt`.
        let ask = || unsafe { driver_id_of(self.inner.handle) };
        let driver_id = ask().or_else(|_| {
            self.as_stream_ref().check_context()?;
            driver_in_context()?;
            ask()
        })?;
        self.identify_as(driver_id)
    }

    /// The identity of the stream that the handle names now, whose id from the driver is this.
    pub(super) fn identify_as(&self, driver_id: u64) -> Result<StreamId, Error> {
        let Some(identity) = &self.inner.identity else { return Ok(self.inner.id) };
        match identity.get(driver_id) {
            Some(id) => Ok(id),
            None => self.change_identity(identity, driver_id),
        }
    }

    #[cold]
    fn change_identity(&self, identity: &Identity, driver_id: u64) -> Result<StreamId, Error> {
        // SAFETY: the driver has just returned the stream's id: it exists during this call.
        let context = unsafe { Context::of_stream(loaded_driver()?, self.inner.handle) }?;
        let (id, former) = identity.change(driver_id, context, || self.inner.id.name());
        if let Some(former) = former {
            if let Some(name) = self.inner.id.name() {
                name_stream(self.inner.handle, &name);
            }
            let watchers = fork::lock(&self.inner.watchers).clone();
            // They stay: the next identity ends as this one did.
            self.inner.retire(&watchers, former);
        }
        Ok(id)
    }
}
