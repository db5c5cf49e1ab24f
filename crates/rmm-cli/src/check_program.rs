//! `rmm check`: runs a program on the software device, and collects what the device found.
//!
//! ```text
//! rmm check -- PROGRAM        libcuda.so.1 and libcuda.so in a folder of LD_LIBRARY_PATH
//!      |                                   |
//!      | runs                              v
//!      +--> PROGRAM, and its children: each loads the device, and writes what it finds
//!      |                                   |
//!      +<-- reads, prints -----------------+
//! ```

mod children;
mod library;
mod report;

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use crate::args::CheckArgs;

pub use report::{Found, Unreadable};

/// The names under which programs load the driver.
const NAMES: [&str; 2] = ["libcuda.so.1", "libcuda.so"];

/// What a run found, and how the program ended.
#[derive(Debug)]
pub struct ProgramOutcome {
    /// The findings of each process that loaded the driver.
    pub found: Vec<Found>,
    /// How the program ended.
    pub status: ExitStatus,
    /// Processes that the program has started and that have not ended.
    pub still_running: Vec<String>,
}

/// Why a program could not be checked.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// The library that `--library` names is not there.
    #[error("--library: there is no file {}", .0.display())]
    NoNamedLibrary(PathBuf),
    /// The stand-alone library was not found; an install has it in this folder.
    #[error(
        "there is no librmm_sim_driver.so beside this program or in {path}, and `cargo install` brings none. In a \
         checkout of rmm:\n  cargo build --release -p rmm-sim-driver\n  install -D -t {path} \
         target/release/librmm_sim_driver.so\nOr name the library by --library.",
        path = .0.display()
    )]
    NoLibrary(PathBuf),
    /// The library of `--runtime` is not there.
    #[error(
        "--runtime: there is no file {}: build it with `cargo xtask rmm-tests --runtime DIR` in the repository of rmm",
        .0.display()
    )]
    NoRuntime(PathBuf),
    /// A prototype of `--kernel` is malformed.
    #[error("--kernel: {0}")]
    Kernel(String),
    /// The program could not be started.
    #[error("cannot run {0}: {1}")]
    Start(String, #[source] io::Error),
    /// The folder for the library and the reports could not be used.
    #[error("cannot prepare the run: {0}")]
    Folder(#[from] io::Error),
    /// A process left a report that cannot be read.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
}

/// Runs the program of the arguments to its end, and waits for all children of this process: those
/// of the program become its children. Threads that call this run one program at a time.
///
/// # Errors
/// If it cannot be run on the device.
pub fn run(args: &CheckArgs) -> Result<ProgramOutcome, CheckError> {
    let kernels = args.kernels.join("\n");
    for kernel in &args.kernels {
        check_prototype(kernel).map_err(CheckError::Kernel)?;
    }
    let library = library::find(args.library.as_deref()).ok_or_else(|| match &args.library {
        Some(named) => CheckError::NoNamedLibrary(named.clone()),
        None => CheckError::NoLibrary(library::place_of_installs()),
    })?;
    let folder = tempfile::tempdir()?;
    for name in NAMES {
        symlink(&library, folder.path().join(name))?;
    }
    if let Some(runtime) = &args.runtime {
        let name = runtime.file_name().filter(|_| runtime.is_file());
        let name = name.ok_or_else(|| CheckError::NoRuntime(runtime.clone()))?;
        symlink(fs::canonicalize(runtime)?, folder.path().join(name))?;
    }
    let reports = tempfile::tempdir()?;
    // Processes that change their user write theirs, too.
    fs::set_permissions(reports.path(), fs::Permissions::from_mode(0o1777))?;
    let mut program = Command::new(&args.program[0]);
    program
        .args(&args.program[1..])
        .env("LD_LIBRARY_PATH", before_others(folder.path()))
        .env(rmm_sys::LIBRARY_VARIABLE, &library)
        .env("RMM_SIM_REPORT", reports.path())
        .env("RMM_SIM_DEVICES", args.devices.to_string())
        .env("RMM_SIM_KERNELS", kernels)
        .env("RMM_SIM_BACKTRACE", if args.no_call_sites { "0" } else { "1" });
    let name = args.program[0].to_string_lossy().into_owned();
    let _only_program = children::adopt_orphans()?;
    let status = program.status().map_err(|error| CheckError::Start(name, error))?;
    let still_running = children::still_running();
    Ok(ProgramOutcome { found: report::read_all(reports.path())?, status, still_running })
}

/// A folder in front of those in which the loader looks already.
fn before_others(folder: &Path) -> OsString {
    let mut path = folder.as_os_str().to_owned();
    if let Some(others) = std::env::var_os("LD_LIBRARY_PATH").filter(|others| !others.is_empty()) {
        path.push(":");
        path.push(others);
    }
    path
}

/// # Errors
/// What is wrong with a prototype.
fn check_prototype(text: &str) -> Result<(), String> {
    let parts = text.trim().split_once('(').and_then(|(name, rest)| {
        Some((name.trim(), rest.strip_suffix(')')?)).filter(|(name, _)| !name.is_empty())
    });
    let (_, parameters) =
        parts.ok_or_else(|| format!("`{text}` is not `name(parameters)`, as C declares them"))?;
    rmm_sim::check_signature(parameters)
}

impl ProgramOutcome {
    /// Whether nothing was found. What was not seen is another question:
    /// [`unchecked`](Self::unchecked).
    pub fn is_clean(&self, with_leaks: bool) -> bool {
        self.found
            .iter()
            .all(|found| found.violations.is_empty() && (!with_leaks || found.leaks.is_empty()))
    }

    /// The driver calls of all processes that have ended by their exit handlers.
    pub fn calls(&self) -> u64 {
        self.found.iter().map(|found| found.calls).sum()
    }

    /// What the device did not see of the processes that called it, one reason a line. A run is in
    /// order only if there is none, and there were [calls](Self::calls).
    pub fn unchecked(&self) -> Vec<String> {
        let mut reasons: Vec<String> = self.found.iter().flat_map(Found::unchecked).collect();
        let still_running = self.still_running.iter();
        reasons.extend(still_running.map(|process| format!("{process} still runs")));
        reasons
    }

    /// The findings as text.
    pub fn to_text(&self, with_leaks: bool) -> String {
        let mut text = String::new();
        for found in &self.found {
            // Writing to a string does not fail.
            for violation in &found.violations {
                let _ = writeln!(text, "{violation}");
            }
            for leak in found.leaks.iter().filter(|_| with_leaks) {
                let _ = writeln!(text, "not released: {leak}");
            }
        }
        let unchecked = self.unchecked();
        for reason in &unchecked {
            let _ = writeln!(text, "not checked: {reason}");
        }
        let count = |of: fn(&Found) -> usize| self.found.iter().map(of).sum::<usize>();
        let violations = count(|found| found.violations.len());
        let _ = write!(text, "{} driver calls, {violations} violations", self.calls());
        if with_leaks {
            let _ = write!(text, ", {} leaks", count(|found| found.leaks.len()));
        }
        text.push_str(if unchecked.is_empty() { "\n" } else { "; not everything was checked\n" });
        text
    }
}
