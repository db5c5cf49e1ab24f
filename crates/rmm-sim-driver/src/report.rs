//! The report of a process, one line for each finding. `rmm check` reads it.
//!
//! ```text
//! calls 0000000012 python3 train.py     driver calls, once the process ends; its command line
//! violation TEXT      line breaks are written as \n, backslashes as \\
//! missing NAME        a kernel that was not found
//! shared TEXT         memory was exported or imported: the order between processes is not checked
//! refused NAME        a function that was called and not served
//! leak TEXT
//! end                 the process has ended by its exit handlers
//! ```
//!
//! A line is appended to the file when there is something to say: no descriptor stays open that the
//! program, or a child that it forks, could close or inherit. For the same reason nothing here is
//! locked: a child may be forked at any time.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

/// Where reports go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Sink {
    /// Files in this folder.
    Folder(PathBuf),
    /// Standard error.
    Errors,
    /// Nowhere.
    None,
}

static SINK: OnceLock<Sink> = OnceLock::new();

/// The process whose thread began a report last, and the one whose report is begun: this process,
/// or one that has forked it.
static BEGINNING: AtomicU32 = AtomicU32::new(0);
static BEGUN: AtomicU32 = AtomicU32::new(0);
/// Which of the programs that the process has executed one after another this is.
static PROGRAM: AtomicU32 = AtomicU32::new(1);
/// Refused calls that this process has reported.
static REFUSED: AtomicU32 = AtomicU32::new(0);

/// Upper bound on the refused calls that a process reports, most of which are of one function.
const REFUSED_SHOWN: u32 = 1000;
/// Upper bound on the characters of a command line.
const COMMAND_SHOWN: usize = 120;

/// The sink, as the environment chose when the library was loaded.
pub(crate) fn sink() -> &'static Sink {
    SINK.get_or_init(|| match std::env::var_os("RMM_SIM_REPORT") {
        Some(place) if place == "-" => Sink::Errors,
        Some(folder) if !folder.is_empty() => {
            // The program may change its own folder.
            let folder = PathBuf::from(folder);
            Sink::Folder(std::path::absolute(&folder).unwrap_or(folder))
        }
        _ => Sink::None,
    })
}

/// Begins the report of the process, if it has not begun: from here on, one without an end says
/// that the process has not ended by its exit handlers.
pub(crate) fn begin(process: u32) {
    if BEGUN.load(Ordering::Acquire) == process {
        return;
    }
    if BEGINNING.swap(process, Ordering::Relaxed) == process {
        // Another thread of this process makes the file, which takes no lock.
        while BEGUN.load(Ordering::Acquire) != process {
            thread::yield_now();
        }
        return;
    }
    if let Sink::Folder(folder) = sink() {
        create(folder, process);
    }
    BEGUN.store(process, Ordering::Release);
}

fn create(folder: &Path, process: u32) {
    let header = format!("calls {:010} {}\n", 0, escape(&command_line()));
    // A program that the process has executed before has written another file.
    for program in 1..1000 {
        PROGRAM.store(program, Ordering::Relaxed);
        let path = folder.join(file_name(process));
        match OpenOptions::new().append(true).create_new(true).open(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            // No one can be notified: a report that is missing says it.
            created => {
                // There is nowhere to report a failed write.
                let _ignored = created.and_then(|mut file| file.write_all(header.as_bytes()));
                return;
            }
        }
    }
}

fn file_name(process: u32) -> String {
    match PROGRAM.load(Ordering::Relaxed) {
        0 | 1 => format!("{process}.txt"),
        program => format!("{process}-{program}.txt"),
    }
}

fn command_line() -> String {
    let line = fs::read("/proc/self/cmdline").unwrap_or_default();
    let line = String::from_utf8_lossy(&line).trim_end_matches('\0').replace('\0', " ");
    line.chars().take(COMMAND_SHOWN).collect()
}

/// Adds a line to the report.
pub(crate) fn say(kind: &str, text: &str) {
    let process = std::process::id();
    match sink() {
        Sink::Folder(folder) => {
            begin(process);
            let line = format!("{kind} {}\n", escape(text));
            let file = OpenOptions::new().append(true).open(folder.join(file_name(process)));
            // There is nowhere to report a failed write.
            let _ignored = file.and_then(|mut file| file.write_all(line.as_bytes()));
        }
        Sink::Errors => {
            // There is nowhere to report a failed write.
            let _ignored = writeln!(io::stderr(), "rmm-sim-driver: {kind}: {text}");
        }
        Sink::None => {}
    }
}

/// Reports that a call was not served.
pub(crate) fn refused(name: &str) {
    if REFUSED.fetch_add(1, Ordering::Relaxed) < REFUSED_SHOWN {
        say("refused", name);
    }
}

/// Ends the report of a process.
pub(crate) fn end(calls: u64, violations: usize, leaks: usize) {
    let process = std::process::id();
    match sink() {
        Sink::Folder(folder) => {
            begin(process);
            let path = folder.join(file_name(process));
            // There is nowhere to report a failed write.
            let _ignored =
                OpenOptions::new().write(true).open(path).and_then(|file| write_end(file, calls));
        }
        Sink::Errors => {
            // There is nowhere to report a failed write.
            let _ignored = writeln!(
                io::stderr(),
                "rmm-sim-driver: {calls} driver calls, {violations} violations, {leaks} leaks"
            );
        }
        Sink::None => {}
    }
}

fn write_end(mut file: File, calls: u64) -> io::Result<()> {
    file.seek(SeekFrom::Start("calls ".len() as u64))?;
    write!(file, "{calls:010}")?;
    file.seek(SeekFrom::End(0))?;
    file.write_all(b"end\n")
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\n', "\\n")
}
