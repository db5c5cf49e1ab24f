//! `cargo xtask python`: the Python package, built as a wheel, installed into an environment of its
//! own, and tested there on the software device; then the plug-in for RMM.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::cargo::{WithCommand as _, cargo, describe, workspace_root};
use crate::error::{Context as _, Result};

mod plugin;

/// What the build and the tests need beside the package itself.
const REQUIREMENTS: [&str; 3] = ["maturin>=1.9,<2", "numpy>=2,<3", "pytest>=8"];

/// Exits with 1 where the interpreter is too old, or cannot make environments.
const IS_USABLE: &str = "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))";

/// Options of `cargo xtask python`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The interpreter, of Python 3.11 or newer
    #[arg(long, value_name = "PROGRAM", default_value = "python3")]
    python: PathBuf,
    /// Further arguments of pytest, such as `-k buffers`
    #[arg(last = true)]
    pytest: Vec<String>,
}

impl Default for Args {
    fn default() -> Self {
        Self { python: "python3".into(), pytest: Vec::new() }
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

/// Builds, installs and tests.
///
/// # Errors
///
/// If a command fails.
pub(crate) fn run(args: &Args) -> Result<()> {
    let root = workspace_root()?;
    run_step(cargo().args(["build", "-p", "rmm-sim-driver"]).current_dir(&root))?;
    let interpreter = build_environment(&root, &args.python)?;
    let wheel = build_wheel(&root, &interpreter)?;
    run_step(pip(&interpreter).args(["--no-deps", "--force-reinstall"]).arg(wheel))?;

    let mut test = Command::new(&interpreter);
    test.args(["-m", "pytest", "-q"]).args(&args.pytest).arg(root.join("python/rmm_rs"));
    // What is installed is tested, and on the software device.
    test.env_remove("PYTHONPATH").env_remove("RMM_CUDA_LIBRARY").env_remove("RMM_DRIVER");
    run_step(test.current_dir(&root))?;
    plugin::run(&root, &folder, &interpreter, &wheel.path())
}

/// Builds the wheel with the interpreter of that environment, and returns its path.
///
/// # Errors
///
/// If a command fails.
pub(crate) fn build_wheel(root: &Path, interpreter: &Path) -> Result<PathBuf> {
    let wheels = root.join("target/python/wheels");
    if wheels.exists() {
        std::fs::remove_dir_all(&wheels).context(wheels.display())?;
    }
    let mut build = Command::new(interpreter);
    build.args(["-m", "maturin", "build", "--quiet", "--out"]).arg(&wheels);
    run_step(build.current_dir(root.join("python/rmm_rs")))?;
    let mut entries = std::fs::read_dir(&wheels).context(wheels.display())?;
    let wheel = entries.next().ok_or("maturin built no wheel")?.context(wheels.display())?.path();
    println!("built {}", wheel.display());
    Ok(wheel)
}

/// The interpreter of the environment in which the wheel is built and tested.
///
/// # Errors
///
/// If a command fails.
pub(crate) fn build_environment(root: &Path, python: &Path) -> Result<PathBuf> {
    let interpreter = environment(python, &root.join("target/python/venv"))?;
    run_step(pip(&interpreter).args(REQUIREMENTS))?;
    Ok(interpreter)
}

/// The interpreter of an environment in a folder, which is made if it is not there.
///
/// # Errors
///
/// If it cannot be made.
pub(crate) fn environment(python: &Path, folder: &Path) -> Result<PathBuf> {
    let interpreter = folder.join("bin/python");
    if !interpreter.exists() {
        run_step(Command::new(python).args(["-m", "venv"]).arg(folder))?;
    }
    Ok(interpreter)
}

/// `pip install` in an environment.
pub(crate) fn pip(interpreter: &Path) -> Command {
    let mut command = Command::new(interpreter);
    command.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    command
}

/// Prints and runs a command.
///
/// # Errors
///
/// If it fails.
pub(crate) fn run_step(command: &mut Command) -> Result<()> {
    println!("$ {}", describe(command));
    let status = command.stdin(Stdio::null()).status().with_command(command)?;
    if status.success() { Ok(()) } else { Err(status.to_string().into()) }
}
