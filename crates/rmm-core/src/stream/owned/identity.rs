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
use rmm_sys::{CuCaptureStatus, CuStream, epoch};

use crate::driver::{check, loaded_driver};
use crate::{CaptureScope, Context, Error, RelaxedCapture, StreamId};

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
    pub(super) fn get(&self, driver_id: u64) -> Option<StreamId> {
        // Acquire: the number was written before.
        (self.driver_id.load(Ordering::Acquire) == driver_id)
            .then(|| StreamId::from_number(self.number.load(Ordering::Acquire)))
    }

    /// Takes a new identity for the stream with this id of the driver's, and returns it with the
    /// former one. No former one is returned if another thread was first.
    pub(super) fn change(
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
        // No other thread changes the identity meanwhile.
        let _guard = self.lock();
        self.last().set_name(name);
    }

    /// Checks that the context exists, if one was noticed to have ended since the last check:
    /// passing a stream of a context that was reset to the driver can crash the process.
    pub(super) fn check_context(&self) -> Result<(), Error> {
        let ends = epoch::ends_of_contexts();
        if self.ends.load(Ordering::Relaxed) != ends {
            self.context().check()?;
            self.ends.store(ends, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// The driver's id of a stream, which no other stream of the process ever has.
///
/// # Errors
/// If the driver refuses.
///
/// # Safety
/// The stream exists.
pub(super) unsafe fn driver_id_of(handle: CuStream) -> Result<u64, Error> {
    // Of a captured stream the driver refuses the id in the thread's other modes.
    let _relaxed = CaptureScope::is_announced().then(RelaxedCapture::enter);
    let mut id = 0;
    // SAFETY: the stream exists, by the caller's contract, and `id` may be written to.
    check("cuStreamGetId", unsafe { loaded_driver()?.cuStreamGetId(handle, &raw mut id) })?;
    Ok(id)
}

/// Whether a stream is captured. Never ends a capture.
///
/// # Errors
/// If the driver refuses.
///
/// # Safety
/// The stream exists.
pub(super) unsafe fn is_captured(handle: CuStream) -> Result<bool, Error> {
    let mut status = CuCaptureStatus::NONE;
    // SAFETY: the stream exists, by the caller's contract, and `status` may be written to.
    let code = unsafe { loaded_driver()?.cuStreamIsCapturing(handle, &raw mut status) };
    check("cuStreamIsCapturing", code).map(|()| status != CuCaptureStatus::NONE)
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
