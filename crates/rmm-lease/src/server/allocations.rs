//! Allocations, which may wait for memory of the device that other processes have.

use std::time::{Duration, Instant};

use super::Server;
use super::session::Pending;
use crate::SessionId;
use crate::protocol::Message;

/// How often the driver is asked again; no event says that others return memory.
const RETRY: Duration = Duration::from_millis(50);

impl Server {
    /// Allocates, now or later: whether the session goes on.
    pub(super) fn allocate(&mut self, session: SessionId, id: String, bytes: u64) -> bool {
        let may_wait = self.sessions.get(&session).is_some_and(|it| it.refused.is_none());
        let wait = self.memory_wait.filter(|_| may_wait).unwrap_or_default();
        let end = Instant::now().checked_add(wait);
        // Without end, it is long enough.
        let far = Instant::now() + Duration::from_secs(1 << 30);
        let end = end.unwrap_or(far);
        self.try_allocate(session, Pending { id, bytes, end, next: end })
    }

    fn try_allocate(&mut self, id: SessionId, mut wanted: Pending) -> bool {
        let mut is_lacking = false;
        let make = || {
            let made = self.origin.make(wanted.bytes);
            made.inspect_err(|refusal| is_lacking = refusal.out_of_memory)
        };
        let outcome = self.state.allocate(id, &wanted.id, wanted.bytes, make);
        let Some(session) = self.sessions.get_mut(&id) else { return false };
        let now = Instant::now();
        match outcome {
            Err(_) if is_lacking && now < wanted.end => {
                wanted.next = wanted.end.min(now + RETRY);
                session.pending = Some(wanted);
                true
            }
            Err(refusal) => {
                if is_lacking && self.memory_wait.is_some() {
                    session.refused.get_or_insert(wanted.bytes);
                }
                session.refuse(&refusal).is_ok()
            }
            Ok(()) => {
                session.refused = session.refused.filter(|&bytes| bytes > wanted.bytes);
                session.connection.send(&Message::SuccessResponse {}, None).is_ok()
            }
        }
    }

    /// Asks the driver again for those whose time has come.
    pub(super) fn retry(&mut self) {
        let now = Instant::now();
        let mut due = Vec::new();
        for (&id, session) in &mut self.sessions {
            if let Some(pending) = session.pending.take_if(|pending| pending.next <= now) {
                due.push((id, pending));
            }
        }
        for (id, pending) in due {
            if !self.try_allocate(id, pending) {
                self.end(id);
            }
        }
    }
}
