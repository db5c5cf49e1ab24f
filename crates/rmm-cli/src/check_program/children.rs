//! Processes that live on when the program has ended.
//!
//! This process asks to be their parent (`PR_SET_CHILD_SUBREAPER`): a process whose parent ends,
//! even one that has left its session, becomes its child. So none that the program has started is
//! out of sight.

use std::fs;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{WaitOptions, getpid, set_child_subreaper, wait};

/// How long processes may live on: servers that a library starts end once they see that the program
/// has ended.
const PATIENCE: Duration = Duration::from_secs(10);

/// Makes this process the parent of those whose parents end. Until the result is dropped, other
/// threads that call this wait: all children of the process count as those of one program.
///
/// # Errors
/// If the system refuses.
pub(super) fn adopt_orphans() -> io::Result<MutexGuard<'static, ()>> {
    static ONE_PROGRAM: Mutex<()> = Mutex::new(());
    set_child_subreaper(Some(getpid()))?;
    Ok(ONE_PROGRAM.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Waits until all have ended, for a while. Returns those that still run, as reports name them.
pub(super) fn still_running() -> Vec<String> {
    let (all_ended, ended) = mpsc::channel();
    thread::spawn(move || {
        while !matches!(wait(WaitOptions::empty()), Err(error) if error != Errno::INTR) {}
        // The other side has given up.
        let _ignored = all_ended.send(());
    });
    if ended.recv_timeout(PATIENCE).is_ok() { Vec::new() } else { names() }
}

/// The children of this process: at least one line, since there is one.
fn names() -> Vec<String> {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let children = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let lists: Vec<String> = children.collect();
    let names: Vec<String> =
        lists.iter().flat_map(|list| list.split_whitespace()).map(name).collect();
    if names.is_empty() { vec!["a process".to_owned()] } else { names }
}

fn name(process: &str) -> String {
    let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    let line = String::from_utf8_lossy(&line).trim_end_matches('\0').replace('\0', " ");
    format!("process {process} ({line})")
}
