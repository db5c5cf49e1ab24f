//! `cargo xtask test-gpu`: the GPU tests over devices, kinds of stream and resources.
//!
//! What a machine with a GPU needs, which may have no Rust, is put into a folder with a script that
//! runs it. One process runs all tests of a resource: to have one for each test, as nextest does,
//! would start the driver 1,600 times.

mod runs;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::archive::{self, Contents};
use crate::build;
use crate::cargo::{self, workspace_root};
use crate::error::{Context as _, Result};
use crate::metadata::{self, Workspace as _};

/// The script that runs an archive.
const SCRIPT: (&str, &str) = ("run.sh", include_str!("test_gpu/run.sh"));
/// What it runs: a line for each kind of stream and resource.
const RUNS: &str = "runs.txt";

/// Options of `cargo xtask test-gpu`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Build everything that a GPU machine needs into this folder, with a script `run.sh`, and run
    /// nothing
    #[arg(long, value_name = "DIR", conflicts_with = "rest")]
    save: Option<PathBuf>,
    /// Passed on to the test programs, such as the part of a test's name
    #[arg(last = true, value_name = "TEST ARGS")]
    rest: Vec<String>,
}

/// Runs the command.
///
/// # Errors
///
/// If something does not build, there is no GPU, or a test failed.
pub(crate) fn run(args: &Args) -> Result<()> {
    let root = workspace_root()?;
    let mut contents = Contents {
        commit: archive::commit(&root),
        programs: vec![
            ("gpu".to_owned(), build::gpu_tests()?),
            ("cudarc".to_owned(), build::cudarc_tests()?),
            ("rmm".to_owned(), build::rmm("release")?),
        ],
        ..Contents::default()
    };
    let Some(folder) = &args.save else {
        let folder = root.join("target/test-gpu");
        write(&folder, &contents)?;
        return run_script(&folder, &args.rest);
    };
    contents.programs.push(("rmm-checked".to_owned(), build::rmm("gpu")?));
    contents.traces = archive::traces(&root)?;
    if metadata::read()?.member("rmm-benches").is_some() {
        contents.programs.extend(build::benches()?);
    }
    write(folder, &contents)?;
    println!("run it on a GPU machine: {}", folder.join(SCRIPT.0).display());
    Ok(())
}

/// Writes an archive with the script.
fn write(folder: &Path, contents: &Contents) -> Result<()> {
    archive::save(folder, contents)?;
    let write =
        |name: &str, text: &str| fs::write(folder.join(name), text).context(name.to_owned());
    write(RUNS, &runs::list())?;
    write(SCRIPT.0, SCRIPT.1)?;
    make_executable(&folder.join(SCRIPT.0))
}

#[cfg(unix)]
fn make_executable(path: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).context(path.display())
}

/// The script is one for bash.
#[cfg(not(unix))]
fn make_executable(_path: &Path) -> Result<()> {
    Ok(())
}

fn run_script(folder: &Path, rest: &[String]) -> Result<()> {
    let mut command = Command::new("bash");
    command.arg(folder.join(SCRIPT.0)).args(rest);
    cargo::run(&mut command).context("the GPU tests")
}

#[cfg(unix)]
#[cfg(test)]
#[path = "test_gpu/tests.rs"]
mod tests;
