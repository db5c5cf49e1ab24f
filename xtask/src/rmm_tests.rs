//! `cargo xtask rmm-tests`: RMM's own tests on the software driver, those in C++ over RMM's
//! resources and over ours, and those in Python over our package.
//!
//! For the former, a checkout of RMM is compiled by g++ alone: its library is host code. It calls
//! the CUDA runtime, which asks a driver for private tables and so does not start on the software
//! driver; a stand-in over the driver's functions takes its place (`xtask/rmm-tests/cudart`).
//! Headers of RMM's dependencies come from wheels. For the latter, see [`python`].

mod args;
mod builder;
mod cache;
mod case;
mod checkout;
mod cmake;
mod compile;
mod expected;
mod gtest;
mod junit;
mod libraries;
mod ours;
mod python;
mod result;
mod run_jobs;
mod run_program;
mod session;
mod table;
mod test_program;
mod typed;
mod violations;
mod wheels;

use std::fs;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

pub(crate) use self::args::Args;
use self::args::Over;
use self::builder::{Builder, compiler, compiler_with_gtest};
use self::checkout::Checkout;
use self::expected::Expected;
use self::libraries::{Libraries, build_driver};
use self::result::{Row, failures, unexpected};
use self::session::{RUNTIME_SONAME, Session, build_runtime, output_folder};
use self::wheels::Wheels;
use crate::cargo::workspace_root;
use crate::error::{Context as _, Result};

/// The failures of `xtask/rmm-tests/broken`.
const BROKEN: [&str; 7] = [
    "build/src/broken.cpp",
    "build/not_linked",
    "rmm/fails/Fails.Assertion",
    "rmm/fails/Fails.Crash",
    "rmm/fails/Fails.NoEnd",
    "rmm/fails/(stream order)",
    "rmm/status/(program)",
];

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
        _ => run_checkouts(args, &root),
    }
}

/// Builds the stand-in for the CUDA runtime, for `rmm check --runtime`.
fn build_runtime_into(folder: &Path, args: &Args, root: &Path) -> Result<()> {
    let target = root.join("target/rmm-tests");
    let wheels = Wheels::find(args.wheels.as_deref(), &root.join("target"))?;
    let driver = build_driver(&target.join("lib"))?;
    let mut builder = Builder::new(compiler()?, target.join("objects"), jobs(args));
    builder.includes = wheels.include_folders();
    fs::create_dir_all(folder).context(folder.display())?;
    let output = folder.join(RUNTIME_SONAME);
    build_runtime(&builder, &root.join("xtask/rmm-tests"), &driver, &output)?;
    println!("wrote {0}: rmm check --runtime {0} -- PROGRAM", output.display());
    Ok(())
}

/// How many processes work at a time.
fn jobs(args: &Args) -> usize {
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    args.jobs.map_or(cores, NonZero::get)
}

fn run_checkouts(args: &Args, root: &Path) -> Result<()> {
    match run_and_report(args, root)?.len() {
        0 => Ok(()),
        failed => Err(format!("{failed} failures that are not expected").into()),
    }
}

/// Runs everything, prints and writes the results, and returns the failures that are not expected.
fn run_and_report(args: &Args, root: &Path) -> Result<Vec<String>> {
    let expected = Expected::read(args.expected.as_deref())?;
    let mut rows = Vec::new();
    if let Some(cpp) = &args.cpp {
        rows.extend(build_and_run(args, &prepare(cpp, args, root)?)?);
    }
    if let Some(checkout) = args.python_checkout() {
        rows.extend(python::run(checkout, args, root)?);
    }

    print!("\n{}", failures(&rows, &expected));
    println!("{}", table::table(&rows, &expected));
    let name = if args.cpp.is_some() { "rmm-tests.xml" } else { "rmm-tests-python.xml" };
    let junit = args.junit.clone().unwrap_or_else(|| root.join("target").join(name));
    if let Some(folder) = junit.parent() {
        fs::create_dir_all(folder).context(folder.display())?;
    }
    fs::write(&junit, junit::xml(&rows, &expected)?).context(junit.display())?;
    println!("wrote {}", junit.display());
    Ok(unexpected(&rows, &expected))
}

