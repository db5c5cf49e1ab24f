//! The plug-in for RMM, built as a wheel, installed beside RMM's own wheels, and tested there: the
//! real RMM on the software device.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{pip, run_step};
use crate::cargo::{WithCommand as _, stdout_of};
use crate::error::{Context as _, Result};

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
    let interpreter = match environment(python, &folder.join("plugin-venv"), &package)? {
        Ok(interpreter) => interpreter,
        Err(why) => {
            println!("skipped: the plug-in for RMM: {why}");
            return Ok(());
        }
    };
    let wheels = folder.join("plugin-wheels");
    if wheels.exists() {
        std::fs::remove_dir_all(&wheels).context(wheels.display())?;
    }
    let mut build = Command::new(&interpreter);
    build.args(["-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"]);
    // With the versions of the environment, which the tests have too.
    build.arg("--no-build-isolation").arg("--wheel-dir").arg(&wheels).arg(&package);
    run_step(&mut build)?;
    let mut entries = std::fs::read_dir(&wheels).context(wheels.display())?;
    let wheel = entries.next().ok_or("pip built no wheel")?.context(wheels.display())?;
    let mut install = pip(&interpreter);
    install.args(["--no-deps", "--force-reinstall"]).arg(rmm_rs).arg(wheel.path());
    run_step(&mut install)?;
    println!("built {}", wheel.path().display());

    let mut test = Command::new(&interpreter);
    // Not where the sources are, which would be imported in place of what is installed.
    test.args(["-m", "pytest", "-q"]).arg(package.join("tests")).current_dir(root);
    for variable in ["PYTHONPATH", "RMM_CUDA_LIBRARY", "RMM_DRIVER"] {
        test.env_remove(variable);
    }
    run_step(&mut test)
}

/// The interpreter of an environment with RMM, or why there is none.
fn environment(
    python: &Path,
    folder: &Path,
    package: &Path,
) -> Result<std::result::Result<PathBuf, String>> {
    let compiler = Command::new("c++").arg("--version").stdout(Stdio::null()).status();
    if !compiler.is_ok_and(|status| status.success()) {
        return Ok(Err("there is no c++".to_owned()));
    }
    let interpreter = folder.join("bin/python");
    if !interpreter.exists() {
        run_step(Command::new(python).args(["-m", "venv"]).arg(folder))?;
    }
    let mut list = Command::new(&interpreter);
    list.args(["-c", REQUIREMENTS]).arg(package.join("pyproject.toml"));
    let requirements = stdout_of(&mut list)?;
    let mut install = pip(&interpreter);
    install.args(requirements.lines()).stdin(Stdio::null());
    let status = install.status().with_command(&install)?;
    if status.success() {
        return Ok(Ok(interpreter));
    }
    Ok(Err(format!("pip cannot fetch the wheels of RMM and of its headers ({status})")))
}
