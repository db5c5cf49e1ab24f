//! Every interleaving of threads that make, adopt and drop the streams of one handle.
//!
//! `loom` has no weak references. In their place stands what the documentation of [`std::sync`]
//! says of them: a count of references, to which an upgrade adds one only if it is not zero.

use std::sync::Mutex as HiddenFromLoom;

use loom::sync::atomic::{AtomicUsize, Ordering, fence};
use loom::sync::{Arc, Mutex, MutexGuard};
use loom::thread;

use super::entries::{self, Key, Lock, Shared, Table};
use crate::StreamId;

impl<T> Lock<T> for Mutex<T> {
    type Guard<'a>
        = MutexGuard<'a, T>
    where
        T: 'a;

    fn acquire(&self) -> MutexGuard<'_, T> {
        self.lock().expect("no thread panics")
    }
}

/// The handle that the driver gives to every stream.
const KEY: Key = (16, Some((1, 1)));

/// A driver that has one stream at a time, and the table of its streams.
struct Machine {
    table: Mutex<Table<Stream>>,
    /// The driver's id of the last stream, and whether it exists.
    stream: Mutex<(u64, bool)>,
    /// The streams that threads hold now, with the driver's ids.
    held: HiddenFromLoom<Vec<(u64, StreamId)>>,
    uses: AtomicUsize,
}

impl Machine {
    fn new() -> Arc<Self> {
        let (table, stream) = (Mutex::new(Table::new(usize::MAX)), Mutex::default());
        let (held, uses) = (HiddenFromLoom::default(), AtomicUsize::default());
        Arc::new(Self { table, stream, held, uses })
    }
}

struct Inner {
    machine: Arc<Machine>,
    id: StreamId,
    driver_id: u64,
    /// Destroyed with its last reference.
    is_owned: bool,
    references: AtomicUsize,
}

/// A reference to a stream, as `std::sync::Arc` is one.
struct Stream(Arc<Inner>);

impl Shared for Stream {
    type Weak = Arc<Inner>;

    fn to_weak(&self) -> Arc<Inner> {
        Arc::clone(&self.0)
    }

    fn upgrade(weak: &Arc<Inner>) -> Option<Self> {
        let add = |count: usize| (count > 0).then_some(count + 1);
        weak.references
            .fetch_update(Ordering::Acquire, Ordering::Relaxed, add)
            .is_ok()
            .then(|| Self(Arc::clone(weak)))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if std::thread::panicking() || self.0.references.fetch_sub(1, Ordering::Release) > 1 {
            return;
        }
        fence(Ordering::Acquire);
        let Inner { machine, id, is_owned, .. } = &*self.0;
        entries::remove(&machine.table, (KEY, *id));
        if *is_owned {
            machine.stream.acquire().1 = false;
        }
    }
}

impl Stream {
    fn new(machine: &Arc<Machine>, driver_id: u64, is_owned: bool) -> Self {
        let (machine, id) = (Arc::clone(machine), StreamId::next());
        Self(Arc::new(Inner { machine, id, driver_id, is_owned, references: AtomicUsize::new(1) }))
    }

    /// A new stream of the driver's, if there is none.
    fn create(machine: &Arc<Machine>) -> Option<u64> {
        let mut stream = machine.stream.acquire();
        let (driver_id, exists) = *stream;
        (!exists).then(|| {
            *stream = (driver_id + 1, true);
            driver_id + 1
        })
    }

    /// As `CudaStream::new`.
    fn owned(machine: &Arc<Machine>) -> Option<Self> {
        let new = Self::new(machine, Self::create(machine)?, true);
        entries::replace(&machine.table, (KEY, new.0.id), &new);
        Some(new)
    }

    /// As `CudaStream::adopt`, of the stream with this id of the driver's.
    fn adopt(machine: &Arc<Machine>, driver_id: u64) -> Self {
        let new = Self::new(machine, driver_id, false);
        let entry = (KEY, new.0.id);
        entries::enter_or_get(&machine.table, entry, new, |known| known.0.driver_id == driver_id)
    }

