//! `cargo xtask sanitize`: the tests under `AddressSanitizer`, which sees use after free and
//! accesses out of bounds in host memory, those of the software device included. It needs a nightly
//! compiler, and is run on demand and once a week.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::cargo::{has_nextest, stdout_of, workspace_root};
use crate::error::{Context as _, Result};
use crate::steps::{Steps, new_table};

/// The packages whose tests run.
const PACKAGES: [&str; 14] = [
    "rmm-sys",
    "rmm-sim",
    "rmm-sim-cuda",
    "rmm-core",
    "rmm-resources",
    "rmm-adaptors",
    "rmm-containers",
    "rmm-async",
    "rmm-interop-dlpack",
    "rmm-spec",
    "rmm-rs",
    "rmm-cli",
    "rmm-report",
    "rmm-conformance",
];

/// What is not run, and why.
const LEFT_OUT: [(&str, &str); 12] = [
    (
        "compile-fail suites",
        "nothing of ours runs in them, and they compare messages of a stable compiler",
    ),
    (
        "documentation tests",
        "each is a program of its own to build and link; the tests make the same calls",
    ),
    ("models of locks", "loom replaces the memory accesses that AddressSanitizer would check"),
    ("xtask, benches, consumers", "no unsafe code, or none that the tests above do not run"),
    ("rmm-sim-macros", "it runs inside the compiler"),
    ("rmm-interop-cuda-sys, rmm-sys-oracle", "assertions of the compiler, nothing runs"),
    (
        "rmm-interop-cudarc",
        "its tests ask for a CUDA version, which a list of packages cannot name",
    ),
    ("rmm-interop-cuda-core", "its build needs the headers of CUDA 13"),
    ("rmm-preload", "as for rmm-sim-driver"),
    (
        "rmm-capi",
        "it is linked with C++ that is not built for AddressSanitizer, and programs load it",
    ),
    ("rmm-py", "Python loads it, which is not built for AddressSanitizer"),
    (
        "rmm-sim-driver",
        "other programs load it, which are not built for AddressSanitizer: so are the tests of `rmm check` left out",
    ),
];

/// Options of the sanitizer.
///
/// - `detect_leaks=0`: the software device keeps what a process leaks, as a GPU does, and reports
///   it itself; resources of a process's whole life, and vectors that tests forget on purpose,
///   would be all that `LeakSanitizer` finds.
/// - `allocator_may_return_null=1`: tests ask the host for more than there are addresses, to see
///   the error.
/// - `detect_stack_use_after_return=1`: costs memory only.
const OPTIONS: &str = "allocator_may_return_null=1:detect_leaks=0:detect_stack_use_after_return=1";

/// Options of `cargo xtask sanitize`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only these packages
    #[arg(long = "package", short, value_name = "PACKAGE", value_parser = PACKAGES)]
    packages: Vec<String>,
    /// Only tests with one of these in their names
    #[arg(value_name = "TEST")]
    tests: Vec<String>,
}

/// Runs the tests.
///
/// # Errors
///
/// If there is no nightly compiler, or a test failed or was caught.
pub(crate) fn run(args: &Args) -> Result<()> {
    let mut table = new_table(&["left out", "why"]);
    table.add_rows(LEFT_OUT.map(|(what, why)| [what, why]));
    println!("{table}");
    let host = host_of_nightly()?;
    if !has_nextest() {
        return Err("the tests run with cargo-nextest, a process each: install it".into());
    }
    let root = workspace_root()?;
    let packages: Vec<&str> = match args.packages.as_slice() {
        [] => PACKAGES.to_vec(),
        chosen => chosen.iter().map(String::as_str).collect(),
    };
    let mut steps = Steps::default();
    steps.run("AddressSanitizer", &mut tests(&root, &host, &packages, &args.tests));
    steps.finish()
}

/// The platform of the nightly compiler, which has to be there.
fn host_of_nightly() -> Result<String> {
    let version = stdout_of(nightly("rustc").arg("-vV")).context(
        "AddressSanitizer needs a nightly compiler; run `rustup toolchain install nightly --profile minimal`, then try again",
    )?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).context("rustc -vV names no host")
}

fn nightly(program: &str) -> Command {
    let mut command = Command::new("rustup");
    // What started this program has set these for its own compiler.
    command.args(["run", "nightly", program]).env_remove("CARGO").env_remove("RUSTC");
    command
}

fn tests(root: &Path, host: &str, packages: &[&str], names: &[String]) -> Command {
    let mut command = nightly("cargo");
    command
        .args(["nextest", "run", "--no-fail-fast", "--no-tests=pass", "--profile", "sanitize"])
        // With a target of its own the flags are for the tests only, not for build scripts and
        // macros.
        .args(["--target", host, "--lib", "--bins", "--tests"])
        .args(packages.iter().flat_map(|package| ["-p", *package]))
        .args(names)
        .env("CARGO_TARGET_DIR", root.join("target/sanitize"))
        .env("RUSTFLAGS", "-Zsanitizer=address")
        .env("ASAN_OPTIONS", OPTIONS)
        .env("RMM_DRIVER", "sim")
        .stdin(Stdio::null());
    command
}

#[cfg(test)]
mod command_tests {
    //! What is run.

    use super::*;
    use crate::cargo::describe;
    use crate::metadata;

    #[test]
    fn the_flags_are_for_a_target_and_a_folder_of_their_own() {
        let line = describe(&tests(Path::new("/w"), "x-y-z", &["rmm"], &[]));
        for part in [
            "CARGO_TARGET_DIR=/w/target/sanitize",
            "--target x-y-z",
            "RMM_DRIVER=sim",
            "rustup run nightly cargo",
        ] {
            assert!(line.contains(part), "{line}");
        }
    }

    #[test]
    fn every_package_with_unsafe_code_is_run_or_named_among_what_is_left_out() {
        let left_out: String = LEFT_OUT.iter().map(|(what, _)| *what).collect();
        for package in metadata::read().unwrap().packages {
            let is_named = left_out.contains(package.name.as_str())
                || ["rmm-benches", "rmm-consumer"]
                    .iter()
                    .any(|start| package.name.starts_with(start));
            assert!(PACKAGES.contains(&package.name.as_str()) || is_named, "{}", package.name);
        }
    }
}
