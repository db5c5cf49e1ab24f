//! The tests of the class for PyTorch, where a folder with its headers and libraries is named.

use std::path::Path;
use std::process::Command;

use super::pip;
use crate::command::{self, cargo};
use crate::error::Result;

/// Names the folder that `fetch_headers.py --libraries` has filled.
const HEADERS: &str = "RMM_RS_TORCH_HEADERS";

/// Builds the modules and the test programs and runs them, or says why that cannot be done here.
///
/// # Errors
///
/// If the build or a test fails.
pub(super) fn run(root: &Path, interpreter: &Path) -> Result<()> {
    if std::env::var_os(HEADERS).is_none() {
        println!("skipped: the class for PyTorch: {HEADERS} names no folder");
        return Ok(());
    }
    command::run(cargo().args(["build", "-p", "rmm-capi"]).current_dir(root))?;
    command::run(pip(interpreter).args(["cmake", "ninja"]))?;
    let mut test = Command::new(interpreter);
    test.args(["-m", "pytest", "-q"]).arg(root.join("python/rmm_rs_torch/tests"));
    command::run(test.env_remove("PYTHONPATH").current_dir(root))
}
