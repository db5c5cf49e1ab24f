//! A connection to an owner.

use std::os::unix::net::UnixStream;
use std::time::Instant;

use crate::Refusal;
use crate::connection::{Connection, ConnectionError};
use crate::protocol::Message;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// It has not asked for a lock.
    New,
    /// It waits for its lock, until then.
    Waiting(Option<Instant>),
    /// It had a lock.
    Granted,
}

pub(super) struct Session {
    pub(super) connection: Connection,
    pub(super) process: u32,
    pub(super) phase: Phase,
}

impl Session {
    pub(super) fn new(stream: UnixStream, process: u32) -> Self {
        Self { connection: Connection::new(stream), process, phase: Phase::New }
    }

    /// When it has waited too long.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match self.phase {
            Phase::Waiting(deadline) => deadline,
            Phase::New | Phase::Granted => None,
        }
    }

    pub(super) fn refuse(&mut self, refusal: &Refusal) -> Result<(), ConnectionError> {
        let Refusal { message, out_of_memory } = refusal.clone();
        self.connection.send(&Message::ErrorResponse { message, out_of_memory }, None)
    }
}
