//! The use tracker of an allocation: which streams use which bytes, and who waits for whom.
//!
//! Device memory is owned by one stream: it is allocated and freed in that stream's order. Any
//! other stream first waits for the owner, so uses on the owner need not be recorded; they are free
//! until a second stream appears. Uses on other streams are recorded as pending until the owner has
//! waited for them:
//!
//! ```text
//! owner    allocate -- fill --+--------------------- wait(e2) -- resize / free
//!                             | e1                     ^
//! other    ------------- wait(e1) -- copy --+----------|---- later work (not waited for)
//!                                           | e2       |
//!                                           +----------+
//! ```
//!
//! 1. `other` waits for an event at the owner's current end, and for pending uses that conflict:
//!    overlapping ranges, at least one of which is written.
//! 2. The use is recorded *before* its work is enqueued, so that no destructor of a value that safe
//!    code could leak is needed.
//! 3. When the work is enqueued, an event marks its end. A use without a known end, such as a
//!    kernel that the program launches, is open: a stream that waits for it waits for everything
//!    enqueued on its stream by then.
//! 4. A conflicting use, a move or a free waits for these ends.
//!
//! Host memory has no owner; the host itself waits, before it accesses or frees the memory. Nor has
//! memory of which parts are freed, since a wait for an owner would be one for the other parts.
//!
//! A stream that is being captured records its waits and its work into a graph. A wait in a graph
//! orders nothing outside it, so a use stays pending until a stream that is not captured has waited
//! for it. The tracker never invalidates a capture.
#![forbid(unsafe_code)]

mod parts;
mod pending;
mod snapshot;
mod waits;

use std::fmt;
use std::ops::Range;
use std::sync::Mutex;

use rmm_core::{Context, CudaEvent, CudaStream, Error, StreamRef, fork};

pub(crate) use pending::{Access, UseKind};
use pending::{PendingUse, PendingUses};
use snapshot::{StreamSnapshot, is_capturing};

/// A stream with its context: the handle of a default stream means one stream per context.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamIn<'s> {
    pub(crate) stream: StreamRef<'s>,
    pub(crate) context: Context,
}

/// Where the work of a use ends.
#[derive(Debug)]
enum EndMarker {
    /// Unknown: a wait for it waits for everything enqueued on its stream by then.
    EndOfStream,
    /// At an event.
    Event(CudaEvent),
}

impl EndMarker {
    /// Records the current end of `stream`, with the event of a spare marker if that belongs to the
    /// stream's context. A default stream means the one of the current context.
    fn record(spare: Option<Self>, stream: StreamRef<'_>) -> Result<Self, Error> {
        let context = stream.context()?;
        match spare {
            Some(Self::Event(event))
                if event.context() == context && event.record(stream).is_ok() =>
            {
                Ok(Self::Event(event))
            }
            _ => stream.record_event().map(Self::Event),
        }
    }
}

impl PendingUse<StreamSnapshot, EndMarker> {
    /// Whether its work runs by itself, or may, rather than as part of a graph: an open use goes on
    /// after the capture that it began in.
    fn runs(&self) -> bool {
        self.kind == UseKind::Open || !self.stream.is_captured()
    }

    /// Whether a wait for its end would become part of a graph, or invalidate one.
    fn is_being_captured(&self) -> Result<bool, Error> {
        match self.end {
            EndMarker::Event(_) if !self.stream.is_captured() => Ok(false),
            _ => self.stream.is_capturing(),
        }
    }
}

/// The pending uses; boxed, since most memory is used on its owning stream only.
type Pending = Option<Box<PendingUses<StreamSnapshot, EndMarker>>>;

/// The streams that use one allocation. See the [module](self) for the protocol.
pub(crate) struct UseTracker {
    /// The context of the memory. A default stream means the one of this context.
    context: Context,
    /// The name that the program gave the memory.
    name: Option<Box<str>>,
    /// The stream that owns device memory; `None` for host memory.
    owner: Option<StreamSnapshot>,
    /// The uses on other streams that the owner has not waited for.
    uses: Mutex<Pending>,
    /// Whether parts of the memory are freed while others are used.
    is_freed_in_parts: bool,
}

impl UseTracker {
    /// For device memory that is freed in the order of `stream`.
    pub(crate) fn bound_to(stream: StreamRef<'_>, context: Context) -> Self {
        let owner = Some(StreamSnapshot::new(stream, context));
        Self { context, name: None, owner, uses: Mutex::default(), is_freed_in_parts: false }
    }

    /// For host memory, which is freed when all uses have completed.
    pub(crate) fn for_host_memory(context: Context) -> Self {
        Self { context, name: None, owner: None, uses: Mutex::default(), is_freed_in_parts: false }
    }

    pub(crate) fn context(&self) -> Context {
        self.context
    }

    pub(crate) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    pub(crate) fn set_name(&mut self, name: Box<str>) {
        self.name = Some(name);
    }

    /// The owning stream, if the memory has one.
    pub(crate) fn owner(&self) -> Option<&CudaStream> {
        self.owner.as_ref().map(StreamSnapshot::stream)
    }

    /// Whether this is the owning stream, which is ordered after all earlier work on the owner.
    fn is_owner(&self, on: StreamIn<'_>) -> bool {
        self.owner.as_ref().is_some_and(|owner| owner.denotes(on.stream, on.context))
    }

