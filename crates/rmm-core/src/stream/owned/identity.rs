//! The identity of a handle of unknown lifetime: which stream the handle names now.
//!
//! The driver gives the handle of a destroyed stream to the next one, so the handle alone says
//! nothing. `cuStreamGetId` returns a number that no other stream of the process ever has:
//!
//! ```text
//! handle --cuStreamGetId--> driver's id  == the last one?  -> its StreamId, without a lock
//!                                        != the last one?  -> a new StreamId; the old one retires
//! ```

#[cfg(not(all(test, rmm_loom)))]
use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicU64, Ordering},
};

#[cfg(all(test, rmm_loom))]
use loom::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicU64, Ordering},
};
use rmm_sys::{CuStream, epoch};

use super::CudaStream;
use crate::annotate::name_stream;
use crate::driver::{check, driver_in_context, loaded_driver};
use crate::{Context, Error, StreamId, StreamRef, fork};

/// The stream that a handle named when it was last identified.
pub(super) struct Identity {
    driver_id: AtomicU64,
    /// # Invariant
    /// The number of the [`StreamId`] that belongs to `driver_id`. Written before `driver_id`, and
    /// read after it: a thread that reads an id of the driver's reads its number or a later one. A
    /// later one belongs to a stream that was made after the first was destroyed, which no thread
    /// has asked for in a call that goes on.
    number: AtomicU64,
    /// When the context was last known to exist: [`epoch::ends_of_contexts`].
    ends: AtomicU64,
    /// The context of the stream. Held while the identity changes. Lock order: names of streams
    /// come after it.
    context: Mutex<Context>,
}

impl Identity {
    pub(super) fn new(driver_id: u64, context: Context) -> Self {
        Self {
            driver_id: AtomicU64::new(driver_id),
            number: AtomicU64::new(StreamId::next().get()),
            ends: AtomicU64::new(epoch::ends_of_contexts()),
            context: Mutex::new(context),
        }
    }

    #[cfg(not(all(test, rmm_loom)))]
    fn lock(&self) -> MutexGuard<'_, Context> {
        crate::fork::lock(&self.context)
    }

    #[cfg(all(test, rmm_loom))]
    fn lock(&self) -> MutexGuard<'_, Context> {
        self.context.lock().expect("no thread panics")
    }

    /// The context of the stream.
    pub(super) fn context(&self) -> Context {
        *self.lock()
    }

    /// The identity that was found last.
    pub(super) fn last(&self) -> StreamId {
        StreamId::from_number(self.number.load(Ordering::Acquire))
    }

    /// The identity of the stream with this id of the driver's, if the handle named it last.
    #[inline]
    fn get(&self, driver_id: u64) -> Option<StreamId> {
        // Acquire: the number was written before.
        (self.driver_id.load(Ordering::Acquire) == driver_id)
            .then(|| StreamId::from_number(self.number.load(Ordering::Acquire)))
    }

    /// Takes a new identity for the stream with this id of the driver's, and returns it with the
    /// former one. No former one is returned if another thread was first.
    fn change(
        &self,
        driver_id: u64,
        context: Context,
        name: impl FnOnce() -> Option<String>,
    ) -> (StreamId, Option<StreamId>) {
        let mut current = self.lock();
        let former = self.last();
        if self.driver_id.load(Ordering::Relaxed) == driver_id {
            return (former, None);
        }
        let id = StreamId::next();
        if let Some(name) = name() {
            id.set_name(name);
            former.forget_name();
        }
        *current = context;
        self.number.store(id.get(), Ordering::Release);
        self.driver_id.store(driver_id, Ordering::Release);
        (id, Some(former))
    }

    /// Names the identity that was found last.
    pub(super) fn set_name(&self, name: String) {
        let _no_change = self.lock();
        self.last().set_name(name);
    }

    /// Checks that the context exists, if one was noticed to have ended since the last check:
    /// passing a stream of a context that was reset to the driver can crash the process.
    fn check_context(&self) -> Result<(), Error> {
        let ends = epoch::ends_of_contexts();
        if self.ends.load(Ordering::Relaxed) != ends {
            self.context().check()?;
            self.ends.store(ends, Ordering::Relaxed);
        }
        Ok(())
    }
}

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

/// The driver's id of a stream, which no other stream of the process ever has.
///
/// # Safety
/// The stream exists.
pub(super) unsafe fn driver_id_of(handle: CuStream) -> Result<u64, Error> {
    let mut id = 0;
    // SAFETY: the stream exists, by the caller's contract, and `id` may be written to.
    check("cuStreamGetId", unsafe { loaded_driver()?.cuStreamGetId(handle, &raw mut id) })?;
    Ok(id)
}

#[cfg(all(test, rmm_loom))]
mod models {
    //! Every interleaving of two threads that use one handle.

    use loom::sync::Arc;
    use loom::sync::atomic::AtomicBool;
    use loom::thread;

    use super::*;

    /// Of two devices.
    fn contexts() -> [Context; 2] {
        let _machine = rmm_sim::Machine::builder().devices(2).enter();
        let mut devices = crate::Device::all().expect("the driver works");
        [(); 2].map(|()| {
            let device = devices.next().expect("there are two");
            let _current = device.make_current().expect("the driver works");
            Context::current().expect("it was made current")
        })
    }

    /// As `identify_as`, and what would retire.
    fn identify(identity: &Identity, driver_id: u64, of: Context) -> (StreamId, Option<StreamId>) {
        let found = identity.get(driver_id).map(|id| (id, None));
        let found = found.unwrap_or_else(|| identity.change(driver_id, of, || None));
        assert_eq!(identity.context(), of, "it is that of the stream");
        found
    }

    #[test]
    fn two_threads_find_one_identity_of_a_new_stream() {
        let [former_context, context] = contexts();
        loom::model(move || {
            let identity = Arc::new(Identity::new(1, former_context));
            let former = identity.last();
            let other = {
                let identity = Arc::clone(&identity);
                thread::spawn(move || identify(&identity, 2, context))
            };
            let (id, retires) = identify(&identity, 2, context);
            let (id_of_other, retires_of_other) = other.join().expect("it does not panic");
            assert_eq!(id, id_of_other);
            assert_ne!(id, former);
            // Once, whichever was first.
            assert_eq!(retires.xor(retires_of_other), Some(former));
        });
    }

    #[test]
    fn a_stream_is_found_as_itself_until_its_last_call_returns() {
        let [context, _] = contexts();
        loom::model(move || {
            let identity = Arc::new(Identity::new(1, context));
            let has_returned = Arc::new(AtomicBool::new(false));
            let other = {
                let (identity, has_returned) = (Arc::clone(&identity), Arc::clone(&has_returned));
                thread::spawn(move || {
                    let (id, _) = identify(&identity, 2, context);
                    has_returned.store(true, Ordering::Release);
                    id
                })
            };
            let (id, _) = identify(&identity, 2, context);
            // Only then may the stream be destroyed, and the next one get its handle.
            let next = has_returned.load(Ordering::Acquire).then(|| {
                let (next, retires) = identify(&identity, 3, context);
                assert_eq!(retires, Some(id));
                next
            });
            assert_eq!(other.join().expect("it does not panic"), id);
            assert_ne!(next, Some(id));
        });
    }
}
