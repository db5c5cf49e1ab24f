//! The tests of the class for PyTorch, against the headers and c10's libraries of its releases.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::pip;
use crate::command::{self, cargo};
use crate::error::Result;

/// Names a folder that `fetch_headers.py --libraries` has filled.
const HEADERS: &str = "RMM_RS_TORCH_HEADERS";

/// The release that is looked at where no folder is named: each takes a minute.
const VERSION: &str = "2.14.1";

/// Builds the modules and the test programs and runs them.
///
/// # Errors
///
/// If the build or a test fails.
pub(super) fn run(root: &Path, interpreter: &Path) -> Result<()> {
    let package = root.join("python/rmm_rs_torch");
    command::run(cargo().args(["build", "-p", "rmm-capi"]).current_dir(root))?;
    command::run(pip(interpreter).args(["cmake", "ninja"]))?;
    let named = std::env::var_os(HEADERS).map(PathBuf::from);
    let headers = named.clone().unwrap_or_else(|| root.join("target/python/torch-headers"));
    if named.is_none() {
        let mut fetch = Command::new(interpreter);
        fetch.arg(package.join("fetch_headers.py")).arg("--libraries").arg(&headers);
        command::run(fetch.arg(VERSION))?;
    }
    let mut test = Command::new(interpreter);
    test.args(["-m", "pytest", "-q"]).arg(package.join("tests")).env(HEADERS, headers);
    command::run(test.env_remove("PYTHONPATH").current_dir(root))
}
