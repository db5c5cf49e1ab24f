//! A session with an owner.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rmm_core::{Error, fork, peer};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::connection::{Arrived, Connection, ConnectionError, Received};
use crate::protocol::{
    AllocationRecord, Content, Frame, FrameError, Granted, Identity, Lock, LockHolder, Message,
    encode,
};
use crate::server::who_holds;
use crate::unforked::Unforked;
use crate::{Refusal, address};

/// How long to wait before the next attempt to reach an owner that is not there.
const RETRY: Duration = Duration::from_millis(10);

/// How often a wait for a lock asks whether it is to go on.
const ASKS: Duration = Duration::from_millis(50);

/// How long an owner has to say who holds the lock.
const ANSWER: Duration = Duration::from_millis(500);

/// How long an owner has to answer a request of a session.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why a session could not begin, or a request was not done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LeaseError {
    /// No owner is at the socket.
    #[error("no owner answers at {0}")]
    NoOwner(PathBuf, #[source] io::Error),
    /// The lock was not granted by the deadline.
    #[error("the lock was not granted by the deadline: {}", who_has_it(.0))]
    Deadline(Vec<LockHolder>),
    /// The wait for the lock was given up, and the owner has no request of it any more.
    #[error("the wait for the lock was given up")]
    GivenUp,
    /// The owner has refused; nothing has changed.
    #[error("the owner refuses: {0}")]
    Refused(Refusal),
    /// The owner has gone, and the lock with it; or an earlier request has failed so that the
    /// session is over.
    #[error("the session with the owner is over")]
    Ended,
    /// The owner has not answered in this time: it may be stopped. The session is over.
    #[error("the owner has not answered within {0:?}: the session is over")]
    NoAnswer(Duration),
    /// The owner has sent what is no frame.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// This process has no file descriptor left for the one that the owner has sent. The session
    /// goes on.
    #[error("no file descriptor is left for the memory: `ulimit -n` allows more")]
    NoDescriptor,
    /// The owner has answered another request.
    #[error("the owner has sent an answer to another request")]
    OtherAnswer,
    /// The connection failed.
    #[error("the connection to the owner failed")]
    Io(#[from] io::Error),
    /// The driver has refused, or there is none in this process.
    #[error(transparent)]
    Memory(#[from] Error),
    /// The memory is not in the state that the call needs.
    #[error("{0}")]
    State(&'static str),
    /// What the owner has is not what was mapped.
    #[error("the owner has another layout: {0}")]
    Layout(String),
}

const OF_PARENT: LeaseError =
    LeaseError::State("the session is that of the process from which this one was forked");

/// Who holds the lock, as far as the owner says.
fn who_has_it(holders: &[LockHolder]) -> String {
    match holders {
        [] => "the owner names no process that has it: it may be stopped, or nothing is committed"
            .into(),
        _ => who_holds(holders),
    }
}

impl From<ConnectionError> for LeaseError {
    fn from(error: ConnectionError) -> Self {
        match error {
            ConnectionError::Frame(error) => Self::Frame(error),
            // The owner went before it had read the request.
            ConnectionError::Io(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
                ) =>
            {
                Self::Ended
            }
            ConnectionError::Io(error) => Self::Io(error),
        }
    }
}

/// A session with the owner of a device's memory. Dropping it gives the lock back; what a writer
/// had not committed is then freed. What has been mapped stays, as long as it is mapped.
///
/// ```no_run
/// use rmm_lease::Lease;
/// use rmm_lease::protocol::Lock;
///
/// # fn main() -> Result<(), rmm_lease::LeaseError> {
/// let mut lease = Lease::connect("/run/user/1000/weights.sock", Lock::Write, None)?;
/// lease.allocate("layer 0", 2 << 20)?;
/// let descriptor = lease.export("layer 0")?; // for `rmm::sharing::ImportedMemory`
/// lease.commit()?;
/// # Ok(())
/// # }
/// ```
pub struct Lease {
    /// None once the session is over.
    connection: Option<Connection>,
    /// Of the process that has connected.
    generation: u64,
    path: PathBuf,
    answer: Duration,
    lock: Granted,
    identity: Identity,
}

impl std::fmt::Debug for Lease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lease")
            .field("lock", &self.lock)
            .field("identity", &self.identity)
            .finish_non_exhaustive()
    }
}

impl Lease {
    /// Asks the owner at a socket for a lock, and waits for it; without end, if there is no
    /// deadline. An owner that is not there yet is waited for, if there is a deadline.
    ///
    /// # Errors
    /// [`LeaseError::NoOwner`]; [`LeaseError::Deadline`], with the processes that hold the lock;
    /// [`LeaseError::Refused`] if the owner lets no session wait that long.
    pub fn connect(
        path: impl AsRef<Path>,
        lock: Lock,
        deadline: Option<Instant>,
    ) -> Result<Self, LeaseError> {
        Self::begin(path.as_ref(), lock, None, deadline, &mut || true)
    }

    /// [Connects](Self::connect), and asks each 50 ms of the wait whether it is to go on, such as
    /// after a signal. A wait that is given up leaves no request at the owner.
    ///
    /// # Errors
    /// Those of `connect`; [`LeaseError::GivenUp`].
    pub fn connect_while(
        path: impl AsRef<Path>,
        lock: Lock,
        deadline: Option<Instant>,
        mut goes_on: impl FnMut() -> bool,
    ) -> Result<Self, LeaseError> {
        Self::begin(path.as_ref(), lock, None, deadline, &mut goes_on)
    }

    /// [Connects](Self::connect) to the owner that an earlier session had. Another one, also at the
    /// same socket, has none of its memory.
    ///
    /// # Errors
    /// Those of `connect`; [`LeaseError::Refused`] if it is another owner.
    pub fn reconnect(
        path: impl AsRef<Path>,
        lock: Lock,
        owner: &Identity,
        deadline: Option<Instant>,
    ) -> Result<Self, LeaseError> {
        Self::begin(path.as_ref(), lock, Some(owner.clone()), deadline, &mut || true)
    }

    pub(crate) fn begin(
        path: &Path,
        lock_type: Lock,
        expected_identity: Option<Identity>,
        deadline: Option<Instant>,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Result<Self, LeaseError> {
        fork::check()?;
        // Also where this process does not use the driver.
        fork::watch_forks();
        let mut connection = reach(path, deadline, goes_on)?;
        let request = Message::HandshakeRequest { lock_type, expected_identity };
        // Dropping the connection takes the request back.
        let answer = call(&mut connection, &request, deadline, goes_on)?;
        let frame = answer.map_or_else(|| at_deadline(&mut connection, path), Ok)?;
        match frame.message {
            Message::HandshakeResponse { lock_type: lock, server_nonce, gpu_uuid } => {
                let identity = Identity { server_nonce, gpu_uuid };
                let path = std::path::absolute(path)?;
                let (connection, generation) = (Some(connection), fork::generation());
                Ok(Self { connection, generation, path, answer: PATIENCE, lock, identity })
            }
            _ => Err(LeaseError::OtherAnswer),
        }
    }

    /// What this session may do.
    pub fn lock(&self) -> Granted {
        self.lock
    }

    /// Which owner it is.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Whether a request has found the session over.
    pub(crate) fn is_over(&self) -> bool {
        self.connection.is_none()
    }

    /// The owner's socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How long the owner has to answer a request, 10 seconds by default. After that the session is
    /// over, since a later answer could not be told from that of another request.
    pub fn answer_time(&self) -> Duration {
        self.answer
    }

    /// Sets the [time](Self::answer_time) that the owner has to answer a request.
    pub fn set_answer_time(&mut self, time: Duration) {
        self.answer = time;
    }

    /// Lets the owner make memory under a name. `bytes` is a multiple of the device's granularity.
    ///
    /// # Errors
    /// [`LeaseError::Refused`], which says whether there is not enough memory; also if the name is
    /// longer than [`MAX_NAME`](crate::protocol::MAX_NAME) bytes.
    pub fn allocate(&mut self, id: &str, bytes: u64) -> Result<(), LeaseError> {
        let allocation_id = id.to_owned();
        self.done(&Message::AllocateRequest { allocation_id, aligned_size: bytes })
    }

    /// A descriptor of the memory of this name.
    ///
    /// # Errors
    /// [`LeaseError::Refused`] if nothing has that name; [`LeaseError::NoDescriptor`].
    pub fn export(&mut self, id: &str) -> Result<OwnedFd, LeaseError> {
        let frame = self.request(&Message::ExportRequest { allocation_id: id.to_owned() })?;
        frame.descriptor.ok_or(LeaseError::OtherAnswer)?.ok_or(LeaseError::NoDescriptor)
    }

    /// Frees the memory of this name. Mappings keep it.
    ///
    /// # Errors
    /// [`LeaseError::Refused`] if nothing has that name, or the session only reads.
    pub fn free(&mut self, id: &str) -> Result<(), LeaseError> {
        self.done(&Message::FreeRequest { allocation_id: id.to_owned() })
    }

    /// All allocations, in the order in which they were made.
    ///
    /// # Errors
    /// If the owner has gone.
    pub fn list(&mut self) -> Result<Vec<AllocationRecord>, LeaseError> {
        match self.request(&Message::ListAllocationsRequest {})?.message {
            Message::ListAllocationsResponse { allocations } => Ok(allocations),
            _ => Err(LeaseError::OtherAnswer),
        }
    }

    /// Gives a part of an allocation a name, or another one to a name. It goes with the allocation.
    /// Owners of other libraries do not know this request.
    ///
    /// # Errors
    /// [`LeaseError::Refused`] if the session only reads, the part is none of an allocation, or too
    /// much is said of it.
    pub fn put(&mut self, name: &str, content: Content) -> Result<(), LeaseError> {
        self.done(&Message::PutRequest { name: name.to_owned(), content })
    }

    /// What a name stands for.
    ///
    /// # Errors
    /// [`LeaseError::Refused`] if there is no such name.
    pub fn get(&mut self, name: &str) -> Result<Content, LeaseError> {
        match self.request(&Message::GetRequest { name: name.to_owned() })?.message {
            Message::GetResponse { content } => Ok(content),
            _ => Err(LeaseError::OtherAnswer),
        }
    }

    /// All names, in their order as text.
    ///
    /// # Errors
    /// If the owner has gone.
    pub fn names(&mut self) -> Result<Vec<String>, LeaseError> {
        match self.request(&Message::ListNamesRequest {})?.message {
            Message::ListNamesResponse { names } => Ok(names),
            _ => Err(LeaseError::OtherAnswer),
        }
    }

    /// Publishes what is allocated. The session then reads.
    ///
    /// # Errors
    /// [`LeaseError::Refused`] if the session only reads.
    pub fn commit(&mut self) -> Result<(), LeaseError> {
        self.done(&Message::CommitRequest {})?;
        self.lock = Granted::Read;
        Ok(())
    }

    fn done(&mut self, request: &Message) -> Result<(), LeaseError> {
        match self.request(request)?.message {
            Message::SuccessResponse {} => Ok(()),
            _ => Err(LeaseError::OtherAnswer),
        }
    }

    fn request(&mut self, request: &Message) -> Result<Frame<Arrived>, LeaseError> {
        // A request of a child would be one of its parent's session.
        fork::check()?;
        if self.generation != fork::generation() {
            return Err(OF_PARENT);
        }
        let connection = self.connection.as_mut().ok_or(LeaseError::Ended)?;
        // What is too large is not sent, and ends no session.
        encode(request)?;
        let deadline = Instant::now().checked_add(self.answer);
        match call(connection, request, deadline, &mut || true) {
            Ok(Some(frame)) => Ok(frame),
            // Else the owner has closed the connection.
            Err(error @ LeaseError::Refused(_)) if !connection.is_sending() => Err(error),
            outcome => {
                self.connection = None;
                Err(outcome.err().unwrap_or(LeaseError::NoAnswer(self.answer)))
            }
        }
    }
}

/// Connects; waits for an owner that is not there, or is too busy, if there is a deadline.
fn reach(
    path: &Path,
    deadline: Option<Instant>,
    goes_on: &mut dyn FnMut() -> bool,
) -> Result<Connection, LeaseError> {
    loop {
        let error = match connect(path) {
            Ok(stream) => return Ok(Connection::new(stream)),
            Err(error) => error,
        };
        // As many as may wait already wait to be accepted.
        let is_full = error.kind() == io::ErrorKind::WouldBlock;
        let may_come =
            matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused);
        let left = match deadline {
            Some(deadline) => deadline.saturating_duration_since(Instant::now()),
            None if is_full => RETRY,
            None => Duration::ZERO,
        };
        #[expect(
            clippy::disallowed_methods,
            reason = "no event of the system says that an owner came"
        )]
        if (may_come || is_full) && !left.is_zero() {
            std::thread::sleep(left.min(RETRY));
            if !goes_on() {
                return Err(LeaseError::GivenUp);
            }
        } else {
            return Err(LeaseError::NoOwner(path.to_owned(), error));
        }
    }
}

