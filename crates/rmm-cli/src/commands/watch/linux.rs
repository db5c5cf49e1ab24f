//! Asks a program for its figures, again and again.

use std::io::{self, ErrorKind, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rmm_report::watch::{self, ProgramFigures};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::super::{BAD_INPUT, Ended, FAILURE};
use super::shown;
use crate::args::{OutputArgs, WatchArgs};
use crate::deliver;

/// How long a process may live after its socket.
const END: Duration = Duration::from_secs(1);

pub(super) fn watch(args: &WatchArgs) -> Ended {
    let Some(pid) = args.pid else { return list(args.json) };
    match &args.html {
        Some(path) => page(pid, path),
        None => watch_until_end(pid, args),
    }
}

/// The programs that can be watched.
fn list(json: bool) -> Ended {
    // One that has ended since is no longer one of them.
    let readings = watch::watched().into_iter().filter_map(|pid| watch::figures(pid).ok());
    let lines: String = readings
        .map(|figures| if json { json_line(&figures) } else { shown::in_list(&figures) })
        .collect();
    if lines.is_empty() && !json {
        return Ended::succeeded("no program of yours lets itself be watched\n".to_owned());
    }
    Ended::succeeded(lines)
}

fn page(pid: u32, path: &Path) -> Ended {
    let outputs = OutputArgs { json: None, html: Some(PathBuf::from(path)) };
    if let Err(error) = deliver::check(&outputs) {
        return Ended::failed(BAD_INPUT, error);
    }
    match watch::page(pid) {
        Ok(page) => {
            let nothing = || Ok(String::new());
            let written = deliver::write(&outputs, String::new(), nothing, || page);
            Ended::succeeded(String::new()).delivered(written)
        }
        Err(error) => Ended::failed(BAD_INPUT, error.to_string()),
    }
}

fn watch_until_end(pid: u32, args: &WatchArgs) -> Ended {
    let process = handle(pid);
    let mut before: Option<ProgramFigures> = None;
    let mut readings = 0;
    loop {
        let figures = match watch::figures(pid) {
            Ok(figures) => figures,
            // It may take a moment from the end of its socket to its own.
            Err(_) if before.is_some() && ends_within(process.as_ref(), END) => return ended(pid),
            Err(error) => return Ended::failed(BAD_INPUT, error.to_string()),
        };
        let text = if args.json {
            json_line(&figures)
        } else {
            shown::as_table(&figures, before.as_ref())
        };
        match print(&text) {
            Ok(()) => {}
            // The reader has seen enough.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                return Ended::succeeded(String::new());
            }
            Err(error) => return Ended::failed(FAILURE, format!("cannot print: {error}")),
        }
        readings += 1;
        if args.count.is_some_and(|count| readings >= count) {
            return Ended::succeeded(String::new());
        }
        before = Some(figures);
        if ends_within(process.as_ref(), args.interval) {
            return ended(pid);
        }
    }
}

fn ended(pid: u32) -> Ended {
    let mut ended = Ended::succeeded(String::new());
    ended.messages.push(format!("process {pid} has ended"));
    ended
}

/// A handle to the process; none on kernels before Linux 5.3.
fn handle(pid: u32) -> Option<OwnedFd> {
    let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
    pidfd_open(pid, PidfdFlags::empty()).ok()
}

/// Waits for the process to end, at most so long; returns whether it has.
fn ends_within(process: Option<&OwnedFd>, time: Duration) -> bool {
    let mut waited: Vec<PollFd<'_>> =
        process.into_iter().map(|process| PollFd::new(process, PollFlags::IN)).collect();
    // A longer one would not be over while anyone looks.
    let time = Timespec::try_from(time).unwrap_or(Timespec { tv_sec: 1 << 30, tv_nsec: 0 });
    // A signal ends the wait early, and the next reading comes sooner.
    poll(&mut waited, Some(&time)).is_ok_and(|ready| ready > 0)
}

fn json_line(figures: &ProgramFigures) -> String {
    // Figures are plain numbers and texts, which JSON has.
    serde_json::to_string(figures).map_or_else(|error| error.to_string(), |line| line + "\n")
}

fn print(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}
