//! The segments of a pool, and the program's functions that register them with other libraries.
//!
//! A segment is memory from one call of upstream. For each callback and segment the table says
//! whether the callback has registered it, or is being called about it ([`Held`]). No lock is held
//! during the call, so another thread that would return the segment meanwhile is refused.

#![forbid(unsafe_code)]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::fmt;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rmm_core::siblings::in_program;
use rmm_core::{DevicePtr, Error, fork, process_is_exiting};
#[cfg(unix)]
use rmm_resources::{Piece, export_range};

/// Contiguous memory that a pool has from one call of its upstream, and returns as a whole. Over
/// virtual memory and `cudaMalloc` it is one allocation of the driver.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Segment {
    pub(crate) base: DevicePtr,
    pub(crate) bytes: u64,
}

impl Segment {
    /// Its address.
    pub fn base(&self) -> DevicePtr {
        self.base
    }

    /// Its bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Its addresses.
    pub fn range(&self) -> Range<u64> {
        self.base.0..self.base.0 + self.bytes
    }

    /// Exports it to other processes: [`export_range`] of all of it.
    ///
    /// # Errors
    /// Those of [`export_range`]: [`ErrorKind::Unsupported`](rmm_core::ErrorKind::Unsupported)
    /// unless the pool is over virtual memory that was made for export.
    #[cfg(unix)]
    pub fn export(&self) -> Result<Vec<Piece>, Error> {
        export_range(self.base, self.bytes)
    }
}

/// A change of a pool's segments, see [`on_segment`](crate::PoolMemoryResource::on_segment).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SegmentEvent {
    /// There is memory that no block is in yet: from upstream, or mapped again when the pool wakes;
    /// or the pool had it when the callback was registered.
    Added(Segment),
    /// Memory is about to go back to upstream, or to be unmapped since the pool falls asleep; or
    /// the guard of the callback is dropped.
    Removing(Segment),
}

/// What a callback fails with.
pub(crate) type Refusal = Box<dyn StdError + Send + Sync>;

/// A function that is called with each change.
pub(crate) type Callback = dyn Fn(SegmentEvent) -> Result<(), Refusal> + Send + Sync;

/// Another thread calls the callback about the segment.
#[derive(Debug)]
struct BeingCalled;

impl fmt::Display for BeingCalled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it is being called about it")
    }
}

impl StdError for BeingCalled {}

/// What a callback has to do with a segment that it has not let go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Held {
    /// It is being called about the segment.
    Called,
    /// It has accepted the segment.
    Registered,
}

struct Entry {
    number: u64,
    callback: Arc<Callback>,
    /// Whether the guard is gone.
    ends: bool,
    /// By address.
    held: BTreeMap<u64, Held>,
}

#[derive(Default)]
struct Table {
    next: u64,
    /// All segments: bytes by address.
    present: BTreeMap<u64, u64>,
    /// The oldest first.
    entries: Vec<Entry>,
    /// Segments that no block may be in, and that a callback has not let go.
    stranded: Vec<Segment>,
}

impl Table {
    fn entry(&mut self, number: u64) -> Option<&mut Entry> {
        self.entries.iter_mut().find(|entry| entry.number == number)
    }

    fn numbers(&self) -> Vec<u64> {
        self.entries.iter().map(|entry| entry.number).collect()
    }

    /// Takes an entry out whose guard is gone, once it has no segment.
    fn take_ended(&mut self, number: u64) -> Option<Entry> {
        let is_done = |entry: &Entry| entry.ends && entry.held.is_empty();
        let place = self.entries.iter().position(|entry| entry.number == number && is_done(entry));
        place.map(|place| self.entries.remove(place))
    }
}

/// The segments of a pool and the callbacks that hear of them.
#[derive(Default)]
pub(crate) struct Segments {
    /// Lock order: a leaf. No callback runs while it is held.
    table: Mutex<Table>,
    /// Notified when a callback has returned.
    returned: Condvar,
}

impl fmt::Debug for Segments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Segments").finish_non_exhaustive()
    }
}

/// Why a segment stays.
pub(crate) struct Stays {
    pub(crate) error: Error,
    /// Whether all callbacks have it again: else no block may be in it.
    pub(crate) is_usable: bool,
}

