//! An owner at a socket.

mod allocations;
mod session;
mod socket;

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rmm_core::{Device, fork};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;

use self::session::{Phase, Session};
use self::socket::Socket;
use crate::connection::{Received, wait_for};
use crate::device::uuid_of;
use crate::memory::{Origin, PhysicalMemory};
use crate::protocol::{Granted, Identity, LockHolder, Message};
use crate::unforked::Unforked;
use crate::{Refusal, SessionId, State};

/// How many connections an owner has at a time; others wait to be accepted.
const SESSIONS: usize = 1024;

/// How long a connection may ask for nothing.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// How long an owner accepts no connection after the system had no descriptor for one.
const PAUSE: Duration = Duration::from_millis(100);

/// Options of a [`Server`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ServerOptions {
    /// How many bytes it allocates at most; as many as the device has by default.
    pub limit: u64,
    /// How long a session waits for its lock, before it is refused with the names of the processes
    /// that hold it. Without end by default.
    pub wait: Option<Duration>,
    /// How long an allocation waits for memory of the device that other processes have, such as
    /// those that were killed and are not gone yet, before it is refused. None by default: it is
    /// refused at once. A session that has waited and got nothing is refused at once from then on,
    /// until it gets as many bytes: a pool tries several sizes. Each session that waits has to have
    /// an [answer time](crate::Lease::set_answer_time) that is longer, and makes no other request
    /// meanwhile, not even a free.
    pub memory_wait: Option<Duration>,
    /// How long a connection may stay without asking for a lock before it is ended; 10 seconds by
    /// default.
    pub handshake: Duration,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self { limit: u64::MAX, wait: None, memory_wait: None, handshake: HANDSHAKE }
    }
}

/// The owner of memory of a device: it makes memory, and sends it to the processes of its user that
/// connect to a socket. It has no context on the device and maps nothing, so it survives what its
/// clients do, and a device that is lost. A child that its process forks has neither the socket nor
/// the sessions.
///
/// ```no_run
/// use rmm_core::Device;
/// use rmm_lease::{Server, ServerOptions};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let options = ServerOptions::default();
/// let mut server = Server::bind("/run/user/1000/weights.sock", Device::new(0)?, options)?;
/// server.run(std::io::stdin())?; // until the standard input ends
/// # Ok(())
/// # }
/// ```
pub struct Server {
    socket: Socket,
    identity: Identity,
    origin: Origin,
    wait: Option<Duration>,
    memory_wait: Option<Duration>,
    handshake: Duration,
    state: State<PhysicalMemory>,
    sessions: BTreeMap<SessionId, Session>,
    last: u64,
    pause: Option<Instant>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server")
            .field("identity", &self.identity)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

impl Server {
    /// Makes a socket of this name, which only this process's user can open. One that an owner left
    /// behind when it was killed is replaced. Beside it is a file whose name ends in `.lock`.
    ///
    /// # Errors
    /// If the socket cannot be made: `AddrInUse` if someone serves one of this name,
    /// `AlreadyExists` if the name is that of something else; or if the driver refuses.
    pub fn bind(
        path: impl AsRef<Path>,
        device: Device,
        options: ServerOptions,
    ) -> io::Result<Self> {
        let origin = Origin::on(device).map_err(io::Error::other)?;
        let gpu_uuid = uuid_of(device).map_err(io::Error::other)?;
        let socket = Socket::bind(path.as_ref())?;
        let random = RandomState::new();
        let (first, second) = (random.hash_one(1), random.hash_one(2));
        let server_nonce = format!("{first:016x}{second:016x}");
        Ok(Self {
            socket,
            identity: Identity { server_nonce, gpu_uuid },
            origin,
            wait: options.wait,
            memory_wait: options.memory_wait,
            handshake: options.handshake,
            state: State::new(options.limit),
            sessions: BTreeMap::new(),
            last: 0,
            pause: None,
        })
    }

    /// Which owner it is.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Serves until `stop` can be read or is closed.
    ///
    /// # Errors
    /// If the system cannot wait for the sockets, or in the child of a fork, whose parent serves.
    pub fn run(&mut self, stop: impl AsFd) -> io::Result<()> {
        fork::check().map_err(io::Error::other)?;
        while !self.turn(&stop)? {}
        Ok(())
    }

