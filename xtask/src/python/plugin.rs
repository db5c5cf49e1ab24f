//! The plug-in for RMM, built as a wheel, installed beside RMM's own wheels, and tested there: the
//! real RMM on the software device.

use std::path::Path;
use std::process::Command;

use super::{environment, pip, wheel_by_pip, wheel_in};
use crate::command::{self, stdout_of};
use crate::error::Result;

/// Prints what the package has to be built with, among it RMM, and what its tests need.
const REQUIREMENTS: &str = "import sys, tomllib
with open(sys.argv[1], 'rb') as file:
    project = tomllib.load(file)
print('\\n'.join([*project['build-system']['requires'], 'pytest>=8', 'mypy>=1.18']))";

/// Builds, installs and tests, or says why that cannot be done here.
///
/// # Errors
///
/// If the build or a test fails.
pub(super) fn run(root: &Path, folder: &Path, python: &Path, rmm_rs: &Path) -> Result<()> {
    let package = root.join("python/rmm_rs_plugin");
    let interpreter = environment(python, &folder.join("plugin-venv"))?;
    let list = ["-c", REQUIREMENTS, "pyproject.toml"];
    let requirements = stdout_of(Command::new(&interpreter).args(list).current_dir(&package))?;
    // RMM and its headers, and what compiles them.
    let install = |_| command::run(pip(&interpreter).args(requirements.lines()));
    if let Err(why) = stdout_of(Command::new("c++").arg("--version")).and_then(install) {
        println!("skipped: the plug-in for RMM: no compiler, or no wheels of RMM: {why}");
        return Ok(());
    }
    // Without what they need: libcudf has hundreds of megabytes.
    let engines = ["cudf-polars-cu13==26.10.*"];
    let others = ["rapidsmpf-cu13==26.10.*", "ray==2.60.*"];
    let fetch = command::run(pip(&interpreter).arg("--no-deps").args(engines))
        .and_then(|()| command::run(pip(&interpreter).args(others)));
    if let Err(why) = fetch {
        println!("skipped: tests of engines: pip cannot fetch them: {why}");
    }
    let wheels = folder.join("plugin-wheels");
    command::run(&mut wheel_by_pip(&interpreter, &package, &wheels)?)?;
    let wheel = wheel_in(&wheels)?;
    let mut install = pip(&interpreter);
    install.args(["--no-deps", "--force-reinstall"]).arg(rmm_rs).arg(&wheel);
    command::run(&mut install)?;

    let mut test = Command::new(&interpreter);
    // Not where the sources are, which would be imported in place of what is installed.
    test.args(["-m", "pytest", "-q"]).arg(package.join("tests")).current_dir(root);
    for variable in ["PYTHONPATH", "RMM_CUDA_LIBRARY", "RMM_DRIVER"] {
        test.env_remove(variable);
    }
    command::run(&mut test)
}
