//! Reports of failures for lack of memory, as files.

#![forbid(unsafe_code)]

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufWriter};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use rmm_core::{fork, wait};

use super::history::History;

/// The environment variable that names the directory for reports of failures.
pub const OOM_REPORT_VARIABLE: &str = "RMM_OOM_REPORT";

/// The most reports of a process.
const MOST_REPORTS: u32 = 3;

/// The most bytes of a report's log.
const MOST_BYTES: usize = 64 << 20;

/// Reports of this process so far.
static REPORTS: AtomicU32 = AtomicU32::new(0);

/// Writes the page of a log: the first path is the log's, the second the page's.
pub type WritePage = fn(&Path, &Path) -> io::Result<()>;

static WRITE_PAGE: OnceLock<WritePage> = OnceLock::new();

/// Has a page written beside the log of each report. The function runs in the call that fails: it
/// must not allocate device memory. The first call counts.
#[doc(hidden)]
pub fn write_pages_by(write: WritePage) {
    // The first one stays.
    let _ignored = WRITE_PAGE.set(write);
}

/// Where reports go.
#[derive(Debug)]
pub(super) struct Reports {
    directory: PathBuf,
    /// The process that may write them.
    generation: u64,
}

impl Reports {
    pub(super) fn new(directory: PathBuf) -> Self {
        fork::watch_forks();
        Self { directory, generation: fork::generation() }
    }

    /// Writes a report, unless the process has written enough. Returns what the error says of it;
    /// `None` in a child of the process.
    #[cold]
    pub(super) fn write(&self, history: impl FnOnce() -> History) -> Option<String> {
        if self.generation != fork::generation() {
            return None;
        }
        wait::about_to_wait();
        let claim = |number: u32| (number < MOST_REPORTS).then_some(number + 1);
        let number = REPORTS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, claim);
        let directory = self.directory.display();
        let Ok(number) = number else {
            return Some(format!("no report in {directory} after the first {MOST_REPORTS}"));
        };
        let name = format!("rmm-oom-{}-{number}", std::process::id());
        let log = self.directory.join(format!("{name}.csv"));
        // A panic would leave the call that fails.
        let written = caught(|| write_log(&log, history()));
        let mut said = match written {
            Ok(is_cut) => {
                let cut = if is_cut { ", without the oldest events" } else { "" };
                format!("the requests before are in {}{cut}", log.display())
            }
            Err(error) => return Some(format!("no report in {directory}: {error}")),
        };
        if let Some(write) = WRITE_PAGE.get() {
            let page = self.directory.join(format!("{name}.html"));
            // Writing to a string does not fail.
            let _ignored = match caught(|| write(&log, &page)) {
                Ok(()) => write!(said, ", drawn in {}", page.display()),
                Err(error) => write!(said, ", and not drawn in {}: {error}", page.display()),
            };
        }
        Some(said)
    }
}

fn caught<T>(act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let outcome = catch_unwind(AssertUnwindSafe(act));
    outcome.unwrap_or_else(|_| Err(io::Error::other("it panicked")))
}

/// Returns whether something was left out.
fn write_log(path: &Path, mut history: History) -> io::Result<bool> {
    let mut file = BufWriter::new(File::create(path)?);
    let is_cut = history.cut(MOST_BYTES);
    history.write(&mut file)?;
    Ok(is_cut)
}
