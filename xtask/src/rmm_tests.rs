//! `cargo xtask rmm-tests`: RMM's own tests on the software driver, those in C++ over RMM's
//! resources and over ours, and those in Python over our package.

mod case;
mod cpp;
mod expected;
mod libraries;
mod python;
mod report;
mod runner;

use std::fs;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use self::cpp::{Build, RUNTIME};
use self::expected::{Expected, matches};
use self::report::Row;
use crate::command::{self, stdout_of, workspace_root};
use crate::error::{Context as _, Result};

/// The results of `xtask/rmm-tests/sample`, in which a test fails in each way.
const SAMPLE_CPP: &str = include_str!("../rmm-tests/sample/cpp.txt");
const SAMPLE_PYTHON: &str = include_str!("../rmm-tests/sample/python.txt");

/// How long a test of the sample may take that does not end, in seconds.
const SAMPLE_LIMIT: u64 = 20;
/// How long a process of tests may take.
const LIMIT: u64 = 600;

/// Options of `cargo xtask rmm-tests`.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct Args {
    /// A checkout of RMM 26.10, or its folder `cpp`; a small one of this repository if left out,
    /// which tests this command
    #[arg(long, value_name = "DIR")]
    cpp: Option<PathBuf>,
    /// A checkout of RMM 26.10, whose Python tests run over the wheel of rmm-rs; that of --cpp if
    /// none is named, and else a small one of this repository
    #[arg(long, value_name = "DIR", num_args = 0..=1)]
    python: Option<Vec<PathBuf>>,
    /// Build the stand-in for the CUDA runtime into this folder and test nothing: `rmm check
    /// --runtime` serves programs with it
    #[arg(long, value_name = "DIR", conflicts_with_all = ["cpp", "python"])]
    runtime: Option<PathBuf>,
    /// Run the Python tests on the GPU, not on the software driver
    #[arg(long, requires = "python", conflicts_with = "cpp")]
    gpu: bool,
    /// A Python that has rmm-rs and what the Python tests need; made below `target/rmm-tests` if
    /// left out
    #[arg(long, value_name = "PROGRAM", requires = "python")]
    interpreter: Option<PathBuf>,
    /// Only the rows with such names, in which `*` stands for any text: `rmm/POOL_MR_TEST`,
    /// `ours/alone/*`, `*pool*`
    #[arg(long, value_name = "PATTERN")]
    program: Option<String>,
    /// How many compilers and tests run at a time; one for each core if left out
    #[arg(long, value_name = "NUMBER")]
    jobs: Option<NonZero<usize>>,
    /// The programs with a default stream for each thread, in the place of those with one for all
    #[arg(long)]
    per_thread_default_stream: bool,
    /// How long a process of tests may take; ten minutes if left out
    #[arg(long, value_name = "SECONDS")]
    limit: Option<u64>,
    /// Further arguments of pytest, such as `-k pool`
    #[arg(last = true, requires = "python")]
    pytest: Vec<String>,
}

impl Args {
    /// Whether a row is one of those that the user wants.
    fn wants(&self, name: &str) -> bool {
        self.program.as_ref().is_none_or(|pattern| matches(pattern, name))
    }

    /// How many processes work at a time.
    fn jobs(&self) -> usize {
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        self.jobs.map_or(cores, NonZero::get)
    }

    /// The checkout of the Python tests, if they are asked for and it is named.
    fn python_checkout(&self) -> Option<&PathBuf> {
        self.python.as_ref().and_then(|named| named.first().or(self.cpp.as_ref()))
    }
}

/// Runs the command.
///
/// # Errors
///
/// If something is missing that the tests need, or a failure is not expected.
pub(crate) fn run(args: &Args) -> Result<()> {
    let root = workspace_root()?;
    if let Some(folder) = &args.runtime {
        return build_runtime_into(folder, args, &root);
    }
    match (&args.cpp, args.python_checkout()) {
        (None, None) if args.python.is_some() => run_python_sample(args, &root),
        (None, None) => run_sample(args, &root),
        _ => match report::failures(&run_and_report(args, &root)?).len() {
            0 => Ok(()),
            failed => Err(format!("{failed} failures that are not expected").into()),
        },
    }
}

/// Builds the stand-in for the CUDA runtime, for `rmm check --runtime`.
fn build_runtime_into(folder: &Path, args: &Args, root: &Path) -> Result<()> {
    let build = Build::configure(args, None, root)?;
    if let Some((_, text)) = build.make(&["cudart"])?.pop() {
        return Err(text.into());
    }
    fs::create_dir_all(folder).context(folder.display())?;
    let output = folder.join(RUNTIME);
    fs::copy(build.output(RUNTIME), &output).context(output.display())?;
    println!("wrote {0}: rmm check --runtime {0} -- PROGRAM", output.display());
    Ok(())
}

