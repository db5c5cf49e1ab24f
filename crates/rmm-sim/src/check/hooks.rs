//! What allocators tell of the ranges that they hand out.
#![forbid(unsafe_code)]

use std::ops::Range;

use rmm_sys::{Annotations, Handing};

use super::violation::{Operation, ViolationKind};
use crate::call::address;
use crate::current::{self, Hint};
use crate::session::Session;
use crate::state::State;

/// What the software driver's table listens with.
pub(crate) static ANNOTATIONS: Annotations = Annotations {
    handed_out: |handing| hear(handing, true),
    taken_back: |handing| hear(handing, false),
};

fn hear(handing: Handing, out: bool) {
    if !super::anybody_listens() || current::in_callback() {
        return;
    }
    let start = address(handing.pointer);
    let stream = handing.stream.map(|stream| Hint::Handle(stream.addr()));
    let hints = [Hint::Address(start), stream.unwrap_or(Hint::Address(start))];
    let machine = current::machine_for(&hints);
    let mut session = Session::open(&machine);
    if !session.checks.is_on() {
        return;
    }
    let near = session.allocations.containing(start).map(|allocation| allocation.device);
    let stream = match handing.stream {
        // A stream that is gone orders nothing; the calls that it is used in tell of it.
        Some(stream) => match session.stream_near(stream, near) {
            Ok(id) => Some(id),
            Err(_) => return,
        },
        None => None,
    };
    let range = start..start + handing.bytes;
    if out {
        session.handed_out(handing, &range, stream);
    } else {
        session.taken_back(handing, &range, stream);
    }
}

impl State {
    /// The start of what a range is a part of; ordinary memory of the host is a whole of its own.
    fn root_of(&self, start: usize) -> usize {
        let allocation = self.allocations.containing(start).map(|allocation| allocation.start);
        allocation.or_else(|| self.checks.handed.root_of(start)).unwrap_or(start)
    }

    fn handed_out(&mut self, handing: Handing, range: &Range<usize>, stream: Option<u64>) {
        let root = self.root_of(range.start);
        let access = self.access_after(Operation::HandOut, handing.name, stream);
        let twice =
            self.checks.handed.hand_out(root, handing.owner, range, std::sync::Arc::clone(&access));
        if let Err(broken) = twice {
            self.report_broken(broken, range, &access);
        }
        self.check_order(ViolationKind::HandedOutInUse, range, &access);
        self.checks.shadow.write(range, access);
    }

    fn taken_back(&mut self, handing: Handing, range: &Range<usize>, stream: Option<u64>) {
        let root = self.root_of(range.start);
        let access = self.access_after(Operation::TakeBack, handing.name, stream);
        let taken = self.checks.handed.take_back(
            root,
            handing.owner,
            range,
            std::sync::Arc::clone(&access),
        );
        if let Err(broken) = taken {
            self.report_broken(broken, range, &access);
        }
        self.check_order(ViolationKind::ReturnedInUse, range, &access);
        if self.allocations.containing(range.start).is_some() {
            self.checks.shadow.write(range, access);
        } else if root == range.start {
            // Ordinary memory of the host: it is the system's again, and nobody tells who has it next.
            self.checks.shadow.clear(range);
            // Its parts, if any are left, were told of above.
            self.checks.handed.end(root).unwrap_or_default();
        }
    }
}