    /// Waits for sessions, and serves those that have something: whether it is to stop.
    fn turn(&mut self, stop: &impl AsFd) -> io::Result<bool> {
        let accepts = self.sessions.len() < SESSIONS && self.pause.is_none();
        let awaited = if accepts { PollFlags::IN } else { PollFlags::empty() };
        let mut files = vec![PollFd::new(stop, PollFlags::IN), PollFd::new(&self.socket, awaited)];
        let mut ids = Vec::with_capacity(self.sessions.len());
        for (&id, session) in &self.sessions {
            let flags = match &session.pending {
                // It hears of the end of the connection all the same.
                Some(_) => PollFlags::empty(),
                None if session.connection.is_sending() => PollFlags::OUT,
                None => PollFlags::IN,
            };
            files.push(PollFd::new(&session.connection, flags));
            ids.push(id);
        }
        let mut watched = Vec::with_capacity(ids.len());
        for (position, session) in self.sessions.values().enumerate() {
            if let Some(end) = &session.end {
                files.push(PollFd::new(end, PollFlags::IN));
                watched.push(position);
            }
        }
        let deadlines = self.sessions.values().filter_map(Session::deadline);
        let retries = self.sessions.values().filter_map(Session::retry_at);
        wait_for(&mut files, deadlines.chain(retries).chain(self.pause).min())?;
        let is_ready: Vec<bool> = files.iter().map(|file| !file.revents().is_empty()).collect();
        drop(files);
        let (ready, ended) = is_ready[2..].split_at(ids.len());
        for (&id, _) in ids.iter().zip(ready).filter(|(_, ready)| **ready) {
            self.serve(id);
        }
        // What a process has sent before its end is done first.
        for (position, _) in watched.into_iter().zip(ended).filter(|(_, ended)| **ended) {
            if !ready[position] {
                self.end(ids[position]);
            }
        }
        self.pause = self.pause.filter(|&end| end > Instant::now());
        if is_ready[1] {
            self.accept();
        }
        self.retry();
        self.admit();
        self.refuse_late();
        Ok(is_ready[0])
    }

    fn accept(&mut self) {
        match self.socket.accept() {
            Ok(Some((stream, process))) => self.add(stream, process),
            Ok(None) => {}
            Err(_) => self.pause = Some(Instant::now() + PAUSE),
        }
    }

    fn add(&mut self, stream: Unforked<UnixStream>, process: Option<u32>) {
        self.last += 1;
        let handshake = Instant::now().checked_add(self.handshake);
        let mut session = Session::new(stream, process, handshake);
        match session.watch() {
            Ok(()) => drop(self.sessions.insert(SessionId(self.last), session)),
            // Dropping the connection ends that of its children.
            Err(Errno::SRCH) => {}
            Err(error) => {
                let text = format!("it has no means left for another session: {error}");
                let _ignored = session.refuse(&Refusal::new(text));
                self.pause = Some(Instant::now() + PAUSE);
            }
        }
    }

    /// Goes on with a session, and ends it if it cannot go on.
    fn serve(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        if session.pending.is_some() {
            return self.end(id);
        }
        let goes_on = match session.connection.flush() {
            Err(_) => false,
            Ok(()) if session.connection.is_sending() => true,
            Ok(()) => match session.connection.receive() {
                Ok(Received::Nothing) => true,
                Ok(Received::Frame(frame)) => self.handle(id, frame.message),
                Ok(Received::End) => false,
                Err(error) => {
                    let _ignored = session.refuse(&Refusal::new(error.to_string()));
                    false
                }
            },
        };
        if !goes_on {
            self.end(id);
        }
    }

    fn end(&mut self, id: SessionId) {
        self.sessions.remove(&id);
        self.state.close(id);
    }

    /// Does a request: whether the session goes on.
    fn handle(&mut self, id: SessionId, message: Message) -> bool {
        let Some(session) = self.sessions.get_mut(&id) else { return false };
        if session.phase == Phase::Granted {
            if let Message::AllocateRequest { allocation_id, aligned_size } = message {
                return self.allocate(id, allocation_id, aligned_size);
            }
            let response = self.answer(id, message);
            let Some(session) = self.sessions.get_mut(&id) else { return false };
            return match response {
                Ok((response, file)) => session.connection.send(&response, file).is_ok(),
                Err(refusal) => session.refuse(&refusal).is_ok(),
            };
        }
        match message {
            Message::HoldersRequest {} if session.is_new() => {
                let response = Message::HoldersResponse { holders: self.state.holders() };
                session.connection.send(&response, None).is_ok()
            }
            Message::HandshakeRequest { lock_type, expected_identity } if session.is_new() => {
                if expected_identity.is_some_and(|expected| expected != self.identity) {
                    let text = "this is another owner than before: what it had is gone";
                    let _ignored = session.refuse(&Refusal::new(text));
                    return false;
                }
                session.phase =
                    Phase::Waiting(self.wait.and_then(|wait| Instant::now().checked_add(wait)));
                self.state.request(id, session.process, lock_type);
                true
            }
            _ => {
                let text = "a session begins with a handshake, and goes on when it is answered";
                let _ignored = session.refuse(&Refusal::new(text));
                false
            }
        }
    }