/// Runs everything, and prints the results.
fn run_and_report(args: &Args, root: &Path) -> Result<Vec<Row>> {
    let expected = Expected::read(root)?;
    let mut rows = Vec::new();
    if let Some(cpp) = &args.cpp {
        rows.extend(cpp::run(cpp, args, root)?);
    }
    if let Some(checkout) = args.python_checkout() {
        rows.extend(python::run(checkout, args, root)?);
    }
    for row in &mut rows {
        row.expect(&expected);
    }
    for (name, text) in report::failures(&rows) {
        println!("\nFAILED {name}\n{}", text.trim());
    }
    println!("\n{}", report::table(&rows));
    Ok(rows)
}

/// Runs the C++ tests of a small checkout of our own, and compares the results with those that it
/// has to have: a failure of each kind, and tests that pass.
///
/// # Errors
///
/// As [`run`], and if a result is another.
pub(crate) fn run_sample(args: &Args, root: &Path) -> Result<()> {
    let cpp = Some(root.join("xtask/rmm-tests/sample"));
    compare(&Args { cpp, limit: Some(SAMPLE_LIMIT), ..args.clone() }, root, SAMPLE_CPP)
}

/// As [`run_sample`], for the Python tests.
///
/// # Errors
///
/// As [`run_sample`].
pub(crate) fn run_python_sample(args: &Args, root: &Path) -> Result<()> {
    let python = Some(vec![root.join("xtask/rmm-tests/sample")]);
    compare(&Args { python, limit: Some(SAMPLE_LIMIT), ..args.clone() }, root, SAMPLE_PYTHON)
}

fn compare(args: &Args, root: &Path, expected: &str) -> Result<()> {
    let found = report::summary(&run_and_report(args, root)?);
    if found == expected {
        println!("these are the results that the sample has to have");
        return Ok(());
    }
    Err(format!("the sample has these results:\n{found}\nin the place of these:\n{expected}")
        .into())
}

/// What is missing here that a run of the C++ tests needs.
pub(crate) fn missing(root: &Path) -> Option<String> {
    if !cfg!(target_os = "linux") {
        return Some("the software driver's library is one of Linux".to_owned());
    }
    // The name itself is the answer of a compiler that does not find it.
    let found = stdout_of(Command::new("c++").arg("-print-file-name=libgmock_main.a"));
    if !found.is_ok_and(|path| Path::new(path.trim()).is_absolute()) {
        return Some(cpp::NEEDS.to_owned());
    }
    libraries::wheels(root).err().map(|error| error.to_string())
}

/// Has pip install a list into a folder, unless it did.
fn pip_install(pip: &mut Command, list: &str, folder: &Path) -> Result<()> {
    let (wanted, installed) = (folder.join("wanted.txt"), folder.join("installed.txt"));
    if fs::read_to_string(&installed).is_ok_and(|installed| installed == list) {
        return Ok(());
    }
    fs::create_dir_all(folder).context(folder.display())?;
    fs::write(&wanted, list).context(wanted.display())?;
    command::run(pip.arg("-r").arg(&wanted)).context("pip")?;
    fs::rename(&wanted, &installed).context(installed.display())
}

#[cfg(test)]
mod tests {
    //! Command lines.

    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn parse(line: &str) -> Option<Args> {
        let line = Line::try_parse_from(line.split_whitespace());
        line.ok().map(|line| line.args)
    }

    #[test]
    fn python_tests_are_of_the_checkout_that_is_named_last() {
        let checkout = |line| parse(line).unwrap().python_checkout().cloned();
        assert_eq!(checkout("x --python a").as_deref(), Some(Path::new("a")));
        assert_eq!(checkout("x --cpp b --python a").as_deref(), Some(Path::new("a")));
        assert_eq!(checkout("x --cpp b --python").as_deref(), Some(Path::new("b")));
        assert_eq!(checkout("x --python"), None);
        assert_eq!(checkout("x --cpp b"), None);
        assert_eq!(parse("x --python a -- -k pool").unwrap().pytest, ["-k", "pool"]);
    }

    #[test]
    fn a_gpu_runs_python_tests_only() {
        assert!(parse("x --python a --gpu --interpreter p").unwrap().gpu);
        for wrong in ["x --gpu", "x --cpp b --gpu", "x --interpreter p", "x -- -k pool"] {
            assert!(parse(wrong).is_none(), "{wrong}");
        }
    }
}