    /// Checks that no thread has the same stream of the driver's under another identity.
    fn hold(&self) {
        let Inner { machine, id, driver_id, .. } = &*self.0;
        let held = || machine.held.lock().expect("no thread panics");
        for (other_driver_id, other_id) in held().iter() {
            assert_eq!(other_driver_id == driver_id, other_id == id);
        }
        held().push((*driver_id, *id));
        // Other threads run here.
        machine.uses.fetch_add(1, Ordering::Relaxed);
        let mut held = held();
        let own = held.iter().position(|(_, held)| held == id).expect("it was pushed");
        held.swap_remove(own);
    }
}

/// Runs the model under every schedule with at most this many preemptions: all of them would take
/// hours.
fn explore(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

/// Checks what is left when all streams are dropped, without which `loom` finds a leak.
fn check_empty(machine: &Machine) {
    let left = std::mem::take(&mut machine.table.acquire().streams).len();
    assert_eq!(left, 0, "an entry outlives its stream");
}

/// Threads that adopt and drop the stream, each as often as this.
fn adopt_and_drop(of_each_thread: [usize; 2]) {
    let machine = Machine::new();
    let driver_id = Stream::create(&machine).expect("there is none");
    let adopt = {
        let machine = Arc::clone(&machine);
        move |times| (0..times).for_each(|_| Stream::adopt(&machine, driver_id).hold())
    };
    let [here, there] = of_each_thread;
    let other = {
        let adopt = adopt.clone();
        thread::spawn(move || adopt(there))
    };
    adopt(here);
    other.join().expect("it does not panic");
    check_empty(&machine);
}

#[test]
fn two_adopters_at_any_time_hold_one_stream() {
    loom::model(|| adopt_and_drop([1, 1]));
}

#[test]
fn adopters_that_come_again_hold_one_stream() {
    explore(4, || adopt_and_drop([2, 2]));
}

#[test]
fn the_last_drop_leaves_the_entry_of_an_adoption_beside_it() {
    loom::model(|| {
        let machine = Machine::new();
        let driver_id = Stream::create(&machine).expect("there is none");
        let first = Stream::adopt(&machine, driver_id);
        let dropping = thread::spawn(move || drop(first));
        let second = Stream::adopt(&machine, driver_id);
        second.hold();
        dropping.join().expect("it does not panic");
        assert_eq!(Stream::adopt(&machine, driver_id).0.id, second.0.id);
        drop(second);
        check_empty(&machine);
    });
}

#[test]
fn an_upgraded_stream_is_the_one_that_is_adopted() {
    explore(4, || {
        let machine = Machine::new();
        let driver_id = Stream::create(&machine).expect("there is none");
        let first = Stream::adopt(&machine, driver_id);
        let weak = first.to_weak();
        let adopting = {
            let machine = Arc::clone(&machine);
            thread::spawn(move || {
                drop(first);
                Stream::adopt(&machine, driver_id).hold();
            })
        };
        if let Some(upgraded) = Stream::upgrade(&weak) {
            upgraded.hold();
            assert_eq!(Stream::adopt(&machine, driver_id).0.id, upgraded.0.id);
        }
        adopting.join().expect("it does not panic");
        drop(weak);
        check_empty(&machine);
    });
}

#[test]
fn a_handle_that_comes_back_is_another_stream() {
    loom::model(|| {
        let machine = Machine::new();
        let first = Stream::owned(&machine).expect("there is none");
        let first_id = first.0.id;
        // The thread that gets the handle next finds its own stream under it.
        let make = {
            let machine = Arc::clone(&machine);
            move || {
                let Some(stream) = Stream::owned(&machine) else { return };
                assert_ne!(stream.0.id, first_id);
                let again = Stream::adopt(&machine, stream.0.driver_id);
                assert_eq!(again.0.id, stream.0.id);
                stream.hold();
            }
        };
        let other = thread::spawn(make.clone());
        drop(first);
        make();
        other.join().expect("it does not panic");
        check_empty(&machine);
    });
}

#[test]
fn a_reference_to_the_former_stream_is_dropped_without_the_lock() {
    loom::model(|| {
        let machine = Machine::new();
        // As a handle of unknown lifetime that comes back: the former stream is still referred to.
        let former = Stream::adopt(&machine, 1);
        let dropping = thread::spawn(move || drop(former));
        let next = Stream::adopt(&machine, 2);
        assert_eq!(next.0.driver_id, 2);
        dropping.join().expect("it does not panic");
        assert_eq!(Stream::adopt(&machine, 2).0.id, next.0.id);
        drop(next);
        check_empty(&machine);
    });
}
