//! `cargo xtask sanitize`: the tests under `AddressSanitizer`, which sees use after free and
//! accesses out of bounds in host memory, those of the software device included. It needs a nightly
//! compiler, and is run on demand and once a week.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::command::{has_nextest, stdout_of, workspace_root};
use crate::error::{Context as _, Result};
use crate::steps::Steps;

/// The packages whose tests do not run: those without unsafe code, or with tests in which nothing
/// of ours runs (`rmm-sys-oracle`, `rmm-interop-cuda-sys`: assertions of the compiler), or which a
/// program loads that is not built for `AddressSanitizer` (C++, Python, those of `rmm check`), or
/// that need CUDA's headers or a version of them.
///
/// Models of locks do not run either, since loom replaces the accesses that would be checked; nor
/// do compile-fail suites, and documentation tests, each of which is a program to link.
const LEFT_OUT: [&str; 11] = [
    "rmm-benches",
    "rmm-capi",
    "rmm-interop-cuda-core",
    "rmm-interop-cuda-sys",
    "rmm-interop-cudarc",
    "rmm-preload",
    "rmm-py",
    "rmm-sim-driver",
    "rmm-sim-macros",
    "rmm-sys-oracle",
    "xtask",
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
    #[arg(long = "package", short, value_name = "PACKAGE")]
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
    let host = host_of_nightly()?;
    if !has_nextest() {
        return Err("the tests run with cargo-nextest, a process each: install it".into());
    }
    let root = workspace_root()?;
    let mut steps = Steps::default();
    steps.run("AddressSanitizer", &mut command(&root, &host, args));
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

fn command(root: &Path, host: &str, args: &Args) -> Command {
    let all = LEFT_OUT.map(|package| format!("--exclude={package}"));
    let mut command = nightly("cargo");
    command
        .args(["nextest", "run", "--no-fail-fast", "--no-tests=pass", "--profile", "sanitize"])
        // With a target of its own the flags are for the tests only, not for build scripts and
        // macros.
        .args(["--target", host, "--lib", "--bins", "--tests"])
        .args(&args.tests)
        .env("CARGO_TARGET_DIR", root.join("target/sanitize"))
        .env("RUSTFLAGS", "-Zsanitizer=address")
        .env("ASAN_OPTIONS", OPTIONS)
        .env("RMM_DRIVER", "sim")
        .stdin(Stdio::null());
    if args.packages.is_empty() {
        command.arg("--workspace").args(all);
    } else {
        command.args(args.packages.iter().map(|package| format!("--package={package}")));
    }
    command
}

#[cfg(test)]
mod tests {
    //! What is run.

    use super::*;
    use crate::command::describe;

    #[test]
    fn the_flags_are_for_a_target_and_a_folder_of_their_own() {
        let line = |packages: &[&str]| {
            let packages = packages.iter().map(|&name| name.to_owned()).collect();
            let args = Args { packages, tests: vec!["pool".to_owned()] };
            describe(&command(Path::new("/w"), "x-y-z", &args))
        };
        let all = line(&[]);
        for part in [
            "CARGO_TARGET_DIR=/w/target/sanitize",
            "--target x-y-z",
            "RMM_DRIVER=sim",
            "rustup run nightly cargo",
            "--workspace --exclude=rmm-benches",
        ] {
            assert!(all.contains(part), "{all}");
        }
        let one = line(&["rmm-core"]);
        assert!(one.contains(" pool --package=rmm-core") && !one.contains("--workspace"), "{one}");
    }
}