    /// Calls `work` with the pending uses, under the lock.
    fn with_uses<T>(&self, work: impl FnOnce(&mut Pending) -> T) -> T {
        // A panic leaves the list consistent: each use is recorded in one step.
        let mut uses = fork::lock(&self.uses);
        let result = work(&mut uses);
        let removed = uses.as_mut().map(|uses| uses.take_removed_streams());
        drop(uses);
        // After the lock is released: dropping the last handle of a stream calls its watchers,
        // which may use this memory.
        drop(removed);
        result
    }

    /// Makes `on.stream` wait for the owner and for the pending uses that conflict with `access` to
    /// `range`. The context that a default stream is meant in is current. Returns whether a stream
    /// that it waits for is being captured, so that the wait is part of a graph.
    fn wait_for_conflicting(
        &self,
        pending: &Pending,
        range: &Range<usize>,
        access: Access,
        StreamIn { stream, context }: StreamIn<'_>,
    ) -> Result<bool, Error> {
        if let Some(owner) = &self.owner
            && !owner.denotes(stream, context)
        {
            stream.wait(&owner.record_end()?)?;
        }
        let mut waited: Vec<&StreamSnapshot> = Vec::new();
        let mut is_in_graph = false;
        for earlier in pending.iter().flat_map(|uses| uses.conflicting(range, access)) {
            let other = &earlier.stream;
            if other.denotes(stream, context) {
                continue;
            }
            if !earlier.runs() && !other.is_being_captured() {
                // Part of a graph that is complete: the launch of the graph orders its work.
                continue;
            }
            match &earlier.end {
                EndMarker::Event(event) => {
                    is_in_graph |= other.is_captured();
                    stream.wait(event)?;
                }
                EndMarker::EndOfStream if waited.contains(&other) => {}
                EndMarker::EndOfStream => {
                    is_in_graph |= other.is_capturing()?;
                    stream.wait(&other.record_end()?)?;
                    waited.push(other);
                }
            }
        }
        Ok(is_in_graph)
    }

    /// Orders a use whose work is complete when the call that makes it returns, so that it need not
    /// be recorded. The context is current.
    pub(crate) fn order_blocking_use(
        &self,
        range: &Range<usize>,
        access: Access,
        on: StreamIn<'_>,
    ) -> Result<(), Error> {
        self.with_uses(|pending| {
            let has_uses = pending.as_ref().is_some_and(|uses| !uses.is_empty());
            if !has_uses && self.is_owner(on) {
                return Ok(());
            }
            let waits_in_graph = self.wait_for_conflicting(pending, range, access, on)?;
            if self.is_owner(on)
                && let Some(uses) = pending
                && !waits_in_graph
                && !is_capturing(on.stream)?
            {
                uses.forget_conflicting(range, access);
            }
            Ok(())
        })
    }

    /// Orders a use and records it. To be called before the work is enqueued, in the current
    /// context. Returns a number for [`end_use`](Self::end_use).
    pub(crate) fn begin_use(
        &self,
        range: &Range<usize>,
        access: Access,
        kind: UseKind,
        on: StreamIn<'_>,
    ) -> Result<Option<u64>, Error> {
        self.with_uses(|pending| {
            let is_owner = self.is_owner(on);
            let has_uses = pending.as_ref().is_some_and(|uses| !uses.is_empty());
            if is_owner && !has_uses {
                return Ok(None);
            }
            if self.is_freed_in_parts {
                parts::tidy(pending, on.stream)?;
            }
            let waits_in_graph = self.wait_for_conflicting(pending, range, access, on)?;
            // The stream is ordered after these uses within the graph only: work enqueued after the
            // capture still has to wait for them.
            let is_captured = waits_in_graph || is_capturing(on.stream)?;
            let (uses, range) = (pending.get_or_insert_default(), range.clone());
            if is_owner {
                if !is_captured {
                    uses.forget_conflicting(&range, access);
                }
                return Ok(None);
            }
            let stream = StreamSnapshot::of_use(on.stream, on.context, is_captured);
            let end = EndMarker::EndOfStream;
            if is_captured {
                if self.is_freed_in_parts {
                    uses.note_graph(range.clone());
                }
                return Ok(Some(uses.record_beside(stream, range, access, kind, end)));
            }
            Ok(uses.record(stream, range, access, kind, end))
        })
    }

    /// Marks the end of the use with this number: its work is enqueued, and later work on the
    /// stream need not be waited for.
    pub(crate) fn end_use(&self, number: Option<u64>, stream: StreamRef<'_>) {
        let Some(number) = number else { return };
        // The event is recorded under the lock, so that the order of ended uses in the list is the
        // order of their events on the stream.
        self.with_uses(|pending| {
            let Some(uses) = pending else { return };
            let Some(snapshot) = uses.stream_of(number) else { return };
            if snapshot.is_captured() && matches!(stream.is_capturing(), Ok(false)) {
                // Another thread has ended the capture, perhaps before the work was enqueued, so
                // the work runs. The event recorded below is outside the graph, too.
                snapshot.mark_not_captured();
            }
            // Without an event, a wait for this use waits for everything enqueued on its stream.
            if let Ok(end) = EndMarker::record(uses.take_spare_marker(), stream) {
                uses.set_end(number, end);
            }
        });
    }
}

impl fmt::Debug for UseTracker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not under the lock: the formatter may be code of the program that uses this memory.
        let streams: Vec<CudaStream> = self.with_uses(|pending| {
            let uses = pending.iter().flat_map(|uses| uses.iter());
            uses.map(|pending| pending.stream.stream().clone()).collect()
        });
        f.debug_list().entries(&streams).finish()
    }
}
