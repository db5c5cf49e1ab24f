//! The side of the program that is watched: a socket, and the thread that answers.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rmm_adaptors::monitor;
use rmm_core::fork;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::connection::{Connection, Patience, Step};
use super::figures::{ProgramFigures, program};
use super::{place, signals};
use crate::page::MemoryPage;

/// The most watchers that are answered at once.
const MOST_WATCHERS: usize = 16;

/// How long the thread rests where the system refuses a connection, for want of descriptors say.
const REST: Duration = Duration::from_millis(100);

const PATIENCE: Patience =
    Patience { request: Duration::from_secs(1), answer: Duration::from_secs(10) };

/// Makes the answer to a request.
type Answer = fn(&[u8]) -> Vec<u8>;

/// What serves this process and how many handles there are, by its generation. A child has a lock
/// of its own: that of its parent may be held by a thread that it does not have.
static SERVING: [Mutex<Option<Serving>>; 16] = [const { Mutex::new(None) }; 16];

struct Serving {
    server: Server,
    handles: usize,
}

/// Lets others watch this process until the last handle is dropped.
#[derive(Debug)]
#[must_use = "the process is watched only while this lives"]
pub struct Watched {
    path: PathBuf,
    generation: u64,
}

#[derive(Debug)]
struct Server {
    path: PathBuf,
    /// The thread ends when this end is shut.
    stop: UnixStream,
    generation: u64,
}

/// Opens the socket of this process, and answers those that watch it until the result is dropped.
/// Where it is open already, the result is another handle to it.
///
/// # Errors
/// If the folder is not this user's alone, or the socket or the thread cannot be made.
pub fn serve() -> io::Result<Watched> {
    fork::watch_forks();
    let generation = fork::generation();
    let mut serving = lock(generation);
    if let Some(Serving { server, handles }) = &mut *serving
        && server.generation == generation
    {
        *handles += 1;
        return Ok(Watched { path: server.path.clone(), generation });
    }
    let folder = place::own_folder()?;
    place::remove_stale(&folder);
    let path = place::socket(&folder, std::process::id());
    let server = Server::start(path.clone(), generation, PATIENCE, answer)?;
    *serving = Some(Serving { server, handles: 1 });
    Ok(Watched { path, generation })
}

fn lock(generation: u64) -> MutexGuard<'static, Option<Serving>> {
    let number = usize::try_from(generation % SERVING.len() as u64).unwrap_or_default();
    SERVING[number].lock().unwrap_or_else(PoisonError::into_inner)
}

impl Watched {
    /// Where the socket is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // The server of a parent is not this process's.
        if self.generation != fork::generation() {
            return;
        }
        let mut serving = lock(self.generation);
        let Some(Serving { handles, .. }) = &mut *serving else { return };
        *handles -= 1;
        if *handles == 0 {
            // With the lock held: the next one would find the socket that goes.
            *serving = None;
        }
    }
}

impl Server {
    fn start(
        path: PathBuf,
        generation: u64,
        patience: Patience,
        answer: Answer,
    ) -> io::Result<Self> {
        let listener = listen(&path).map_err(|error| place::named(&path, &error))?;
        let (stop, stopped) = UnixStream::pair()?;
        // From here on it is removed again where something fails.
        let server = Self { path, stop, generation };
        listener.set_nonblocking(true)?;
        let run = move || serve_until(&listener, &stopped, patience, answer);
        let thread = thread::Builder::new().name("rmm-watch".to_owned());
        // Signals are for the threads of the program.
        signals::blocked(|| thread.spawn(run))?;
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The socket and its path are the parent's.
        if self.generation == fork::generation() {
            // The path may have been removed by someone else, and the thread may have ended.
            let _ignored = fs::remove_file(&self.path);
            let _ignored = self.stop.shutdown(Shutdown::Both);
        }
    }
}

fn listen(path: &Path) -> io::Result<UnixListener> {
    if place::answers(path) {
        return Err(io::Error::new(ErrorKind::AddrInUse, "another process listens there"));
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Answers until the other end of `stopped` is shut.
fn serve_until(listener: &UnixListener, stopped: &UnixStream, patience: Patience, answer: Answer) {
    let mut watchers: Vec<Connection> = Vec::new();
    let mut rests = false;
    loop {
        let is_open = watchers.len() < MOST_WATCHERS && !rests;
        let mut waited = vec![PollFd::new(stopped, PollFlags::IN)];
        waited.extend(watchers.iter().map(|watcher| PollFd::new(watcher, watcher.interest())));
        if is_open {
            waited.push(PollFd::new(listener, PollFlags::IN));
        }
        let first = watchers.iter().map(Connection::deadline).min();
        let left = first.map(|first| first.saturating_duration_since(Instant::now()));
        let left = if rests { Some(left.map_or(REST, |left| left.min(REST))) } else { left };
        // A second is enough where the time does not fit.
        let left =
            left.map(|left| Timespec::try_from(left).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 }));
        let failed =
            poll(&mut waited, left.as_ref()).is_err_and(|error| error != rustix::io::Errno::INTR);
        let ready: Vec<bool> = waited.iter().map(|one| !one.revents().is_empty()).collect();
        if failed || ready[0] {
            return;
        }
        let mut number = 0;
        watchers.retain_mut(|watcher| {
            number += 1;
            let step = if ready[number] { watcher.step(answer) } else { Step::Continues };
            step == Step::Continues && Instant::now() < watcher.deadline()
        });
        rests =
            is_open && ready.last() == Some(&true) && !accept(listener, &mut watchers, patience);
    }
}

/// Takes the watchers that wait, as far as there is room; returns whether the system lets us.
fn accept(listener: &UnixListener, watchers: &mut Vec<Connection>, patience: Patience) -> bool {
    while watchers.len() < MOST_WATCHERS {
        match listener.accept() {
            // One that is refused is closed.
            Ok((stream, _)) => watchers.extend(Connection::accept(stream, patience).ok()),
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock => return true,
                ErrorKind::Interrupted | ErrorKind::ConnectionAborted => {}
                _ => return false,
            },
        }
    }
    true
}

/// The answer to a request.
fn answer(request: &[u8]) -> Vec<u8> {
    let answered = catch_unwind(AssertUnwindSafe(|| match request {
        b"figures" => serde_json::to_vec(&ProgramFigures::of_this_process(&monitor::read()))
            .map_err(|error| error.to_string()),
        b"page" => {
            let title = format!("{}, process {}", program(), std::process::id());
            Ok(MemoryPage::of_maps(title, &monitor::maps()).render().into_bytes())
        }
        _ => Err("a request is `figures` or `page`".to_owned()),
    }));
    match answered.unwrap_or_else(|_| Err("the answer panicked".to_owned())) {
        Ok(body) => [format!("ok {}\n", body.len()).as_bytes(), &body].concat(),
        Err(error) => format!("error {error}\n").into_bytes(),
    }
}

#[cfg(test)]
#[path = "server/tests.rs"]
mod tests;
