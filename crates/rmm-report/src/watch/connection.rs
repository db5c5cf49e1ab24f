//! A connection of a watcher: its request, and the answer. It never waits: the server polls.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rmm_core::peer;
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use super::place::own_user;

/// The most bytes of a request, with its line end.
pub(super) const MOST_REQUEST: usize = 64;

/// How long a watcher may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    pub(super) request: Duration,
    pub(super) answer: Duration,
}

/// A connection that is not ended yet.
#[derive(Debug)]
pub(super) struct Connection {
    stream: UnixStream,
    state: State,
    /// When it is closed, whatever has come of it.
    deadline: Instant,
    patience: Patience,
}

#[derive(Debug)]
enum State {
    /// What has come of the request.
    Reading(Vec<u8>),
    /// What is left of the answer.
    Writing { answer: Vec<u8>, sent: usize },
}

/// What a step led to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    Continues,
    /// The connection is to be closed.
    Ended,
}

impl Connection {
    /// Begins to serve a watcher, if it is one of this user or of root.
    pub(super) fn accept(stream: UnixStream, patience: Patience) -> io::Result<Self> {
        let user = peer::of(&stream)?.user;
        if user != 0 && user != own_user() {
            return Err(ErrorKind::PermissionDenied.into());
        }
        stream.set_nonblocking(true)?;
        let deadline = Instant::now() + patience.request;
        Ok(Self { stream, state: State::Reading(Vec::new()), deadline, patience })
    }

    /// What to wait for.
    pub(super) fn interest(&self) -> PollFlags {
        match self.state {
            State::Reading(_) => PollFlags::IN,
            State::Writing { .. } => PollFlags::OUT,
        }
    }

    pub(super) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Reads or writes what is possible. `answer` gets the request, without its line end.
    pub(super) fn step(&mut self, answer: impl FnOnce(&[u8]) -> Vec<u8>) -> Step {
        if let State::Reading(request) = &mut self.state {
            match read(&self.stream, request) {
                Ok(false) => return Step::Continues,
                Ok(true) => {
                    let answer = answer(request.trim_ascii_end());
                    self.state = State::Writing { answer, sent: 0 };
                    self.deadline = Instant::now() + self.patience.answer;
                }
                Err(_) => return Step::Ended,
            }
        }
        self.write()
    }

    fn write(&mut self) -> Step {
        let State::Writing { answer, sent } = &mut self.state else { return Step::Continues };
        while *sent < answer.len() {
            // Without a signal where the watcher is gone: the program may not ignore it.
            match send(&self.stream, &answer[*sent..], SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(bytes) => *sent += bytes,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Step::Continues,
                Err(_) => return Step::Ended,
            }
        }
        Step::Ended
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// Adds what has come; returns whether the request is complete.
///
/// # Errors
/// If the watcher is gone, or its request is too long.
fn read(stream: &UnixStream, request: &mut Vec<u8>) -> io::Result<bool> {
    let mut part = [0; MOST_REQUEST];
    loop {
        let room = MOST_REQUEST - request.len();
        match recv(stream, &mut part[..room], RecvFlags::DONTWAIT) {
            Ok((0, _)) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok((bytes, _)) => request.extend_from_slice(&part[..bytes]),
            Err(Errno::INTR) => continue,
            Err(Errno::AGAIN) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        if request.contains(&b'\n') {
            return Ok(true);
        }
        if request.len() == MOST_REQUEST {
            return Err(ErrorKind::InvalidData.into());
        }
    }
}
