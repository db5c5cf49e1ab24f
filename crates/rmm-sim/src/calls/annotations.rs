//! Annotations: allocators report the ranges that they suballocate and free, and programs name
//! streams and memory.
#![forbid(unsafe_code)]

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rmm_sys::{AllocationEvent, AnnotationChecker, Annotations, CuDevicePtr, CuStream};

use crate::calls::arguments::address;
use crate::engine::context::ends_contexts;
use crate::engine::current;
use crate::engine::session::Session;
use crate::engine::state::State;
use crate::engine::thread;
use crate::model::checks;
use crate::model::handle::Hint;
use crate::model::operation::Operation;
use crate::model::vector_clock::Point;
use crate::model::violation::{Access, ViolationKind};
use crate::model::virtual_memory::GRANULARITY;

/// The annotation hooks of the software driver's table.
pub(crate) static ANNOTATIONS: Annotations = Annotations::of::<Device>();

/// The machines of the process, as the checker of their annotations.
struct Device;

static LAST_OWNER: AtomicU64 = AtomicU64::new(0);

impl AnnotationChecker for Device {
    fn new_owner() -> u64 {
        LAST_OWNER.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn allocated(event: AllocationEvent) {
        on_annotation(event, true);
    }

    fn freed(event: AllocationEvent) {
        on_annotation(event, false);
    }

    fn stream_named(stream: CuStream, name: &str) {
        with_checking_machine(&[Hint::Handle(stream.addr())], |session| {
            if let Ok(id) = session.stream(stream)
                && let Some(stream) = session.streams.get_mut(id)
            {
                stream.name = Some(name.into());
            }
        });
    }

    fn stream_completed(stream: CuStream) {
        with_checking_machine(&[Hint::Handle(stream.addr())], |session| {
            if let Ok(id) = session.stream(stream) {
                let known = session.clock_of(id);
                session.join_host_clock(&known);
            }
        });
    }

    fn memory_named(memory: CuDevicePtr, bytes: usize, name: Option<&str>) {
        let start = address(memory);
        if bytes == 0 {
            return;
        }
        with_checking_machine(&[Hint::Address(start)], |session| match name {
            // Nothing would end the name of memory that no driver call and no allocator has
            // reported.
            Some(name) if session.known_root_of(start).is_some() => {
                session.checks.memory_names.insert(&(start..start.saturating_add(bytes)), name);
            }
            Some(_) => {}
            None => session.checks.memory_names.end(start),
        });
    }

    fn suspended(memory: CuDevicePtr, bytes: usize, is_suspended: bool) {
        let start = address(memory);
        // Memory is mapped and unmapped in whole units.
        let end = start.saturating_add(bytes).checked_next_multiple_of(GRANULARITY);
        let range = start..end.unwrap_or(usize::MAX);
        with_checking_machine(&[Hint::Address(start)], |session| {
            session.checks.suspended.set(range, is_suspended);
        });
    }
}

/// Calls `work` with the machine that the hints name, if it checks.
fn with_checking_machine(hints: &[Hint], work: impl FnOnce(&mut Session<'_>)) {
    if !checks::is_any_machine_checking() || thread::in_callback() {
        return;
    }
    let machine = current::machine_for("an annotation", hints);
    let mut session = Session::open(&machine);
    if session.checks.is_on() {
        work(&mut session);
    }
}

fn on_annotation(event: AllocationEvent, out: bool) {
    let start = address(event.pointer);
    let stream = event.stream.map(|stream| Hint::Handle(stream.addr()));
    let hints = [Hint::Address(start), stream.unwrap_or(Hint::Address(start))];
    with_checking_machine(&hints, |session| {
        let near = session.allocation_at(start).map(|allocation| allocation.device);
        let stream = match event.stream {
            // A destroyed stream orders nothing; the calls that use it report it.
            Some(stream) => match session.stream_near(stream, near) {
                Ok(id) => Some(id),
                Err(_) => return,
            },
            None => None,
        };
        let range = start..start + event.bytes;
        if out {
            session.suballocated(event, &range, stream);
        } else {
            session.suballocation_freed(event, &range, stream);
        }
    });
}

impl State {
    /// Checks that a change of owner happens after all accesses to a range.
    fn check_owner_change(&mut self, kind: ViolationKind, range: &Range<usize>, access: &Access) {
        for piece in self.pieces(range) {
            self.check_order(kind, &piece, access);
        }
    }

    /// Records a change of owner, which later accesses must happen after.
    fn record_owner_change(&mut self, range: &Range<usize>, access: &Arc<Access>) {
        for piece in self.pieces(range) {
            self.checks.shadow.write(&piece.backing, Arc::clone(access));
        }
        self.record_mapped_use(range, access);
    }

    fn suballocated(&mut self, event: AllocationEvent, range: &Range<usize>, stream: Option<u64>) {
        let root = self.root_of(range.start);
        let access = self.access_after(Operation::Allocate, event.name, stream);
        let twice =
            self.checks.suballocations.allocate(root, event.owner, range, Arc::clone(&access));
        if let Err(broken) = twice {
            self.report_rule(broken, range, &access);
        }
        if self.checks.suspended.holds(range) {
            // A thread that got it before reports it late.
            return;
        }
        self.check_owner_change(ViolationKind::AllocatedInUse, range, &access);
        self.checks.memory_names.remove(range);
        let also = self.implicitly_awaited(range, stream);
        let access = Arc::new(Access { also, ..(*access).clone() });
        self.record_owner_change(range, &access);
    }

    /// The points of earlier accesses to a range that a stream's next work waits for by the rules
    /// of the legacy default stream alone. Until it has such work, a use on another stream must be
    /// ordered after them too; after work that is nothing to the range, it need not be.
    fn implicitly_awaited(&self, range: &Range<usize>, stream: Option<u64>) -> Vec<Point> {
        let Some(id) = stream else { return Vec::new() };
        let frontier = self.streams.get(id).map(|stream| &stream.frontier);
        // What is not ordered at all has been reported, and is reported once.
        let is_implicit = |point: &Point| {
            point.stream != id
                && !frontier.is_some_and(|frontier| frontier.covers(*point))
                && !self.checks.host.covers(*point)
                && self.is_ordered_after(id, *point)
        };
        let mut awaited = Vec::new();
        for piece in self.pieces(range) {
            for (_, segment) in self.checks.shadow.over(&piece.backing) {
                let points = segment.before(Operation::Allocate).flat_map(|before| before.points());
                for point in points.filter(|point| point.position > 0 && is_implicit(point)) {
                    if !awaited.contains(&point) {
                        awaited.push(point);
                    }
                }
            }
        }
        awaited
    }

    /// Whether memory ended with its context and was not allocated since. Its suballocations may
    /// still be freed.
    fn ended_with_its_context(&self, address: usize) -> bool {
        let by_context = |access: &Arc<Access>| ends_contexts(access.what);
        self.allocation_at(address).is_none()
            && self.checks.freed_by(address).is_some_and(by_context)
    }

    fn suballocation_freed(
        &mut self,
        event: AllocationEvent,
        range: &Range<usize>,
        stream: Option<u64>,
    ) {
        if self.ended_with_its_context(range.start) {
            return;
        }
        let root = self.root_of(range.start);
        let access = self.access_after(Operation::Free, event.name, stream);
        let taken = self.checks.suballocations.free(root, event.owner, range, Arc::clone(&access));
        if let Err(broken) = taken {
            self.report_rule(broken, range, &access);
        }
        if self.checks.suspended.holds(range) {
            // Its next owner comes after the allocator's own accesses.
            return;
        }
        self.check_owner_change(ViolationKind::FreedInUse, range, &access);
        self.checks.memory_names.keep_freed(range.start);
        if self.allocation_at(range.start).is_some() {
            self.record_owner_change(range, &access);
        } else if root == range.start && !self.virtual_memory.holds(root) {
            // Host memory that the driver did not allocate: its next owner is not reported.
            self.checks.shadow.clear(range);
            self.checks.memory_names.remove(range);
            // Parts that are still live were reported above.
            self.checks.suballocations.end(root).unwrap_or_default();
        }
    }
}
