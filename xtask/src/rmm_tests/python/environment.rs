//! An environment with the wheel of `rmm-rs`, and what RMM's Python tests need beside it.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{Context as _, Result};
use crate::python;

/// What pip installs.
const REQUIREMENTS: &str = include_str!("../../../rmm-tests/python/requirements.txt");

/// Makes the environment, or brings it up to date, and returns its interpreter.
///
/// # Errors
///
/// If the wheel does not build, or pip fails.
pub(super) fn make(root: &Path, folder: &Path) -> Result<PathBuf> {
    let program = Path::new("python3");
    // With assertions, as the library for C has them that the C++ tests run over.
    let wheel = python::build_wheel(root, &python::build_environment(root, program)?, python::DEV)?;
    let interpreter = python::environment(program, folder)?;
    let marker = folder.join("installed.txt");
    if !fs::read_to_string(&marker).is_ok_and(|installed| installed == REQUIREMENTS) {
        let list = folder.join("wanted.txt");
        fs::write(&list, REQUIREMENTS).context(list.display())?;
        python::run_step(python::pip(&interpreter).arg("-r").arg(&list))?;
        fs::rename(&list, &marker).context(marker.display())?;
    }
    let mut install = python::pip(&interpreter);
    python::run_step(install.args(["--no-deps", "--force-reinstall"]).arg(&wheel))?;
    Ok(interpreter)
}

#[cfg(test)]
mod tests {
    //! What is installed.

    use super::*;

    #[test]
    fn the_requirements_are_those_of_the_tests() {
        for name in ["cuda-bindings", "cuda-core", "numba-cuda", "numpy", "pytest"] {
            let is_named = |line: &str| line.starts_with(name);
            assert!(REQUIREMENTS.lines().any(is_named), "{name}");
        }
    }
}
