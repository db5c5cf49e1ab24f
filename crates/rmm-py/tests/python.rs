//! The tests of the Python package, over the extension module as cargo builds it for tests.
//!
//! `cargo xtask python` tests the wheel; these are for `cargo xtask mutants`. They need an
//! interpreter of Python 3.11 or newer with pytest and `numpy`, which `RMM_PYTHON` names; without
//! the variable nothing is tested.
#![cfg(target_os = "linux")]

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The interpreter with pytest.
const PYTHON: &str = "RMM_PYTHON";

/// The folder of what cargo has built: that of this program, without `deps`.
fn built() -> PathBuf {
    let program = env::current_exe().expect("this program has a path");
    program.ancestors().nth(2).expect("it is in `target/debug/deps`").to_owned()
}

/// Builds the module and the software driver, and lays out the package in a folder.
fn lay_out(folder: &Path) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--quiet", "-p", "rmm-py", "-p", "rmm-sim-driver"]).current_dir(&root);
    assert!(build.status().expect("cargo runs").success(), "the module is built");
    let package = folder.join("rmm_rs");
    copy(&root.join("python/rmm_rs/rmm_rs"), &package);
    fs::copy(built().join("lib_rmm.so"), package.join("_rmm.abi3.so")).expect("it is copied");
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("the package is there") {
        let entry = entry.expect("it can be read");
        let (source, name) = (entry.path(), entry.file_name());
        if source.is_dir() {
            copy(&source, &to.join(name));
        } else if source.extension().is_some_and(|extension| extension != "so") {
            fs::copy(source, to.join(name)).expect("it is copied");
        }
    }
}

fn passes(file: &str) {
    let Some(python) = env::var_os(PYTHON) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    lay_out(folder.path());
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/rmm_rs/tests");
    let mut pytest = Command::new(python);
    pytest.args(["-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]);
    pytest.arg(tests.join(format!("test_{file}.py"))).current_dir(folder.path());
    pytest.env("PYTHONPATH", folder.path()).env("PYTHONDONTWRITEBYTECODE", "1");
    pytest.env("RMM_CUDA_LIBRARY", built().join("librmm_sim_driver.so"));
    pytest.env("RMM_SIM_DEVICES", "2").env_remove("RMM_DRIVER");
    assert!(pytest.status().expect("Python runs").success(), "test_{file}.py");
}

macro_rules! files {
    ($($name:ident)*) => { $(
        #[test]
        fn $name() {
            passes(stringify!($name));
        }
    )* };
}

files! { buffers callbacks dlpack errors held processes report resources statistics streams threads }
