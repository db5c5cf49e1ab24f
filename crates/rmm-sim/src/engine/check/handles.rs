//! Stale handles, and handles of another device.
#![forbid(unsafe_code)]

use crate::engine::state::State;
use crate::model::handle::Hint;
use crate::model::handle::{self, HandleKind};
use crate::model::violation::{Violation, ViolationKind};

impl State {
    /// Reports the handles of a failed call that name a destroyed object.
    ///
    /// A handle value that was reused since names the new object, so its stale use cannot be
    /// detected.
    pub(crate) fn check_handles(&mut self, call: &'static str, hints: &[Hint]) {
        if !self.checks.is_on() {
            return;
        }
        for hint in hints {
            let Hint::Handle(word) = *hint else { continue };
            let slots = [
                (HandleKind::Stream, "a stream", &self.stream_slots),
                (HandleKind::Event, "an event", &self.event_slots),
                (HandleKind::Pool, "a pool", &self.pool_slots),
            ];
            let stale = slots.into_iter().find(|(kind, _, slots)| {
                handle::decode(word, self.machine, *kind).is_some_and(|slot| slots.is_vacant(slot))
            });
            if let Some((_, what, _)) = stale {
                let detail = format!("{call} was passed {what} that was destroyed");
                self.checks.report(Violation::new(ViolationKind::StaleHandle).with_detail(detail));
            }
        }
    }

    /// Reports a call that uses a stream and an event of two contexts together. The arguments are
    /// the contexts' devices.
    pub(crate) fn check_foreign(&mut self, call: &'static str, stream: usize, event: usize) {
        if self.checks.is_on() {
            let detail = if stream == event {
                format!("{call} was passed an event and a stream of two contexts of device {event}")
            } else {
                format!(
                    "{call} was passed an event of device {event} and a stream of device {stream}"
                )
            };
            self.checks.report(Violation::new(ViolationKind::ForeignHandle).with_detail(detail));
        }
    }
}
