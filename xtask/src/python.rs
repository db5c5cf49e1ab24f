//! `cargo xtask python`: the Python package, built as a wheel that is audited, installed into an
//! environment of its own, and tested there on the software device.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::command::{self, cargo, stdout_of, workspace_root};
use crate::driver_report;
use crate::error::{Context as _, Result};

mod library;
mod plugin;
mod torch;
mod wheel;

/// What the build and the tests need beside the package itself.
const REQUIREMENTS: [&str; 3] = ["maturin>=1.9,<2", "numpy>=2,<3", "pytest>=8"];

/// What else the tests need, of which some are skipped where pip cannot fetch it.
const OPTIONAL: [(&str, &[&str]); 2] =
    [("types", &["mypy>=1.18"]), ("cuda.core", &["cuda-core==1.2.*", "cuda-bindings==13.*"])];

/// Exits with 1 where the interpreter is too old, or cannot make environments.
const IS_USABLE: &str = "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))";

/// Prints the tag of the interpreter, such as `cp311`, or `cp314t` if it is free-threaded.
const TAG: &str = "import sys, sysconfig
threaded = 't' if sysconfig.get_config_var('Py_GIL_DISABLED') else ''
print(f'cp{sys.version_info[0]}{sys.version_info[1]}{threaded}')";

/// The profile of what users get.
const DIST: &str = "dist";
/// The profile of what is built for its tests alone.
pub(crate) const DEV: &str = "dev";

/// Options of `cargo xtask python`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The interpreter, of Python 3.11 or newer. The first one builds the wheel, and every one
    /// that is named tests it
    #[arg(long, value_name = "PROGRAM", default_value = "python3")]
    python: Vec<PathBuf>,
    /// The profile of cargo that the extension module is built with: `dist` takes two minutes
    #[arg(long, value_name = "NAME", default_value = DIST)]
    profile: String,
    /// Further arguments of pytest, such as `-k buffers`
    #[arg(last = true)]
    pytest: Vec<String>,
}

impl Args {
    /// As a change is tested: with assertions and without optimisation.
    pub(crate) fn for_change() -> Self {
        Self { python: vec!["python3".into()], profile: DEV.to_owned(), pytest: Vec::new() }
    }

    /// As what is published is tested.
    pub(crate) fn for_release() -> Self {
        Self { profile: DIST.to_owned(), ..Self::for_change() }
    }
}

/// Why the command cannot run here with its default options, if it cannot.
pub(crate) fn missing() -> Option<String> {
    let mut python = Command::new("python3");
    python.args(["-c", IS_USABLE]).stdout(Stdio::null()).stderr(Stdio::null());
    match python.status() {
        Ok(status) if status.success() => None,
        Ok(_) => Some("python3 is older than 3.11, or has no `venv`".to_owned()),
        Err(error) => Some(format!("python3: {error}")),
    }
}

/// Builds, audits, installs and tests.
///
/// # Errors
///
/// If a command fails.
pub(crate) fn run(args: &Args) -> Result<()> {
    let root = workspace_root()?;
    let folder = root.join("target/python");
    command::run(
        cargo().args(["build", "-p", "rmm-sim-driver", "-p", "rmm-cli"]).current_dir(&root),
    )?;
    let interpreters: Result<Vec<PathBuf>> =
        args.python.iter().map(|python| build_environment(&root, python)).collect();
    let interpreters = interpreters?;
    let first = interpreters.first().context("an interpreter")?;
    let wheel = build_wheel(&root, first, &args.profile)?;
    if args.profile == DIST {
        wheel::check_size(&wheel)?;
        wheel::check_places(first, &wheel, &root)?;
    }
    wheel::check(first, &wheel)?;

    for interpreter in &interpreters {
        command::run(pip(interpreter).args(["--no-deps", "--force-reinstall"]).arg(&wheel))?;
        let mut test = Command::new(interpreter);
        test.args(["-m", "pytest", "-q"]).args(&args.pytest).arg(root.join("python/rmm_rs"));
        // What is installed is tested, and on the software device.
        test.env_remove("PYTHONPATH").env_remove("RMM_CUDA_LIBRARY").env_remove("RMM_DRIVER");
        let reports = folder.join("reports");
        empty(&reports)?;
        command::run(test.env("RMM_SIM_REPORT", &reports).current_dir(&root))?;
        check_reports(&reports)?;
    }
    library::run(&root, &folder, first, args.profile == DEV)?;
    torch::run(&root, first)?;
    plugin::run(&root, &folder, first, &wheel)
}

