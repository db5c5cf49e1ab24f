//! Libraries that programs run on: the software driver as `libcuda.so.1`, and our C interface. And
//! those that they are built with: headers of RMM's dependencies, the library of its logger, CMake
//! and Ninja, from wheels.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use crate::command::{self, artifacts, cargo};
use crate::error::{Context as _, Result};

/// The attributes of the software device, unless the variable is set: access to pageable memory for
/// the tests of system memory, pools that can be exported, and a decompression engine, which the
/// device has not by itself.
const ATTRIBUTES: &str =
    "PAGEABLE_MEMORY_ACCESS=1 MEMPOOL_SUPPORTED_HANDLE_TYPES=1 MEM_DECOMPRESS_ALGORITHM_MASK=1";

/// The kernel of the sample's tests of launches.
const KERNELS: &str = "saxpy(float y[n], const float x[n], float a, size_t n)";

/// The wheels that pip installs, and a variable that names a folder in which they lie unpacked.
const WHEELS: &str = include_str!("../../rmm-tests/wheels.txt");
const WHEELS_VARIABLE: &str = "RMM_WHEELS";

/// The program itself: the one in `bin` is a script that imports the wheel.
pub(super) const CMAKE: &str = "cmake/data/bin/cmake";
pub(super) const NINJA: &str = "bin/ninja";

/// The whole path of the folder with the contents of the wheels: that of the variable, or one below
/// the target folder, where they are installed if they are missing.
///
/// # Errors
///
/// If pip fails, or there is no CMake in the folder.
pub(super) fn wheels(root: &Path) -> Result<PathBuf> {
    let given = env::var_os(WHEELS_VARIABLE).map(PathBuf::from);
    let folder = given.clone().unwrap_or_else(|| root.join("target/rmm-wheels"));
    if given.is_none() {
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--upgrade"]);
        pip.args(["--only-binary", ":all:", "--target"]).arg(&folder);
        pip_install(&mut pip, WHEELS, &folder)
            .context(format_args!("{WHEELS_VARIABLE} can name a folder with unpacked wheels"))?;
    }
    let cmake = folder.join(CMAKE);
    fs::metadata(&cmake).context(format_args!("{}, of a wheel", cmake.display()))?;
    // CMake would look for it in its own folders.
    fs::canonicalize(&folder).context(folder.display())
}

/// Builds the software driver, and puts it into a folder under the name that programs ask for.
///
/// # Errors
///
/// If it does not build.
pub(super) fn build_driver(folder: &Path) -> Result<()> {
    install("rmm-sim-driver", "librmm_sim_driver.so", folder, "libcuda.so.1")
}

/// Builds the C interface, as [`build_driver`] does the driver.
///
/// # Errors
///
/// If it does not build.
pub(super) fn build_c_interface(folder: &Path) -> Result<()> {
    install("rmm-capi", "librmm_rs.so", folder, "librmm_rs.so.1")
}

/// The variables of a program on the software driver, which has `devices` devices unless the
/// variable is set.
pub(super) fn environment(folder: &Path, devices: u32) -> BTreeMap<&'static str, String> {
    let other = |name: &str| env::var(name).ok();
    let path = folder.display().to_string();
    let path = other("LD_LIBRARY_PATH").map_or(path.clone(), |more| format!("{path}:{more}"));
    BTreeMap::from([
        ("LD_LIBRARY_PATH", path),
        ("RMM_SIM_ATTRIBUTES", other("RMM_SIM_ATTRIBUTES").unwrap_or_else(|| ATTRIBUTES.into())),
        ("RMM_SIM_DEVICES", other("RMM_SIM_DEVICES").unwrap_or_else(|| devices.to_string())),
        ("RMM_SIM_KERNELS", KERNELS.to_owned()),
    ])
}

/// Builds the shared library of a package, and copies it.
fn install(package: &str, file: &str, folder: &Path, name: &str) -> Result<()> {
    fs::create_dir_all(folder).context(folder.display())?;
    let built = artifacts(cargo().args(["build", "-p", package]))?.into_iter();
    let mut built = built.flat_map(|artifact| artifact.filenames);
    let built = built.find(|path| path.file_name() == Some(file));
    let built = built.context(format_args!("cargo built no {file} of {package}"))?;
    let output = folder.join(name);
    // Copied beside it first: programs that run have the old one mapped.
    let beside = folder.join(format!("{name}.new"));
    fs::copy(&built, &beside).context(&built)?;
    fs::rename(&beside, &output).context(output.display())
}

/// Has pip install a list into a folder, unless it did.
pub(super) fn pip_install(pip: &mut Command, list: &str, folder: &Path) -> Result<()> {
    let (wanted, installed) = (folder.join("wanted.txt"), folder.join("installed.txt"));
    if fs::read_to_string(&installed).is_ok_and(|installed| installed == list) {
        return Ok(());
    }
    fs::create_dir_all(folder).context(folder.display())?;
    fs::write(&wanted, list).context(wanted.display())?;
    command::run(pip.arg("-r").arg(&wanted)).context("pip")?;
    fs::rename(&wanted, &installed).context(installed.display())
}
