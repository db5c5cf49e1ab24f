//! A connection to an owner.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use rmm_core::peer;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::Refusal;
use crate::connection::{Connection, ConnectionError};
use crate::protocol::Message;
use crate::unforked::Unforked;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// It has not asked for a lock, and has to until then.
    New(Option<Instant>),
    /// It waits for its lock, until then.
    Waiting(Option<Instant>),
    /// It had a lock.
    Granted,
}

/// An allocation for which the device had no memory yet. Its session makes no other request.
pub(super) struct Pending {
    pub(super) id: String,
    pub(super) bytes: u64,
    /// When it is refused.
    pub(super) end: Instant,
    /// When the driver is asked again.
    pub(super) next: Instant,
}

pub(super) struct Session {
    pub(super) connection: Connection,
    /// The number of the process; 0 for one of another namespace.
    pub(super) process: u32,
    /// Can be read once the process has ended, also if one that it forked has the connection. None
    /// for a process of another namespace before Linux 6.5.
    pub(super) end: Option<OwnedFd>,
    pub(super) phase: Phase,
    pub(super) pending: Option<Pending>,
    /// The bytes of an allocation that has waited and was refused: until as much is allocated, the
    /// session waits no more.
    pub(super) refused: Option<u64>,
}

impl Session {
    /// A session whose process has to ask for a lock until then.
    pub(super) fn new(
        stream: Unforked<UnixStream>,
        process: Option<u32>,
        handshake: Option<Instant>,
    ) -> Self {
        let (connection, phase) = (Connection::new(stream), Phase::New(handshake));
        let process = process.unwrap_or(0);
        Self { connection, process, end: None, phase, pending: None, refused: None }
    }

    /// Has the session end with its process, if the system can say when that is.
    ///
    /// # Errors
    /// `ESRCH` if it has ended already; if the system has no file descriptor or memory left.
    pub(super) fn watch(&mut self) -> Result<(), Errno> {
        let number = i32::try_from(self.process).ok().and_then(Pid::from_raw);
        self.end = end_of(&self.connection, number)?;
        Ok(())
    }

    /// When it has asked for nothing, or waited, too long.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match self.phase {
            Phase::New(deadline) | Phase::Waiting(deadline) => deadline,
            Phase::Granted => None,
        }
    }

    /// When an allocation that waits is tried again.
    pub(super) fn retry_at(&self) -> Option<Instant> {
        self.pending.as_ref().map(|pending| pending.next)
    }

    pub(super) fn is_new(&self) -> bool {
        matches!(self.phase, Phase::New(_))
    }

    pub(super) fn refuse(&mut self, refusal: &Refusal) -> Result<(), ConnectionError> {
        let Refusal { message, out_of_memory } = refusal.clone();
        self.connection.send(&Message::ErrorResponse { message, out_of_memory }, None)
    }
}

/// What can be read once the process at the other end, which may have a number, has ended; `None`
/// where the system knows no such process.
///
/// # Errors
/// Those of [`Session::watch`].
fn end_of(stream: impl AsFd, number: Option<Pid>) -> Result<Option<OwnedFd>, Errno> {
    let of_socket = peer::end_of(stream);
    let of_socket = of_socket.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO));
    let end = match (of_socket, number) {
        (Err(error), Some(number)) if !is_final(error) => pidfd_open(number, PidfdFlags::empty()),
        (end, _) => end,
    };
    match end {
        Ok(end) => Ok(Some(end)),
        Err(error) if is_final(error) => Err(error),
        Err(_) => Ok(None),
    }
}

/// Whether the system knows the process's end, and has no file for it.
fn is_final(error: Errno) -> bool {
    matches!(error, Errno::SRCH | Errno::MFILE | Errno::NFILE | Errno::NOMEM)
}
