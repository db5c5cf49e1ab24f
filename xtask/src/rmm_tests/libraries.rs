//! What programs run on: the software driver as `libcuda.so.1`, and our C interface.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::cargo::{artifacts, cargo};
use crate::error::{Context as _, Result};

/// The attributes of the software device, unless the variable is set: access to pageable memory for
/// the tests of system memory, pools that can be exported, and a decompression engine, which the
/// device has not by itself.
const ATTRIBUTES: &str =
    "PAGEABLE_MEMORY_ACCESS=1 MEMPOOL_SUPPORTED_HANDLE_TYPES=1 MEM_DECOMPRESS_ALGORITHM_MASK=1";

/// The kernel of the sample's tests of launches.
const KERNELS: &str = "saxpy(float y[n], const float x[n], float a, size_t n)";

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

/// The variables of a program on the software driver, which has so many devices.
pub(super) fn environment(folder: &Path, devices: u32) -> BTreeMap<&'static str, String> {
    let other = |name: &str| std::env::var(name).ok();
    let path = folder.display().to_string();
    let path = other("LD_LIBRARY_PATH").map_or(path.clone(), |more| format!("{path}:{more}"));
    BTreeMap::from([
        ("LD_LIBRARY_PATH", path),
        ("RMM_SIM_ATTRIBUTES", other("RMM_SIM_ATTRIBUTES").unwrap_or_else(|| ATTRIBUTES.into())),
        ("RMM_SIM_DEVICES", devices.to_string()),
        ("RMM_SIM_KERNELS", KERNELS.to_owned()),
    ])
}

/// Builds the shared library of a package, and copies it.
fn install(package: &str, file: &str, folder: &Path, name: &str) -> Result<()> {
    fs::create_dir_all(folder).context(folder.display())?;
    let mut command = cargo();
    let built = artifacts(command.args(["build", "-p", package]))?.into_iter();
    let mut built = built.flat_map(|artifact| artifact.filenames);
    let built = built.find(|path| path.file_name() == Some(file));
    let built = built.context(format_args!("cargo built no {file} of {package}"))?;
    let output = folder.join(name);
    // Copied beside it first: programs that run have the old one mapped.
    let beside = folder.join(format!("{name}.new"));
    fs::copy(&built, &beside).context(&built)?;
    fs::rename(&beside, &output).context(output.display())
}
