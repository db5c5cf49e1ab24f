//! `cargo xtask test-gpu`: the GPU tests over devices, kinds of stream and resources; from source,
//! or from an archive on a machine that has a GPU and no Rust.

mod doctor;
mod junit;
mod libtest;
mod matrix;
mod save;
mod verdict;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(crate) use self::doctor::gpus;
use self::matrix::Cell;
use self::verdict::{CellResult, judge};
use crate::archive::Archive;
use crate::cargo::workspace_root;
use crate::error::{Context as _, Result};
use crate::{build, execute};

/// Options of `cargo xtask test-gpu`.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Args {
    /// Build everything that a GPU machine needs into this folder, and run nothing
    #[arg(long, value_name = "DIR", conflicts_with_all = ["archive", "devices", "allow_no_gpu", "junit"])]
    save: Option<PathBuf>,
    /// Run from this folder, which `--save` made; needs no Rust
    #[arg(long, value_name = "DIR")]
    archive: Option<PathBuf>,
    /// The devices to test, as a list of ordinals such as `0,2`; every one if left out
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    devices: Vec<u32>,
    /// Succeed if there is no GPU, saying that nothing was run
    #[arg(long)]
    allow_no_gpu: bool,
    /// Where to write the results as JUnit XML: `target/test-gpu.xml`, or `test-gpu.xml` in the
    /// archive, if left out
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// How long the tests of one device, stream and resource may take
    #[arg(long, value_name = "SECONDS", default_value_t = 900)]
    limit: u64,
    /// Passed on to the test program, such as the part of a test's name
    #[arg(last = true, value_name = "TEST ARGS")]
    rest: Vec<String>,
}

/// What a run needs, wherever it came from.
#[derive(Debug)]
struct Programs {
    /// The test program.
    gpu: PathBuf,
    /// The test program of those who use cudarc.
    cudarc: PathBuf,
    /// The `rmm` program, which finds the GPUs.
    rmm: PathBuf,
    /// Where the JUnit file goes if no other place was asked for.
    junit: PathBuf,
}

/// Runs the command.
///
/// # Errors
///
/// If something does not build, there is no GPU, or a test failed.
pub(crate) fn run(args: &Args) -> Result<()> {
    if let Some(folder) = &args.save {
        return save::save(folder);
    }
    let programs = match &args.archive {
        Some(folder) => Programs::of_archive(folder)?,
        None => Programs::from_source()?,
    };
    run_matrix(args, &programs)
}

impl Programs {
    fn of_archive(folder: &Path) -> Result<Self> {
        let archive = Archive::open(folder)?;
        let junit = folder.join("test-gpu.xml");
        let [gpu, cudarc] = [archive.program("gpu")?, archive.program("cudarc")?];
        Ok(Self { gpu, cudarc, rmm: archive.program("rmm")?, junit })
    }

    fn from_source() -> Result<Self> {
        let junit = workspace_root()?.join("target/test-gpu.xml");
        let [gpu, cudarc] = [build::gpu_tests()?.path, build::cudarc_tests()?.path];
        Ok(Self { gpu, cudarc, rmm: build::rmm("gpu")?.path, junit })
    }
}

fn run_matrix(args: &Args, programs: &Programs) -> Result<()> {
    let found = gpus(&programs.rmm)?;
    if found.is_empty() {
        if args.allow_no_gpu {
            println!("no GPU here: NO TEST WAS RUN, as --allow-no-gpu permits");
            return Ok(());
        }
        return Err("no GPU here (`rmm doctor` says why): nothing was run; --allow-no-gpu makes this a success".into());
    }
    let cells = matrix::cells(&matrix::choose(&found, &args.devices)?);
    let limit = Duration::from_secs(args.limit);
    let results: Vec<CellResult> =
        cells.into_iter().map(|cell| run_cell(cell, programs, &args.rest, limit)).collect();

    println!("\n{}", verdict::table(&results));
    print!("{}", verdict::ignored(&results));
    let junit = args.junit.as_ref().unwrap_or(&programs.junit);
    if let Some(folder) = junit.parent() {
        fs::create_dir_all(folder).context(folder.display())?;
    }
    fs::write(junit, junit::xml(&results)?).context(junit.display())?;
    println!("wrote {}", junit.display());

    match results.iter().filter(|result| !result.passed()).count() {
        0 => Ok(()),
        failed => Err(format!("{failed} of {} runs failed", results.len()).into()),
    }
}

/// Runs a test program once, and prints what went wrong.
fn run_cell(cell: Cell, programs: &Programs, rest: &[String], limit: Duration) -> CellResult {
    let program = if cell.is_of_cudarc() { &programs.cudarc } else { &programs.gpu };
    let mut command = cell.command(program);
    command.args(rest);
    println!("$ {}", crate::cargo::describe(&command));
    let result = judge(cell, execute::run(&mut command, limit));
    for test in result.failures() {
        println!("FAILED {}: {}\n{}", result.cell, test.name, test.output);
    }
    if let Some(problem) = &result.problem {
        println!("FAILED {}: {problem}", result.cell);
    }
    result
}

#[cfg(unix)]
#[cfg(test)]
#[path = "test_gpu/tests.rs"]
mod tests;
