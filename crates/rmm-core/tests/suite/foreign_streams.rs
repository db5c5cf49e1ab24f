//! Streams of others with a known end: with an owner, adopted several times, and with the handle of
//! an old stream.

use std::any::Any;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, PoisonError, Weak};
use std::thread;

use rmm_core::{
    CudaEvent, CudaStream, Device, Error, RetiringStream, StreamId, StreamKind, StreamLifetime,
    StreamWatcher, WeakStream, check, driver_in_context,
};
use rmm_sim::Fault;
use rmm_sys::{CuResult, CuStream};

use crate::world::calls_of;

/// A stream of another library, which counts what happens to it.
struct Theirs {
    handle: CuStream,
    log: Arc<Mutex<Vec<String>>>,
    panics: bool,
}

impl Theirs {
    fn new(log: &Arc<Mutex<Vec<String>>>) -> Result<Self, Error> {
        Ok(Self { handle: made_by_others()?, log: log.clone(), panics: false })
    }
}

impl Drop for Theirs {
    fn drop(&mut self) {
        note(&self.log, "owner");
        destroy(self.handle);
        assert!(!self.panics, "an owner that panics");
    }
}

/// A watcher that notes the identity and whether an event could be recorded.
struct Watching(Arc<Mutex<Vec<String>>>);

impl StreamWatcher for Watching {
    fn stream_retires(&self, stream: &RetiringStream<'_>) {
        let recorded = CudaEvent::new().and_then(|event| stream.record(&event));
        note(&self.0, &format!("retires {} {}", stream.id(), recorded.is_ok()));
    }
}

pub(crate) fn note(log: &Mutex<Vec<String>>, what: &str) {
    log.lock().unwrap_or_else(PoisonError::into_inner).push(what.to_owned());
}

pub(crate) fn noted(log: &Mutex<Vec<String>>) -> Vec<String> {
    std::mem::take(&mut log.lock().unwrap_or_else(PoisonError::into_inner))
}

/// A stream that this library knows nothing of.
pub(crate) fn made_by_others() -> Result<CuStream, Error> {
    let (driver, _) = driver_in_context()?;
    let mut handle = CuStream::NULL;
    // SAFETY: `handle` may be written to.
    let code = unsafe { driver.cuStreamCreateWithPriority(&raw mut handle, 0, 0) };
    check("cuStreamCreateWithPriority", code)?;
    Ok(handle)
}

pub(crate) fn destroy(handle: CuStream) {
    // SAFETY: every caller made the stream by `made_by_others`, and destroys it once.
    assert_eq!(unsafe { rmm_sim::driver().cuStreamDestroy_v2(handle) }, CuResult::SUCCESS);
}

pub(crate) fn adopt(handle: CuStream, lifetime: StreamLifetime) -> Result<CudaStream, Error> {
    // SAFETY: the tests destroy a stream as its lifetime says.
    unsafe { CudaStream::adopt(handle, lifetime) }
}

fn adopt_owned_by(theirs: Arc<Theirs>) -> Result<CudaStream, Error> {
    // SAFETY: the value destroys its stream when it is dropped.
    unsafe { CudaStream::adopt_owned_by(theirs.handle, theirs) }
}

pub(crate) fn watched(
    stream: &CudaStream,
    log: &Arc<Mutex<Vec<String>>>,
) -> Arc<dyn StreamWatcher> {
    let watcher: Arc<dyn StreamWatcher> = Arc::new(Watching(log.clone()));
    stream.watch(Arc::downgrade(&watcher));
    watcher
}

#[test]
fn an_owner_is_dropped_once_after_the_watchers() -> Result<(), Error> {
    let machine = rmm_sim::enter();
    let log = Arc::default();
    let stream = adopt_owned_by(Arc::new(Theirs::new(&log)?))?;
    assert_eq!(stream.kind(), StreamKind::Adopted(StreamLifetime::UntilDropped));
    let (id, clone) = (stream.id(), stream.clone());
    let _watcher = watched(&stream, &log);
    drop(stream);
    assert_eq!(noted(&log), [""; 0], "a clone is there");
    clone.synchronize()?;
    drop(clone);
    assert_eq!(noted(&log), [format!("retires {id} true"), "owner".to_owned()]);
    assert!(machine.leaks().is_empty(), "{:?}", machine.leaks());
    Ok(())
}

