//! One owner for each tag, each on a thread.

use std::fmt::Write as _;
use std::fs::DirBuilder;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use rmm_core::Device;
use rmm_lease::{Server, ServerOptions};
use rmm_report::format::bytes;
use rustix::process::{Signal, getpid, kill_process};

use super::super::{BAD_INPUT, Ended, FAILURE};
use super::{signals, threads};
use crate::args::{MemorySize, ServeArgs};

pub(super) fn serve(args: &ServeArgs) -> Ended {
    // Before anything starts a thread, which would take the signals.
    let stop = match signals::ends() {
        Ok(stop) => stop,
        Err(error) => return Ended::failed(FAILURE, format!("cannot wait for signals: {error}")),
    };
    let servers = match open(args) {
        Ok(servers) => servers,
        Err(message) => return Ended::failed(BAD_INPUT, message),
    };
    let text = match started(args) {
        Ok(text) => text,
        Err(message) => return Ended::failed(BAD_INPUT, message),
    };
    let mut stdout = io::stdout().lock();
    // Without a reader it serves all the same.
    let _ignored = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    drop(stdout);
    let failures = run(servers, &stop);
    let status = if failures.is_empty() { super::super::SUCCESS } else { FAILURE };
    Ended { text: String::new(), messages: failures, status }
}

/// The servers, with the names of their tags.
fn open(args: &ServeArgs) -> Result<Vec<(String, Server)>, String> {
    let mut tags = args.tags.iter().enumerate();
    if let Some((_, twice)) = tags.find(|(index, tag)| args.tags[..*index].contains(tag)) {
        return Err(format!("the tag {twice} is named twice"));
    }
    let device = Device::new(args.device as usize).map_err(|error| error.to_string())?;
    let directory = &args.directory;
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .map_err(|error| format!("cannot make the directory {}: {error}", directory.display()))?;
    let mut options = ServerOptions::default();
    options.limit = args.limit.map_or(u64::MAX, MemorySize::bytes);
    options.wait = args.wait;
    options.memory_wait = args.memory_wait;
    let bind = |tag: &String| {
        let path = directory.join(format!("{tag}.sock"));
        let server = Server::bind(&path, device, options)
            .map_err(|error| format!("cannot serve {}: {error}", path.display()))?;
        Ok((tag.clone(), server))
    };
    args.tags.iter().map(bind).collect()
}

/// What is said once it serves.
fn started(args: &ServeArgs) -> Result<String, String> {
    let device = Device::new(args.device as usize).map_err(|error| error.to_string())?;
    let name = device.name().map_err(|error| error.to_string())?;
    let total = device.total_memory().map_err(|error| error.to_string())?;
    let limit = args.limit.map_or(total, MemorySize::bytes);
    let mut text = String::new();
    for tag in &args.tags {
        let path = Path::new(&args.directory).join(format!("{tag}.sock"));
        // Writing to a string does not fail.
        let _ignored = writeln!(
            text,
            "{}: at most {} of device {}, {name}",
            path.display(),
            bytes(limit),
            args.device
        );
    }
    Ok(text)
}

/// Serves until it is told to end. Returns what went wrong.
fn run(servers: Vec<(String, Server)>, stop: &OwnedFd) -> Vec<String> {
    let serve = |(tag, mut server): (String, Server)| (tag, move || server.run(stop));
    threads::run(servers.into_iter().map(serve).collect(), || {
        // Half of the tags are of no use.
        let _ignored = kill_process(getpid(), Signal::TERM);
    })
}