thread_local! {
    /// The pools of which a callback runs on this thread.
    static WITHIN: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// Takes the innermost pool off [`WITHIN`].
struct Within;

impl Drop for Within {
    fn drop(&mut self) {
        // Without thread-locals the thread is at its end.
        let _ignored = WITHIN.try_with(|within| within.borrow_mut().pop());
    }
}

impl Segments {
    fn lock(&self) -> MutexGuard<'_, Table> {
        fork::lock(&self.table)
    }

    fn id(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Whether a callback of this pool runs on this thread.
    fn is_within(&self) -> bool {
        WITHIN.try_with(|within| within.borrow().contains(&self.id())).unwrap_or(false)
    }

    /// Refuses growth in a callback of this pool.
    ///
    /// # Errors
    /// Unsupported.
    pub(crate) fn check_growth(&self, name: &'static str) -> Result<(), Error> {
        if !self.is_within() {
            return Ok(());
        }
        let why = "a callback of `on_segment` may allocate only what the pool holds: it would grow \
                   within its growth";
        Err(Error::unsupported(name, why))
    }

    /// All segments, by address.
    pub(crate) fn all(&self) -> Vec<Segment> {
        let table = self.lock();
        let present = table.present.iter();
        present.map(|(&base, &bytes)| Segment { base: DevicePtr(base), bytes }).collect()
    }

    /// Bytes of the segments that a callback has accepted.
    pub(crate) fn registered_bytes(&self) -> u64 {
        let table = self.lock();
        let is_held = |base| table.entries.iter().any(|entry| entry.held.contains_key(base));
        table.present.iter().filter(|(base, _)| is_held(base)).map(|(_, bytes)| bytes).sum()
    }

    /// Calls a callback about a segment, if that changes what it has.
    fn change(&self, number: u64, segment: Segment, adds: bool) -> Result<(), Refusal> {
        let base = segment.base.0;
        let callback = {
            let mut table = self.lock();
            let is_present = table.present.contains_key(&base);
            let Some(entry) = table.entry(number) else { return Ok(()) };
            match (entry.held.get(&base), adds) {
                (None, true) if is_present && !entry.ends => {}
                (Some(Held::Registered), false) => {}
                (Some(Held::Called), false) => return Err(BeingCalled.into()),
                _ => return Ok(()),
            }
            if fork::is_child() || process_is_exiting() {
                return Err("the process is exiting, or is a child of fork".into());
            }
            entry.held.insert(base, Held::Called);
            Arc::clone(&entry.callback)
        };
        let event =
            if adds { SegmentEvent::Added(segment) } else { SegmentEvent::Removing(segment) };
        let _ignored = WITHIN.try_with(|within| within.borrow_mut().push(self.id()));
        let within = Within;
        let outcome = in_program(|| catch_unwind(AssertUnwindSafe(|| callback(event))));
        drop(within);
        let outcome = outcome.unwrap_or_else(|_panic| Err("it panicked".into()));
        let (has, mut ends) = (adds == outcome.is_ok(), false);
        let ended = {
            let mut table = self.lock();
            if let Some(entry) = table.entry(number) {
                ends = entry.ends;
                if has && (adds || !ends) {
                    entry.held.insert(base, Held::Registered);
                } else {
                    entry.held.remove(&base);
                }
            }
            table.take_ended(number)
        };
        self.returned.notify_all();
        // The last of one whose guard was dropped meanwhile: its captured values go here.
        drop_of_program((callback, ended));
        if adds && has && ends {
            let _ignored = self.change(number, segment, false);
        }
        outcome
    }

    /// Reports a segment that is there to every callback that does not have it.
    ///
    /// # Errors
    /// The refusal of a callback: the others may have it.
    pub(crate) fn add(&self, name: &'static str, segment: Segment) -> Result<(), Error> {
        let numbers = {
            let mut table = self.lock();
            table.present.insert(segment.base.0, segment.bytes);
            table.numbers()
        };
        for number in numbers {
            self.change(number, segment, true)
                .map_err(|refusal| refused(name, segment, "does not take", refusal))?;
        }
        Ok(())
    }

    /// Has every callback let go of a segment at the pool's end. A guard that is dropped on another
    /// thread meanwhile is waited for.
    ///
    /// # Errors
    /// The errors of [`take`](Self::take).
    pub(crate) fn take_last(&self, name: &'static str, segment: Segment) -> Result<(), Error> {
        loop {
            self.wait_for_callbacks();
            let taken = self.take(name, segment);
            let is_called =
                |error: &Error| error.source().is_some_and(<dyn StdError>::is::<BeingCalled>);
            if self.is_within() || !taken.as_ref().is_err_and(is_called) {
                return taken;
            }
        }
    }

    /// Has every callback let go of a segment, which is about to go.
    ///
    /// # Errors
    /// The refusal of a callback: the others may not have it any more. It must not go.
    pub(crate) fn take(&self, name: &'static str, segment: Segment) -> Result<(), Error> {
        let base = segment.base.0;
        let error = |refusal| refused(name, segment, "does not let go of", refusal);
        let numbers = {
            let mut table = self.lock();
            let is_called = |entry: &Entry| entry.held.get(&base) == Some(&Held::Called);
            if table.entries.iter().any(is_called) {
                return Err(error(BeingCalled.into()));
            }
            table.present.remove(&base);
            table.numbers()
        };
        for number in numbers {
            if let Err(refusal) = self.change(number, segment, false) {
                self.put_back(segment);
                return Err(error(refusal));
            }
        }
        Ok(())
    }

    /// Notes that a segment stays. Those whose guard was dropped meanwhile left it to the caller.
    fn put_back(&self, segment: Segment) {
        let ended: Vec<u64> = {
            let mut table = self.lock();
            table.present.insert(segment.base.0, segment.bytes);
            let has_ended = |it: &&Entry| it.ends && it.held.contains_key(&segment.base.0);
            table.entries.iter().filter(has_ended).map(|entry| entry.number).collect()
        };
        for number in ended {
            let _ignored = self.change(number, segment, false);
        }
    }

    /// Has every callback let go of a segment, or none: after a refusal those that have let go get
    /// it again. In a callback of this pool it stays.
    ///
    /// # Errors
    /// The refusal, and whether all have it again.
    pub(crate) fn remove(&self, name: &'static str, segment: Segment) -> Result<(), Stays> {
        if self.is_within() {
            let why = "a callback of `on_segment` cannot return memory of its pool";
            return Err(Stays { error: Error::unsupported(name, why), is_usable: true });
        }
        self.take(name, segment).map_err(|error| {
            let is_usable = self.add(name, segment).is_ok();
            Stays { error, is_usable }
        })
    }

    /// Keeps a segment that no block may be in, and that a callback has not let go.
    pub(crate) fn strand(&self, segment: Segment) {
        self.lock().stranded.push(segment);
    }

    /// The segments of [`strand`](Self::strand), once.
    pub(crate) fn take_stranded(&self) -> Vec<Segment> {
        std::mem::take(&mut self.lock().stranded)
    }

    /// Waits on this thread until no other thread calls a callback.
    pub(crate) fn wait_for_callbacks(&self) {
        if self.is_within() || fork::is_child() {
            return;
        }
        let is_called = |table: &mut Table| {
            table.entries.iter().any(|it| it.held.values().any(|&held| held == Held::Called))
        };
        let waited = self.returned.wait_while(self.lock(), is_called);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Adds a callback, which is called with all segments that are there.
    ///
    /// # Errors
    /// Its refusal of one: then it has let go of the others.
    pub(crate) fn register(
        self: &Arc<Self>,
        name: &'static str,
        callback: Arc<Callback>,
    ) -> Result<SegmentGuard, Error> {
        fork::check()?;
        let (number, present) = {
            let mut table = self.lock();
            let number = table.next;
            table.next += 1;
            table.entries.push(Entry { number, callback, ends: false, held: BTreeMap::new() });
            (number, table.present.clone())
        };
        let guard = SegmentGuard { segments: Arc::clone(self), number, stays: false };
        for (base, bytes) in present {
            let segment = Segment { base: DevicePtr(base), bytes };
            self.change(number, segment, true)
                .map_err(|refusal| refused(name, segment, "does not take", refusal))?;
        }
        Ok(guard)
    }

    /// Ends a callback, which lets go of all its segments.
    fn end(&self, number: u64) {
        let mut held = {
            let mut table = self.lock();
            let Some(entry) = table.entry(number) else { return };
            entry.ends = true;
            entry.held.clone()
        };
        held.retain(|_, held| *held == Held::Registered);
        for base in held.into_keys() {
            let bytes = self.lock().present.get(&base).copied();
            // Another thread that returns the segment calls it.
            let Some(bytes) = bytes else { continue };
            let _ignored = self.change(number, Segment { base: DevicePtr(base), bytes }, false);
        }
        let ended = self.lock().take_ended(number);
        drop_of_program(ended);
    }
}

impl Drop for Segments {
    fn drop(&mut self) {
        let table = self.table.get_mut().unwrap_or_else(PoisonError::into_inner);
        for entry in table.entries.drain(..) {
            drop_of_program(entry);
        }
    }
}

/// Drops what the program gave. A panic of it was reported when it began, and must not leave the
/// `Drop` of a guard or of a pool.
fn drop_of_program<T>(value: T) {
    in_program(|| {
        let _ignored = catch_unwind(AssertUnwindSafe(|| drop(value)));
    });
}

fn refused(name: &'static str, segment: Segment, does: &str, refusal: Refusal) -> Error {
    let Segment { base, bytes } = segment;
    let message = format!(
        "a callback of `on_segment` {does} the segment of {bytes} bytes at {:#x}: {refusal}",
        base.0
    );
    Error::unsupported(name, message).with_source(refusal)
}

/// Keeps a callback of [`on_segment`](crate::PoolMemoryResource::on_segment) registered, at most
/// until the pool's end. Its drop calls the callback with [`Removing`](SegmentEvent::Removing) for
/// each segment that it has, whatever that returns. If another thread calls it then, that thread
/// ends it.
#[derive(Debug)]
#[must_use = "the callback is called only while the guard lives"]
pub struct SegmentGuard {
    segments: Arc<Segments>,
    number: u64,
    stays: bool,
}

impl SegmentGuard {
    /// Keeps the callback registered until the pool's end.
    pub fn detach(mut self) {
        self.stays = true;
    }
}

impl Drop for SegmentGuard {
    fn drop(&mut self) {
        if !self.stays && !fork::is_child() && !process_is_exiting() {
            self.segments.end(self.number);
        }
    }
}