#[test]
fn a_panic_of_an_owner_stays_in_the_drop() -> Result<(), Error> {
    let _machine = rmm_sim::enter();
    let log = Arc::default();
    let mut theirs = Theirs::new(&log)?;
    theirs.panics = true;
    drop(adopt_owned_by(Arc::new(theirs))?);
    assert_eq!(noted(&log), ["owner"]);
    Ok(())
}

#[test]
fn an_owner_is_dropped_if_the_adoption_fails() -> Result<(), Error> {
    let machine = rmm_sim::enter();
    let log = Arc::default();
    let theirs = Arc::new(Theirs::new(&log)?);
    machine.fail(Fault::nth("cuStreamGetId", 1, CuResult::UNKNOWN));
    assert!(adopt_owned_by(theirs).is_err());
    assert_eq!(noted(&log), ["owner"]);
    Ok(())
}

#[test]
fn the_first_owner_is_kept_and_others_dropped() -> Result<(), Error> {
    let _machine = rmm_sim::enter();
    let log = Arc::default();
    let theirs = Arc::new(Theirs::new(&log)?);
    let handle = theirs.handle;
    let first = adopt(handle, StreamLifetime::UntilDropped)?;
    let second = adopt_owned_by(theirs.clone())?;
    assert_eq!(Arc::strong_count(&theirs), 2, "a stream without an owner takes one");
    let another: Arc<dyn Any + Send + Sync> = Arc::new(());
    let weak = Arc::downgrade(&another);
    // SAFETY: the stream exists for as long as `theirs`, which `first` keeps.
    let third = unsafe { CudaStream::adopt_owned_by(handle, another) }?;
    assert!(weak.upgrade().is_none());
    assert!(first == second && second == third);
    drop((theirs, second, third));
    assert_eq!(noted(&log), [""; 0]);
    drop(first);
    assert_eq!(noted(&log), ["owner"]);
    Ok(())
}

#[test]
fn streams_of_this_library_and_default_ones_need_no_owner() -> Result<(), Error> {
    let _machine = rmm_sim::enter();
    let own = CudaStream::new()?;
    for handle in [own.as_raw(), CuStream::NULL, CuStream::LEGACY, CuStream::PER_THREAD] {
        let owner: Arc<dyn Any + Send + Sync> = Arc::new(());
        let weak = Arc::downgrade(&owner);
        // SAFETY: the default streams always exist, and `own` lives longer.
        let stream = unsafe { CudaStream::adopt_owned_by(handle, owner) }?;
        assert!(weak.upgrade().is_none(), "{stream:?}");
    }
    Ok(())
}

#[test]
fn everyone_who_adopts_a_stream_gets_the_same() -> Result<(), Error> {
    let machine = rmm_sim::enter();
    let until_dropped = StreamLifetime::UntilDropped;
    let handle = made_by_others()?;
    let asked = || calls_of(&machine, "cuStreamGetId");
    let first = adopt(handle, until_dropped)?;
    assert_eq!(asked(), 1);
    let ids: Vec<StreamId> = thread::scope(|scope| {
        let adopted = [(); 4].map(|()| {
            scope.spawn(|| {
                let _entered = machine.enter();
                adopt(handle, until_dropped).map(|stream| stream.id())
            })
        });
        adopted
            .into_iter()
            .map(|thread| thread.join().expect("no panic"))
            .collect::<Result<_, Error>>()
    })?;
    assert_eq!(ids, [first.id(); 4]);
    // Of an unknown lifetime, it is another.
    assert_ne!(adopt(handle, StreamLifetime::Unknown)?, first);
    let id = first.id();
    drop(first);
    assert_ne!(adopt(handle, until_dropped)?.id(), id, "the identity ended with the last handle");

    let own = CudaStream::new()?;
    let again = adopt(own.as_raw(), until_dropped)?;
    assert_eq!((again.id(), again.kind()), (own.id(), StreamKind::Owned));
    let own = own.into_raw().expect_err("the adopted one is the same");
    drop(own);
    again.synchronize()?;
    Ok(())
}

