//! The side of the watcher.

use std::io::{self, BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rmm_core::peer;

use super::figures::ProgramFigures;
use super::place;

/// The most bytes of an answer.
const MOST_ANSWER: u64 = 256 << 20;

/// How long a process may stay silent.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long it may while it draws a page.
const PATIENCE_FOR_PAGE: Duration = Duration::from_secs(60);

/// The figures of a process that lets itself be watched.
///
/// # Errors
/// If there is no such process, it does not let itself be watched, or it does not answer.
pub fn figures(pid: u32) -> io::Result<ProgramFigures> {
    let answer = ask(pid, "figures", PATIENCE)?;
    serde_json::from_slice(&answer)
        .map_err(|error| io::Error::new(ErrorKind::InvalidData, format!("process {pid}: {error}")))
}

/// A page of the heaps of a process that lets itself be watched, as HTML.
///
/// # Errors
/// Those of [`figures`].
pub fn page(pid: u32) -> io::Result<String> {
    let answer = ask(pid, "page", PATIENCE_FOR_PAGE)?;
    String::from_utf8(answer)
        .map_err(|error| io::Error::new(ErrorKind::InvalidData, format!("process {pid}: {error}")))
}

/// The processes of this user that let themselves be watched.
#[must_use]
pub fn watched() -> Vec<u32> {
    let user = place::own_user();
    let folders = place::folders(user).into_iter();
    let folders = folders.filter(|folder| place::check(folder, user).is_ok());
    let mut found: Vec<u32> = folders.flat_map(|folder| place::processes(&folder)).collect();
    found.retain(|&pid| connect(pid).is_ok());
    found.sort_unstable();
    found.dedup();
    found
}

fn ask(pid: u32, request: &str, patience: Duration) -> io::Result<Vec<u8>> {
    let asked = connect(pid).and_then(|stream| exchange(stream, request, patience));
    asked.map_err(|error| {
        let text = match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => "it does not answer".to_owned(),
            ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => {
                "it has ended, or is too busy to answer".to_owned()
            }
            _ => error.to_string(),
        };
        io::Error::new(error.kind(), format!("process {pid}: {text}"))
    })
}

/// Connects to a process, and to no other.
fn connect(pid: u32) -> io::Result<UnixStream> {
    let of_process = std::fs::metadata(format!("/proc/{pid}"));
    let user = of_process.map_err(|_| io::Error::new(ErrorKind::NotFound, "there is none"))?.uid();
    let mut refused = None;
    for folder in place::folders(user) {
        let path = place::socket(&folder, pid);
        if !folder.exists() {
            continue;
        }
        match open(pid, user, &folder, &path) {
            Ok(stream) => return Ok(stream),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => refused = Some(error),
        }
    }
    Err(refused.unwrap_or_else(|| {
        let text = "it does not let itself be watched: start it with RMM_WATCH=1";
        io::Error::new(ErrorKind::NotFound, text)
    }))
}

fn open(pid: u32, user: u32, folder: &Path, path: &Path) -> io::Result<UnixStream> {
    place::check(folder, user)?;
    let stream = place::connect(path, PATIENCE)?;
    let peer = peer::of(&stream)?;
    if peer.user != user || peer.process != Some(pid) {
        return Err(io::Error::new(ErrorKind::PermissionDenied, "another process listens there"));
    }
    Ok(stream)
}

fn exchange(mut stream: UnixStream, request: &str, patience: Duration) -> io::Result<Vec<u8>> {
    stream.set_read_timeout(Some(patience))?;
    stream.write_all(format!("{request}\n").as_bytes())?;
    let mut answer = BufReader::new(stream.take(MOST_ANSWER));
    let mut head = String::new();
    answer.read_line(&mut head)?;
    if let Some(error) = head.strip_prefix("error ") {
        return Err(io::Error::other(error.trim_end().to_owned()));
    }
    let bytes = head.strip_prefix("ok ").and_then(|bytes| bytes.trim_end().parse::<usize>().ok());
    let Some(bytes) = bytes else { return Err(ErrorKind::UnexpectedEof.into()) };
    let mut body = Vec::new();
    answer.read_to_end(&mut body)?;
    if body.len() == bytes { Ok(body) } else { Err(ErrorKind::UnexpectedEof.into()) }
}