    /// The response to a request of a session that has a lock.
    fn answer(
        &mut self,
        id: SessionId,
        message: Message,
    ) -> Result<(Message, Option<OwnedFd>), Refusal> {
        let mut file = None;
        let response = match message {
            Message::ExportRequest { allocation_id } => {
                file = Some(self.state.export(id, &allocation_id)?.export()?);
                Message::ExportResponse {}
            }
            Message::FreeRequest { allocation_id } => {
                self.state.free(id, &allocation_id)?;
                Message::SuccessResponse {}
            }
            Message::ListAllocationsRequest {} => {
                Message::ListAllocationsResponse { allocations: self.state.list(id)? }
            }
            Message::PutRequest { name, content } => {
                self.state.put(id, &name, content)?;
                Message::SuccessResponse {}
            }
            Message::GetRequest { name } => {
                Message::GetResponse { content: self.state.get(id, &name)?.clone() }
            }
            Message::ListNamesRequest {} => {
                Message::ListNamesResponse { names: self.state.names(id)? }
            }
            Message::CommitRequest {} => {
                self.state.commit(id)?;
                Message::SuccessResponse {}
            }
            Message::AbortRequest {} => {
                self.state.abort(id)?;
                Message::SuccessResponse {}
            }
            _ => return Err(Refusal::new("not a request of a session that has its lock")),
        };
        Ok((response, file))
    }

    /// Answers the handshakes of the sessions that get their locks.
    fn admit(&mut self) {
        // A session that has ended meanwhile lets others in.
        loop {
            let admitted = self.state.admit();
            if admitted.is_empty() {
                return;
            }
            for (id, lock_type) in admitted {
                let Identity { server_nonce, gpu_uuid } = self.identity.clone();
                let response = Message::HandshakeResponse { lock_type, server_nonce, gpu_uuid };
                let sent = self.sessions.get_mut(&id).is_some_and(|session| {
                    session.phase = Phase::Granted;
                    session.connection.send(&response, None).is_ok()
                });
                if !sent {
                    self.end(id);
                }
            }
        }
    }

    /// Ends the sessions that have waited too long, or asked for nothing.
    fn refuse_late(&mut self) {
        let now = Instant::now();
        let is_late = |session: &Session| session.deadline().is_some_and(|end| end <= now);
        let late = self.sessions.iter().filter(|(_, session)| is_late(session));
        let late: Vec<SessionId> = late.map(|(&id, _)| id).collect();
        let refusal = Refusal::new(who_holds(&self.state.holders()));
        let silent = Refusal::new("the connection has not asked for a lock in time");
        for id in late {
            // One that does not read its answer gets no other.
            let session = self.sessions.get_mut(&id);
            if let Some(session) = session.filter(|session| !session.connection.is_sending()) {
                let refusal = if session.is_new() { &silent } else { &refusal };
                let _ignored = session.refuse(refusal);
            }
            self.end(id);
        }
    }
}

/// A sentence for those who wait.
pub(crate) fn who_holds(holders: &[LockHolder]) -> String {
    let apart = |one: &&LockHolder| one.process == 0;
    let names: Vec<String> =
        holders.iter().filter(|one| !apart(one)).map(|one| one.process.to_string()).collect();
    let mut who = match &*names {
        [] => Vec::new(),
        [one] => vec![format!("process {one}")],
        _ => vec![format!("processes {}", names.join(", "))],
    };
    match holders.iter().filter(apart).count() {
        0 => {}
        1 => who.push("a process of another namespace".into()),
        count => who.push(format!("{count} processes of other namespaces")),
    }
    let who = who.join(" and ");
    match holders {
        [] => "nothing is committed, and no process writes".into(),
        [one] if one.lock == Granted::Write => format!("{who} writes"),
        [_] => format!("{who} reads"),
        _ => format!("{who} read"),
    }
}