/// Runs all C++ tests of a small checkout of our own, which has the shape of RMM's: typed suites,
/// ordinary tests, a program without tests, a source that needs nvcc, and one that does not
/// compile.
///
/// Before that, of one in which each kind of failure has to be seen.
///
/// # Errors
///
/// As [`run`], and if a failure was not seen.
pub(crate) fn run_sample(args: &Args, root: &Path) -> Result<()> {
    run_broken(args, root, &BROKEN, |args, cpp| args.cpp = Some(cpp))?;
    let sample = sample(root, "checkout");
    let expected = args.expected.clone().or_else(|| Some(sample.join("expected.txt")));
    run_checkouts(&Args { cpp: Some(sample), expected, ..args.clone() }, root)
}

/// As [`run_sample`], for the Python tests: of every area that RMM's have.
///
/// # Errors
///
/// As [`run`], and if a failure was not seen.
pub(crate) fn run_python_sample(args: &Args, root: &Path) -> Result<()> {
    let named = |args: &mut Args, folder| args.python = Some(vec![folder]);
    run_broken(args, root, &python::BROKEN, named)?;
    let mut args = args.clone();
    named(&mut args, sample(root, "checkout"));
    run_checkouts(&args, root)
}

/// The folder of a small checkout of our own.
fn sample(root: &Path, name: &str) -> PathBuf {
    root.join("xtask/rmm-tests").join(name)
}

/// Runs the tests of a checkout in which each kind of failure has to be seen.
fn run_broken(
    args: &Args,
    root: &Path,
    failures: &[&str],
    name: impl Fn(&mut Args, PathBuf),
) -> Result<()> {
    let mut broken = Args {
        over: Some(Over::Rmm),
        program: None,
        limit: 10,
        junit: Some(root.join("target/rmm-tests-broken.xml")),
        pytest: Vec::new(),
        ..args.clone()
    };
    name(&mut broken, sample(root, "broken"));
    let seen = run_and_report(&broken, root)?;
    if seen != failures {
        return Err(format!("of the broken checkout it saw {seen:?}, not {failures:?}").into());
    }
    println!("\nEach of these failures was to be seen. The checkout without faults:\n");
    Ok(())
}

/// What is missing here that a run of the C++ tests needs.
pub(crate) fn missing(root: &Path) -> Option<String> {
    if !cfg!(target_os = "linux") {
        return Some("the software driver's library is one of Linux".to_owned());
    }
    let wheels = || Wheels::find(None, &root.join("target"));
    compiler_with_gtest().and_then(|_| wheels()).err().map(|error| error.to_string())
}

/// Finds or makes everything that a run needs.
fn prepare(cpp: &Path, args: &Args, root: &Path) -> Result<Session> {
    let checkout = Checkout::open(cpp)?;
    let program = compiler_with_gtest()?;
    let target = root.join("target");
    let wheels = Wheels::find(args.wheels.as_deref(), &target)?;
    let folder = target.join("rmm-tests");
    let libraries = Libraries::build(&folder.join("lib"))?;
    let mut builder = Builder::new(program, folder.join("objects"), jobs(args));
    builder.includes = wheels.include_folders();
    let mut defines = args.define.clone();
    if args.per_thread_default_stream {
        defines.push("CUDA_API_PER_THREAD_DEFAULT_STREAM".to_owned());
    }
    let folder = output_folder(&folder, &checkout, &defines);
    let (sources, limit) = (root.join("xtask/rmm-tests"), Duration::from_secs(args.limit));
    let devices = args.devices;
    Ok(Session { checkout, wheels, libraries, builder, defines, sources, folder, limit, devices })
}

fn build_and_run(args: &Args, session: &Session) -> Result<Vec<Row>> {
    let mut rows = session.build_libraries()?;
    let mut jobs = Vec::new();
    if args.over != Some(Over::Ours) {
        let mut programs = session.checkout.programs()?;
        programs.retain(|program| args.wants(&program.name));
        if programs.is_empty() {
            return Err("the checkout has no such test program".into());
        }
        let (built, broken) = session.build_programs(&programs)?;
        jobs.extend(built);
        rows.extend(broken);
    }
    if args.over != Some(Over::Rmm) {
        let (built, broken) = ours::build(session, args)?;
        jobs.extend(built);
        rows.extend(broken);
    }
    rows.extend(run_jobs::run(session, &jobs));
    Ok(rows)
}
