//! RMM's own Python tests over the installed wheel of `rmm-rs`, which stands for `rmm`.
//!
//! Each file of tests runs in a process of its own under pytest, with two plug-ins: the package's
//! alias (`-p rmm_rs.as_rmm`), and `xtask/rmm-tests/python`, which finds the checkout's tests. On
//! the software driver it also replaces the functions of the CUDA runtime that the tests call.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::args::{Args, LIMIT};
use super::case::Framework;
use super::libraries::{self, pip_install};
use super::report::Row;
use super::runner::{self, Job};
use crate::command;
use crate::error::{Context as _, Result};
use crate::python;

/// What pip installs.
const REQUIREMENTS: &str = include_str!("../../rmm-tests/python/requirements.txt");

/// How many devices the tests see, unless the user says so.
const DEVICES: u32 = 2;

/// Runs the tests of a checkout.
///
/// # Errors
///
/// If something is missing that the tests need, or the checkout has none.
pub(super) fn run(checkout: &Path, args: &Args, root: &Path) -> Result<Vec<Row>> {
    let package = package_of(checkout)?;
    let tests = package.join("tests");
    let mut files = test_files(&tests)?;
    files.retain(|file| args.wants(&format!("python/{file}")));
    if files.is_empty() {
        return Err("the checkout has no such file of Python tests".into());
    }
    let target = root.join("target/rmm-tests");
    let program = match &args.interpreter {
        Some(given) => given.clone(),
        None => make_environment(root, &target.join("python"))?,
    };
    let mut environment = BTreeMap::new();
    if !args.gpu {
        let libraries = target.join("libraries");
        libraries::build_driver(&libraries)?;
        environment = libraries::environment(&libraries, DEVICES);
    }
    let plugin = root.join("xtask/rmm-tests/python").display().to_string();
    // Nothing else: what is installed is tested, and the checkout stays as it is.
    environment.extend([("PYTHONPATH", plugin), ("PYTHONDONTWRITEBYTECODE", "1".to_owned())]);
    let job = |file: &String| Job {
        name: format!("python/{file}"),
        framework: Framework::Pytest,
        program: program.clone(),
        arguments: arguments(&package, args),
        file: Some(tests.join(file).display().to_string()),
        environment: environment.clone(),
        limit: args.limit.unwrap_or(LIMIT),
    };
    let jobs: Vec<Job> = files.iter().map(job).collect();
    Ok(runner::run(&jobs, args.jobs(), &target.join("runs")))
}

/// The folder `python/rmm/rmm` of a checkout, given its folder or one of those on the way.
fn package_of(checkout: &Path) -> Result<PathBuf> {
    let candidates = ["python/rmm/rmm", "rmm/rmm", "rmm", ""].map(|part| checkout.join(part));
    let found = candidates.iter().find(|folder| folder.join("tests").is_dir());
    let found = found.context(format_args!(
        "{}: no checkout of RMM: there is no `python/rmm/rmm/tests`",
        checkout.display()
    ))?;
    fs::canonicalize(found).context(found.display())
}

/// The files that pytest takes for tests by their names, in a folder.
fn test_files(tests: &Path) -> Result<Vec<String>> {
    let names = fs::read_dir(tests).context(tests.display())?.filter_map(std::result::Result::ok);
    let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let is_test =
        |name: &String| name.strip_suffix(".py").is_some_and(|stem| stem.starts_with("test_"));
    let mut files: Vec<String> = names.filter(is_test).collect();
    files.sort();
    Ok(files)
}

/// The arguments of the interpreter, but for the file.
fn arguments(package: &Path, args: &Args) -> Vec<String> {
    let mut arguments = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "rmm_rs.as_rmm"]
        .map(str::to_owned)
        .to_vec();
    arguments.extend([
        "-p".to_owned(),
        "rmm_tests.plugin".to_owned(),
        format!("--rmm-package={}", package.display()),
        // Names of modules begin with `rmm`, however the checkout imports its tests.
        format!("--rootdir={}", package.parent().unwrap_or(package).display()),
        // Above the tests are the sources of the package, which must not be imported.
        format!("--confcutdir={}", package.join("tests").display()),
    ]);
    if !args.gpu {
        arguments.push("--rmm-software".to_owned());
    }
    arguments.extend(args.pytest.iter().cloned());
    arguments
}

/// Makes an environment with the wheel of `rmm-rs` and what RMM's tests need beside it, or brings
/// it up to date, and returns its interpreter.
fn make_environment(root: &Path, folder: &Path) -> Result<PathBuf> {
    let program = Path::new("python3");
    // With assertions, as the library for C has them that the C++ tests run over.
    let wheel = python::build_wheel(root, &python::build_environment(root, program)?, python::DEV)?;
    let interpreter = python::environment(program, folder)?;
    pip_install(&mut python::pip(&interpreter), REQUIREMENTS, folder)?;
    let mut install = python::pip(&interpreter);
    command::run(install.args(["--no-deps", "--force-reinstall"]).arg(&wheel))?;
    Ok(interpreter)
}