#[test]
fn a_new_stream_with_an_old_handle_is_another() -> Result<(), Error> {
    let _machine = rmm_sim::enter();
    let until_dropped = StreamLifetime::UntilDropped;
    let handle = made_by_others()?;
    let old = adopt(handle, until_dropped)?;
    let old_id = old.id();
    drop(old);
    destroy(handle);
    assert_eq!(made_by_others()?, handle, "the device reuses the handle at once");
    let new = adopt(handle, until_dropped)?;
    assert_ne!(new.id(), old_id);
    // Also if it is destroyed earlier than promised.
    destroy(handle);
    assert_eq!(made_by_others()?, handle);
    let (old, new) = (new, adopt(handle, until_dropped)?);
    assert_ne!(new, old);
    drop(old);
    assert_eq!(adopt(handle, until_dropped)?, new, "the old one leaves the entry of the new");
    // Taken over, it has a new identity too.
    // SAFETY: the test destroys it by this value alone.
    let owned = unsafe { CudaStream::from_raw(handle) }?;
    assert_ne!(owned, new);
    assert_eq!(adopt(handle, until_dropped)?, owned);
    Ok(())
}

#[test]
fn contexts_tell_streams_with_equal_handles_apart() -> Result<(), Error> {
    let _machine = rmm_sim::enter();
    let until_dropped = StreamLifetime::UntilDropped;
    let handle = made_by_others()?;
    let old = adopt(handle, until_dropped)?;
    let device = Device::new(0)?;
    // SAFETY: nothing of the test uses the device.
    let code = unsafe { rmm_sim::driver().cuDevicePrimaryCtxReset_v2(device.as_raw()) };
    assert_eq!(code, CuResult::SUCCESS);
    let _current = device.make_current()?;
    assert_eq!(made_by_others()?, handle, "the next context has the same handles");
    let new = adopt(handle, until_dropped)?;
    assert_ne!(new, old);
    assert!(old.check_context().is_err());
    new.check_context()
}

/// A watcher that looks for its stream.
struct Looks(Mutex<Option<WeakStream>>);
impl StreamWatcher for Looks {
    fn stream_retires(&self, _: &RetiringStream<'_>) {
        let mut weak = self.0.lock().expect("no panic");
        let gone = weak.take().is_some_and(|weak| weak.upgrade().is_none());
        assert!(gone, "a stream that retires is gone");
        *weak = Some(WeakStream::default());
    }
}

#[test]
fn a_weak_stream_ends_with_the_last_clone() -> Result<(), Error> {
    let _machine = rmm_sim::enter();
    let stream = CudaStream::new()?;
    let weak = stream.downgrade();
    let looks = Arc::new(Looks(Mutex::new(Some(weak.clone()))));
    let watcher: Weak<Looks> = Arc::downgrade(&looks);
    stream.watch(watcher);
    let clone = weak.upgrade().expect("it is there");
    assert_eq!(clone, stream);
    drop(stream);
    assert!(weak.upgrade().is_some());
    assert!(format!("{weak:?}").contains("is_alive: true"));
    drop(clone);
    assert!(weak.upgrade().is_none());
    assert!(format!("{weak:?}").contains("is_alive: false"));
    assert!(looks.0.lock().expect("it did not panic").is_some(), "the watcher was called");
    Ok(())
}

// Threads race for the last reference: one drops it while others upgrade and adopt.
#[test]
fn the_last_drop_races_with_upgrades_and_adoptions() -> Result<(), Error> {
    const ROUNDS: usize = 300;
    const OTHERS: usize = 3;
    let machine = rmm_sim::enter();
    let log: Arc<Mutex<Vec<String>>> = Arc::default();
    let got = AtomicUsize::new(0);
    for _ in 0..ROUNDS {
        let theirs = Arc::new(Theirs::new(&log)?);
        let stream = adopt_owned_by(theirs.clone())?;
        let (id, weak) = (stream.id(), stream.downgrade());
        let start = Barrier::new(OTHERS + 1);
        thread::scope(|scope| {
            for _ in 0..OTHERS {
                scope.spawn(|| {
                    let _entered = machine.enter();
                    start.wait();
                    if let Some(stream) = weak.upgrade() {
                        got.fetch_add(1, Ordering::Relaxed);
                        assert_eq!(stream.id(), id);
                        stream.synchronize().expect("the stream is there");
                    }
                    // `theirs` keeps the stream in existence.
                    let again = adopt_owned_by(theirs.clone()).expect("the driver works");
                    assert_eq!(again.as_raw(), theirs.handle);
                    again.synchronize().expect("the stream is there");
                });
            }
            start.wait();
            drop(stream);
        });
        assert!(weak.upgrade().is_none(), "every clone is gone");
        assert_eq!(noted(&log), [""; 0], "the owner is here");
        drop(theirs);
        assert_eq!(noted(&log), ["owner"], "dropped once");
    }
    assert!(machine.leaks().is_empty(), "{:?}", machine.leaks());
    Ok(())
}