/// Builds the wheel with the interpreter of that environment and a profile of cargo, and returns
/// its path.
///
/// # Errors
///
/// If a command fails.
pub(crate) fn build_wheel(root: &Path, interpreter: &Path, profile: &str) -> Result<PathBuf> {
    let wheels = root.join("target/python/wheels");
    empty(&wheels)?;
    let mut build = Command::new(interpreter);
    // Refuses one that needs more than the libraries of every Linux: none of CUDA is among them.
    build.args(["-m", "maturin", "build", "--quiet", "--auditwheel=check", "--profile", profile]);
    build.arg("--out").arg(&wheels);
    if profile == DIST {
        build.env("CARGO_ENCODED_RUSTFLAGS", wheel::flags(root));
    }
    command::run(build.current_dir(root.join("python/rmm_rs")))?;
    wheel_in(&wheels)
}

/// What was built into an empty folder.
fn wheel_in(wheels: &Path) -> Result<PathBuf> {
    let mut entries = std::fs::read_dir(wheels).context(wheels.display())?;
    let wheel = entries.next().context("no wheel was built")?.context(wheels.display())?.path();
    println!("built {}", wheel.display());
    Ok(wheel)
}

/// The interpreter of the environment in which the wheel is built and tested, in a folder named by
/// its tag.
///
/// # Errors
///
/// If a command fails.
pub(crate) fn build_environment(root: &Path, python: &Path) -> Result<PathBuf> {
    let interpreter = environment(python, &root.join("target/python").join(tag(python)?))?;
    command::run(pip(&interpreter).args(REQUIREMENTS))?;
    for (tests, packages) in OPTIONAL {
        if let Err(error) = command::run(pip(&interpreter).args(packages)) {
            println!("skipped: the tests of {tests}: pip cannot fetch {packages:?} ({error})");
        }
    }
    Ok(interpreter)
}

/// The folder with the programs of the environment that [`build_environment`] makes for `python3`,
/// if it is there.
pub(crate) fn folder_of_programs(root: &Path) -> Option<PathBuf> {
    let tag = tag(Path::new("python3")).ok()?;
    Some(root.join("target/python").join(tag).join("bin")).filter(|folder| folder.is_dir())
}

/// The interpreter of an environment in a folder, which is made if it is not there.
///
/// # Errors
///
/// If it cannot be made.
pub(crate) fn environment(python: &Path, folder: &Path) -> Result<PathBuf> {
    let interpreter = folder.join("bin/python");
    if !interpreter.exists() {
        command::run(Command::new(python).args(["-m", "venv"]).arg(folder))?;
    }
    Ok(interpreter)
}

/// Makes the folder, or removes what it has.
fn empty(folder: &Path) -> Result<()> {
    if folder.exists() {
        std::fs::remove_dir_all(folder).context(folder.display())?;
    }
    std::fs::create_dir_all(folder).context(folder.display())
}

/// Refuses what the software driver found in the order of streams. What a process still held as it
/// ended is no fault: some tests are about that.
fn check_reports(folder: &Path) -> Result<()> {
    let report = driver_report::read(folder);
    if let Some((kind, text)) = report.failures().next() {
        return Err(format!("{kind} {text}").into());
    }
    println!("the software driver reports no violation in {} processes", report.processes);
    if report.processes == 0 { Err("no process has written a report".into()) } else { Ok(()) }
}

/// `pip wheel` of a package with the versions of the environment, which its tests have too, into a
/// folder that is emptied.
fn wheel_by_pip(interpreter: &Path, package: &Path, wheels: &Path) -> Result<Command> {
    empty(wheels)?;
    let mut build = Command::new(interpreter);
    build.args(["-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"]);
    build.arg("--no-build-isolation").arg("--wheel-dir").arg(wheels).arg(package);
    Ok(build)
}

/// `pip install` in an environment.
pub(crate) fn pip(interpreter: &Path) -> Command {
    let mut command = Command::new(interpreter);
    command.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    command
}

/// The tag of an interpreter.
fn tag(python: &Path) -> Result<String> {
    Ok(stdout_of(Command::new(python).args(["-c", TAG]))?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_violation_in_a_report_is_an_error() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(check_reports(folder.path()).is_err());
        let write = |name: &str, text: &str| {
            std::fs::write(folder.path().join(name), text).expect("a file");
        };
        write("1.txt", "calls 3\nleak 10 bytes\nend\n");
        assert!(check_reports(folder.path()).is_ok());
        write("2.txt", "calls 3\nviolation use after free\nend\n");
        let error = check_reports(folder.path()).expect_err("a violation").to_string();
        assert!(error.starts_with("(stream order) use after free\n"), "{error}");
    }
}
