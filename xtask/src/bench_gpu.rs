//! `cargo xtask bench-gpu`: our allocators and their peers, on the same work in the same run,
//! on a machine that has a GPU and no Rust.

mod machine;
mod measure;
mod run_args;
mod save;

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use self::run_args::RunArgs;
use crate::build;
use crate::cargo::{self, workspace_root};
use crate::error::{Context as _, Result};

/// Options of `cargo xtask bench-gpu`.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("what").required(true).args(["save", "archive", "report"]))]
pub(crate) struct Args {
    /// Build everything that a GPU machine needs into this folder, and run nothing
    #[arg(long, value_name = "DIR")]
    save: Option<PathBuf>,
    /// With --save: leave out the peers, which need g++, python3 and a network to
    /// build
    #[arg(long, conflicts_with_all = ["archive", "report"])]
    without_peers: bool,
    /// Run from this folder, which `--save` made; needs no Rust
    #[arg(long, value_name = "DIR")]
    archive: Option<PathBuf>,
    /// Make a page with charts in docs/benchmarks from a run's results in this folder
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// With --report: the page's name without `.md`; date and GPU if left out
    #[arg(long, value_name = "NAME", conflicts_with_all = ["save", "archive"])]
    name: Option<String>,
    #[command(flatten)]
    run: RunArgs,
}

/// Runs the command.
///
/// # Errors
///
/// If something does not build, there is no GPU, or an allocator failed.
pub(crate) fn run(args: &Args) -> Result<()> {
    match (&args.save, &args.archive, &args.report) {
        (Some(folder), ..) => save::save(folder, args.without_peers),
        (_, Some(folder), _) => {
            let on_software = env::var("RMM_DRIVER").is_ok_and(|driver| driver == "sim");
            measure::run(folder, &args.run, on_software)
        }
        (_, _, Some(folder)) => report(folder, args.name.as_deref()),
        _ => Err("one of --save, --archive and --report is needed".into()),
    }
}

/// Calls the program that draws.
fn report(results: &Path, name: Option<&str>) -> Result<()> {
    let mut command = Command::new(build::bench_program("report")?);
    command.arg("page").arg(results).arg(workspace_root()?.join("docs/benchmarks"));
    if let Some(name) = name {
        command.args(["--name", name]);
    }
    cargo::run(&mut command).context("no report was made")
}

#[cfg(unix)]
#[cfg(test)]
#[path = "bench_gpu/tests.rs"]
mod tests;
