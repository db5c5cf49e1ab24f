//! Builds the programs of an archive with cargo.

use std::path::PathBuf;

use crate::command::{artifacts, cargo};
use crate::error::{Context as _, Result};

/// The test program, in the profile that keeps assertions.
pub(crate) fn gpu_tests() -> Result<PathBuf> {
    program("gpu", "test --no-run --profile gpu -p rmm-conformance --test gpu")
}

/// The programs of cudarc's that run on a device, as tests in the same profile.
pub(crate) fn cudarc_tests() -> Result<PathBuf> {
    let what = "-p rmm-interop-cudarc --features checked-alone --test device";
    program("device", &format!("test --no-run --profile gpu {what}"))
}

/// The `rmm` program in a profile.
pub(crate) fn rmm(profile: &str) -> Result<PathBuf> {
    program("rmm", &format!("build --profile {profile} -p rmm-cli --bin rmm"))
}

/// A program of the benchmarks' package, as released, with every workload.
pub(crate) fn bench_program(name: &str) -> Result<PathBuf> {
    program(name, &format!("build --release -p rmm-benches --features cudarc --bin {name}"))
}

/// The program of that name that a cargo command builds.
fn program(name: &str, command: &str) -> Result<PathBuf> {
    let built = artifacts(cargo().args(command.split_whitespace()))?.into_iter();
    let mut named = built.filter(|artifact| artifact.target.name == name);
    let program = named.find_map(|artifact| artifact.executable);
    program.map(Into::into).context(format_args!("cargo built no program named `{name}`"))
}
