//! `cargo xtask rmm-tests`: RMM's own C++ tests on the software driver, over RMM's resources and
//! over ours.
//!
//! A checkout of RMM is compiled by g++ alone: its library is host code. It calls the CUDA runtime,
//! which asks a driver for private tables and so does not start on the software driver; a stand-in
//! over the driver's functions takes its place (`xtask/rmm-tests/cudart`). Headers of RMM's
//! dependencies come from wheels.

mod args;
mod builder;
mod cache;
mod checkout;
mod cmake;
mod compile;
mod expected;
mod gtest;
mod junit;
mod libraries;
mod ours;
mod result;
mod run_jobs;
mod run_program;
mod session;
mod table;
mod test_program;
mod typed;
mod wheels;

use std::fs;
use std::num::NonZero;
use std::path::Path;
use std::thread;
use std::time::Duration;

pub(crate) use self::args::Args;
use self::args::Over;
use self::builder::{Builder, compiler};
use self::checkout::Checkout;
use self::expected::Expected;
use self::libraries::Libraries;
use self::result::{Row, failures, unexpected};
use self::session::{Session, output_folder};
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
    let Some(cpp) = &args.cpp else { return run_sample(args, &root) };
    let unexpected = run_and_report(cpp, args, &root)?;
    match unexpected.len() {
        0 => Ok(()),
        failed => Err(format!("{failed} failures that are not expected").into()),
    }
}

/// Runs everything, prints and writes the results, and returns the failures that are not expected.
fn run_and_report(cpp: &Path, args: &Args, root: &Path) -> Result<Vec<String>> {
    let expected = Expected::read(args.expected.as_deref())?;
    let session = prepare(cpp, args, root)?;
    let rows = build_and_run(args, &session)?;

    print!("\n{}", failures(&rows, &expected));
    println!("{}", table::table(&rows, &expected));
    let junit = args.junit.clone().unwrap_or_else(|| root.join("target/rmm-tests.xml"));
    if let Some(folder) = junit.parent() {
        fs::create_dir_all(folder).context(folder.display())?;
    }
    fs::write(&junit, junit::xml(&rows, &expected)?).context(junit.display())?;
    println!("wrote {}", junit.display());
    Ok(unexpected(&rows, &expected))
}

/// Runs all of it over a small checkout of our own, which has the shape of RMM's: typed suites,
/// ordinary tests, a program without tests, a source that needs nvcc, and one that does not
/// compile.
///
/// Before that, over one in which each kind of failure has to be seen.
///
/// # Errors
///
/// As [`run`], and if a failure was not seen.
pub(crate) fn run_sample(args: &Args, root: &Path) -> Result<()> {
    let checkouts = root.join("xtask/rmm-tests");
    let broken = Args {
        over: Some(Over::Rmm),
        program: None,
        limit: 10,
        junit: Some(root.join("target/rmm-tests-broken.xml")),
        ..args.clone()
    };
    let seen = run_and_report(&checkouts.join("broken"), &broken, root)?;
    if seen != BROKEN {
        return Err(format!("of the broken checkout it saw {seen:?}, not {BROKEN:?}").into());
    }
    println!("\nEach of these failures was to be seen. The checkout without faults:\n");
    let sample = checkouts.join("checkout");
    let expected = args.expected.clone().or_else(|| Some(sample.join("expected.txt")));
    run(&Args { cpp: Some(sample), expected, ..args.clone() })
}

/// What is missing here that a run needs.
pub(crate) fn missing(root: &Path) -> Option<String> {
    if !cfg!(target_os = "linux") {
        return Some("the software driver's library is one of Linux".to_owned());
    }
    let wheels = || Wheels::find(None, &root.join("target"));
    compiler().and_then(|_| wheels()).err().map(|error| error.to_string())
}

/// Finds or makes everything that a run needs.
fn prepare(cpp: &Path, args: &Args, root: &Path) -> Result<Session> {
    let checkout = Checkout::open(cpp)?;
    let program = compiler()?;
    let target = root.join("target");
    let wheels = Wheels::find(args.wheels.as_deref(), &target)?;
    let folder = target.join("rmm-tests");
    let libraries = Libraries::build(&folder.join("lib"))?;
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let jobs = args.jobs.map_or(cores, NonZero::get);
    let mut builder = Builder::new(program, folder.join("objects"), jobs);
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
        programs.retain(|program| args.wants(program));
        if programs.is_empty() {
            return Err("the checkout has no such test program".into());
        }
        let (built, broken) = session.build_programs(&programs)?;
        jobs.extend(built);
        rows.extend(broken);
    }
    if args.over != Some(Over::Rmm) {
        let (built, broken) = ours::build(session, args.fixtures.as_deref())?;
        jobs.extend(built);
        rows.extend(broken);
    }
    rows.extend(run_jobs::run(session, &jobs));
    Ok(rows)
}
