//! Builds the programs of an archive with cargo.

use crate::cargo::{Program, build_programs, cargo};
use crate::error::{Context as _, Result};

/// The test program, in the profile that keeps assertions.
pub(crate) fn gpu_tests() -> Result<Program> {
    let mut command = cargo();
    command.args([
        "test",
        "--profile",
        "gpu",
        "-p",
        "rmm-conformance",
        "--test",
        "gpu",
        "--no-run",
    ]);
    the("test", "gpu", build_programs(&mut command)?)
}

/// The programs of cudarc's that run on a device, as tests in the same profile.
pub(crate) fn cudarc_tests() -> Result<Program> {
    let mut command = cargo();
    command.args(["test", "--profile", "gpu", "-p", "rmm-interop-cudarc"]);
    command.args(["--features", "checked-alone", "--test", "device", "--no-run"]);
    the("test", "device", build_programs(&mut command)?)
}

/// The `rmm` program in a profile.
pub(crate) fn rmm(profile: &str) -> Result<Program> {
    let mut command = cargo();
    command.args(["build", "--profile", profile, "-p", "rmm-cli", "--bin", "rmm"]);
    the("bin", "rmm", build_programs(&mut command)?)
}

/// The benchmarks.
pub(crate) fn benches() -> Result<Vec<Program>> {
    let mut command = cargo();
    command.args(["bench", "-p", "rmm-benches", "--no-run"]);
    let programs = build_programs(&mut command)?;
    // A unit-test harness of the library, and the programs for `bench-gpu`, are of no use beside
    // the tests.
    Ok(programs.into_iter().filter(|program| program.kind == "bench").collect())
}

/// A program of the benchmarks' package, as released, with every workload.
pub(crate) fn bench_program(name: &str) -> Result<Program> {
    let mut command = cargo();
    command.args([
        "build",
        "--release",
        "-p",
        "rmm-benches",
        "--features",
        "cudarc",
        "--bin",
        name,
    ]);
    the("bin", name, build_programs(&mut command)?)
}

fn the(kind: &str, name: &str, programs: Vec<Program>) -> Result<Program> {
    programs
        .into_iter()
        .find(|program| program.kind == kind && program.name == name)
        .context(format_args!("cargo built no {kind} program named `{name}`"))
}
