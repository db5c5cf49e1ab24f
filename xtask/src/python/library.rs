//! The C library as a wheel, installed into an environment with no other package of ours: what is
//! compiled against it finds all it needs there.

use std::path::Path;
use std::process::Command;

use super::{environment, pip, wheel_by_pip, wheel_in};
use crate::command::{self, stdout_of};
use crate::error::{Context as _, Result};

/// What builds the wheel, and what its tests need.
const REQUIREMENTS: [&str; 6] = [
    "scikit-build-core>=0.11",
    "cmake>=3.26.4",
    "ninja",
    "cython>=3.2,<4",
    "setuptools",
    "pytest>=8",
];

/// Builds, installs and tests, or says why that cannot be done here.
///
/// # Errors
///
/// If the build or a test fails.
pub(super) fn run(root: &Path, folder: &Path, python: &Path, is_debug: bool) -> Result<()> {
    let package = root.join("python/librmm_rs");
    let interpreter = environment(python, &folder.join("library-venv"))?;
    let install = |_| command::run(pip(&interpreter).args(REQUIREMENTS));
    if let Err(why) = stdout_of(Command::new("c++").arg("--version")).and_then(install) {
        println!(
            "skipped: the wheel of the C library: no compiler, or no scikit-build-core: {why}"
        );
        return Ok(());
    }
    let programs = interpreter.parent().context("a folder")?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = [programs.to_path_buf()].into_iter().chain(std::env::split_paths(&path));
    let path = std::env::join_paths(folders).context("PATH")?;

    let wheels = folder.join("library-wheels");
    let mut build = wheel_by_pip(&interpreter, &package, &wheels)?;
    let debug = if is_debug { "ON" } else { "OFF" };
    build.arg(format!("--config-settings=cmake.define.RMM_RS_DEBUG={debug}"));
    command::run(build.env("PATH", &path))?;
    let wheel = wheel_in(&wheels)?;
    command::run(pip(&interpreter).args(["--no-deps", "--force-reinstall"]).arg(&wheel))?;

    let mut test = Command::new(&interpreter);
    test.args(["-m", "pytest", "-q"]).arg(package.join("tests")).current_dir(root);
    test.env("PATH", &path).env_remove("PYTHONPATH").env_remove("RMM_DRIVER");
    test.env("RMM_CUDA_LIBRARY", root.join("target/debug/librmm_sim_driver.so"));
    command::run(&mut test)
}
