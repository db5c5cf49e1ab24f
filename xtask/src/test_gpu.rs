//! `cargo xtask test-gpu`: the GPU tests over devices, kinds of stream and resources.
//!
//! What a machine with a GPU needs, which may have no Rust, is put into a folder with a script that
//! runs it. One process runs all tests of a resource: to have one for each test, as nextest does,
//! would start the driver 1,600 times.

mod runs;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::archive::{self, SCRIPT, program};
use crate::build;
use crate::command::{self, workspace_root};
use crate::error::{Context as _, Result};

/// What the script runs: a line for each kind of stream and resource.
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
    let mut files = vec![
        (SCRIPT.to_owned(), root.join("xtask/src/test_gpu/run.sh")),
        program("gpu", build::gpu_tests()?),
        program("cudarc", build::cudarc_tests()?),
        program("rmm", build::rmm("release")?),
    ];
    if args.save.is_some() {
        files.push(program("rmm-checked", build::rmm("gpu")?));
        files.extend(archive::traces(&root)?);
    }
    let folder = args.save.clone().unwrap_or_else(|| root.join("target/test-gpu"));
    archive::save(&root, &folder, &files)?;
    fs::write(folder.join(RUNS), runs::list()).context(RUNS)?;
    if args.save.is_some() {
        return Ok(());
    }
    command::run(Command::new(folder.join(SCRIPT)).args(&args.rest)).context("the GPU tests")
}

#[cfg(unix)]
#[cfg(test)]
#[path = "test_gpu/tests.rs"]
mod tests;
