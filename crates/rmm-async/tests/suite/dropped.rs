//! Futures that are dropped, leaked, or abandoned by their executor while the device copies.

use std::alloc::Layout;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use rmm_adaptors::PoolMemoryResource;
use rmm_async::{completed, download, upload, wait_for_abandoned};
use rmm_containers::{DeviceUVector, HostVec, PinnedVec};
use rmm_core::{CudaStream, DevicePtr, HostDeviceAccessible, SynchronousResource as _, copy};
use rmm_resources::PinnedHostMemoryResource;

use crate::harness::{check, checker, poll_once, stream};

fn vector(stream: &CudaStream) -> DeviceUVector<u32> {
    DeviceUVector::filled(3, 100, stream).expect("a vector")
}

#[test]
fn a_copy_that_is_dropped_is_still_made() {
    check(|_| {
        let (own, other) = (stream(), stream());
        let vector = vector(&own);
        drop(download(vector.as_slice(), &other).expect("a copy"));
        let mut polled = download(vector.as_slice(), &own).expect("a copy");
        // It may be ready or not.
        let _ignored = poll_once(&mut polled);
        drop(polled);
        drop(vector);
        drop(completed(&own).expect("an event"));
    });
    check(|_| {
        let own = stream();
        let staging = PinnedVec::from_slice(&[1, 2, 3]).expect("a vector");
        drop(upload(staging, &own).expect("a copy"));
    });
}

#[test]
fn dropping_a_copy_does_not_wait_for_it() {
    let machine = crate::harness::lazy().enter();
    let _all = machine.enter_all_threads();
    let own = stream();
    let vector = vector(&own);
    let gate = crate::harness::Gate::new(&machine, &own);
    // Would never return, since the gate is closed.
    drop(download(vector.as_slice(), &own).expect("a copy"));
    gate.open();
    wait_for_abandoned();
    drop((vector, own));
    assert!(machine.leaks().is_empty(), "{:?}", machine.leaks());
}

/// What a future keeps, whose end waits for that of all others.
struct Waits(Sender<()>);

impl Drop for Waits {
    fn drop(&mut self) {
        wait_for_abandoned();
        // The test may have failed.
        let _ignored = self.0.send(());
    }
}

#[test]
fn a_destructor_that_waits_for_all_others_ends() {
    let machine = crate::harness::lazy().enter();
    let _all = machine.enter_all_threads();
    let own = stream();
    let (sender, ends) = channel();
    let gate = crate::harness::Gate::new(&machine, &own);
    for _ in 0..2 {
        drop(completed(&own).expect("an event").keep(Waits(sender.clone())));
    }
    gate.open();
    for _ in 0..2 {
        ends.recv_timeout(Duration::from_secs(60)).expect("it does not wait for itself");
    }
    wait_for_abandoned();
}

#[test]
fn a_copy_that_is_leaked_keeps_its_buffers() {
    checker().leaks(false).run(|_| {
        let (own, other) = (stream(), stream());
        let vector = vector(&own);
        let _leaked = ManuallyDrop::new(download(vector.as_slice(), &other).expect("a copy"));
        let mut polled = download(vector.as_slice(), &own).expect("a copy");
        // It may be ready or not.
        let _ignored = poll_once(&mut polled);
        let _leaked = ManuallyDrop::new(polled);
        drop(vector);
        wait_for_abandoned();
    });
}

/// A task of an executor that forgets it: only its waker keeps it.
struct Task {
    future: Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>,
    _dropped: Sender<()>,
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {}
}

/// Polls a future once, and forgets it. The receiver reports when it is dropped.
fn abandon(future: impl Future<Output = ()> + Send + 'static) -> Receiver<()> {
    let (sender, dropped) = channel();
    let task = Arc::new(Task { future: Mutex::new(Some(Box::pin(future))), _dropped: sender });
    let waker = Waker::from(Arc::clone(&task));
    let mut future = task.future.lock().expect("no panic");
    let polled = future.as_mut().map(|it| it.as_mut().poll(&mut Context::from_waker(&waker)));
    if polled == Some(Poll::Ready(())) {
        *future = None;
    }
    drop(future);
    dropped
}

#[test]
fn a_copy_that_its_executor_abandons_is_freed() {
    check(|_| {
        let (own, other) = (stream(), stream());
        let vector = vector(&own);
        let dropped = abandon(async move {
            let copy = download(vector.as_slice(), &other).expect("a copy");
            drop(copy.await);
            drop(vector);
        });
        drop(own);
        // The task is dropped with its last waker, which calls the driver to free the memory: not
        // on a thread of the driver.
        assert!(dropped.recv().is_err(), "nothing is sent");
    });
}

/// Pinned memory that is freed at once, whatever uses it.
struct Raw(DevicePtr);

const BYTES: usize = 400;

impl Raw {
    fn layout() -> Layout {
        Layout::from_size_align(BYTES, 256).expect("a layout")
    }

    /// With a copy of the vector in progress.
    fn copied(vector: &DeviceUVector<u32>, stream: &CudaStream) -> Self {
        let memory = PinnedHostMemoryResource::new().allocate_sync(Self::layout());
        let this = Self(memory.expect("there is memory"));
        let used = vector.as_slice().use_on(stream).expect("the stream waits");
        // SAFETY: both have these bytes. That the memory outlives the copy is what the test checks.
        unsafe { copy::device_to_device(this.0, used.as_ptr(), BYTES, stream) }.expect("a copy");
        this
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // SAFETY: it was allocated there, with this layout.
        unsafe { PinnedHostMemoryResource::new().deallocate_sync(self.0, Self::layout()) };
    }
}

#[test]
fn what_is_kept_outlives_the_work() {
    check(|_| {
        let own = stream();
        let vector = vector(&own);
        let raw = Raw::copied(&vector, &own);
        drop(completed(&own).expect("an event").keep(raw));
        wait_for_abandoned();
        drop(vector); // only now: its free waits for the device
    });
}

#[test]
fn twin_what_is_not_kept_is_freed_under_the_work() {
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        checker().leaks(false).run(|_| {
            let own = stream();
            let vector = vector(&own);
            let raw = Raw::copied(&vector, &own);
            drop(completed(&own).expect("an event")); // without `keep`
            drop(raw);
            wait_for_abandoned();
        });
    }));
    let report = *outcome.expect_err("a violation").downcast::<String>().expect("a report");
    assert!(report.contains("while in use"), "{report}");
}

#[test]
fn a_kept_buffer_may_come_from_a_pool() {
    check(|_| {
        let own = stream();
        let pool = PoolMemoryResource::<HostDeviceAccessible>::builder_with_properties(
            PinnedHostMemoryResource::new(),
        )
        .build();
        let pool = pool.expect("a pool");
        let vector = vector(&own);
        for _ in 0..3 {
            let mut staging = HostVec::zeroed_in(100, pool.clone()).expect("a vector");
            staging.copy_from_device(vector.as_slice(), &own).expect("a copy");
            drop(completed(&own).expect("an event").keep(staging));
        }
    });
}
