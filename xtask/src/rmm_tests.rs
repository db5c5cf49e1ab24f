//! `cargo xtask rmm-tests`: RMM's own tests on the software driver, those in C++ over RMM's
//! resources and over ours, and those in Python over our package.

mod args;
mod case;
mod cpp;
mod expected;
mod libraries;
mod python;
mod report;
mod runner;

use std::fs;
use std::path::Path;
use std::process::Command;

pub(crate) use self::args::Args;
use self::cpp::{Build, RUNTIME};
use self::expected::Expected;
use self::report::Row;
use crate::command::{stdout_of, workspace_root};
use crate::error::{Context as _, Result};

/// The results of `xtask/rmm-tests/sample`, in which a test fails in each way.
const SAMPLE_CPP: &str = include_str!("../rmm-tests/sample/cpp.txt");
const SAMPLE_PYTHON: &str = include_str!("../rmm-tests/sample/python.txt");

/// How long a test of the sample may take that does not end, in seconds.
const SAMPLE_LIMIT: u64 = 20;
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
/// The errors of [`run`], and one if a result is another.
pub(crate) fn run_sample(args: &Args, root: &Path) -> Result<()> {
    let cpp = Some(root.join("xtask/rmm-tests/sample"));
    compare(&Args { cpp, limit: Some(SAMPLE_LIMIT), ..args.clone() }, root, SAMPLE_CPP)
}

/// Runs the Python tests of a small checkout of our own, and compares the results with those that
/// it has to have, as [`run_sample`] does.
///
/// # Errors
///
/// The errors of [`run_sample`].
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