/// A connection to an owner of this process's user, without waiting.
fn connect(path: &Path) -> io::Result<Unforked<UnixStream>> {
    let socket = Unforked::<UnixStream>::socket()?;
    let (address, _folder) = address::reachable(path)?;
    while let Err(error) = rustix::net::connect(&socket, &address) {
        if error != Errno::INTR {
            return Err(error.into());
        }
    }
    // It may be in another namespace of processes, and have no number here.
    let owner = peer::of(&socket)?.user;
    if owner != geteuid().as_raw() {
        let text = format!("it is of user {owner}");
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    Ok(socket)
}

/// Sends a request and waits for its response, while it is to go on. `None` at the deadline.
fn call(
    connection: &mut Connection,
    request: &Message,
    deadline: Option<Instant>,
    goes_on: &mut dyn FnMut() -> bool,
) -> Result<Option<Frame<Arrived>>, LeaseError> {
    connection.send(request, None).map_err(|error| why_closed(connection, error))?;
    let frame = loop {
        connection.flush().map_err(|error| why_closed(connection, error))?;
        if !connection.is_sending() {
            match connection.receive()? {
                Received::Frame(frame) => break frame,
                Received::End => return Err(LeaseError::Ended),
                Received::Nothing => {}
            }
        }
        let asks = Instant::now() + ASKS;
        if !connection.wait(Some(deadline.map_or(asks, |end| end.min(asks))))? {
            if deadline.is_some_and(|end| end <= Instant::now()) {
                return Ok(None);
            }
            if !goes_on() {
                return Err(LeaseError::GivenUp);
            }
        }
    };
    unless_refused(frame).map(Some)
}

/// Why a request could not be sent: what the owner said before it closed the connection.
fn why_closed(connection: &mut Connection, error: ConnectionError) -> LeaseError {
    match connection.receive() {
        Ok(Received::Frame(frame)) => unless_refused(frame).err().unwrap_or_else(|| error.into()),
        _ => error.into(),
    }
}

/// The response to a handshake that has not come by its deadline, if the lock is free all the same.
fn at_deadline(connection: &mut Connection, path: &Path) -> Result<Frame<Arrived>, LeaseError> {
    // An owner that has answered this has granted what it can before.
    let holders = holders_at(path).unwrap_or_default();
    match connection.receive()? {
        Received::Frame(frame) => unless_refused(frame),
        Received::End => Err(LeaseError::Ended),
        Received::Nothing => Err(LeaseError::Deadline(holders)),
    }
}

fn unless_refused(frame: Frame<Arrived>) -> Result<Frame<Arrived>, LeaseError> {
    if let Message::ErrorResponse { message, out_of_memory } = frame.message {
        return Err(LeaseError::Refused(Refusal { message, out_of_memory }));
    }
    Ok(frame)
}

/// Who holds the lock, of an owner that knows the request.
fn holders_at(path: &Path) -> Option<Vec<LockHolder>> {
    let deadline = Some(Instant::now() + ANSWER);
    let mut connection = reach(path, deadline, &mut || true).ok()?;
    let answer = call(&mut connection, &Message::HoldersRequest {}, deadline, &mut || true);
    match answer.ok()??.message {
        Message::HoldersResponse { holders } => Some(holders),
        _ => None,
    }
}
