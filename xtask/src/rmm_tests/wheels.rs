//! The headers of RMM's dependencies, the library of its logger, CMake and Ninja, from wheels.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use crate::cargo::{WithCommand as _, describe};
use crate::error::{Context as _, Result};

/// The wheels that pip installs.
const REQUIREMENTS: &str = include_str!("../../rmm-tests/wheels.txt");

/// A folder in which the wheels lie unpacked, as an environment variable.
const VARIABLE: &str = "RMM_WHEELS";

/// The program itself: the one in `bin` is a script that imports the wheel.
pub(super) const CMAKE: &str = "cmake/data/bin/cmake";
pub(super) const NINJA: &str = "bin/ninja";

/// The folder with the contents of the wheels: the one that is named, or that of the variable; else
/// one below the target folder, where they are installed if they are missing.
///
/// # Errors
///
/// If a folder lacks a file, or pip fails.
pub(super) fn find(named: Option<&Path>, target: &Path) -> Result<PathBuf> {
    let given = named.map(Path::to_path_buf).or_else(|| env::var_os(VARIABLE).map(PathBuf::from));
    if let Some(folder) = given {
        return complete(&folder);
    }
    let folder = target.join("rmm-wheels");
    let marker = folder.join("requirements.txt");
    if fs::read_to_string(&marker).is_ok_and(|installed| installed == REQUIREMENTS) {
        return complete(&folder);
    }
    fs::create_dir_all(&folder).context(folder.display())?;
    let list = folder.join("wanted.txt");
    fs::write(&list, REQUIREMENTS).context(list.display())?;
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--upgrade"]);
    pip.args(["--only-binary", ":all:", "--target"]).arg(&folder).arg("-r").arg(&list);
    println!("$ {}", describe(&pip));
    let status = pip.stdin(Stdio::null()).status().with_command(&pip)?;
    if !status.success() {
        return Err(format!("{status}; {VARIABLE} can name a folder with unpacked wheels").into());
    }
    fs::rename(&list, &marker).context(marker.display())?;
    complete(&folder)
}

/// The whole path of the folder, if it has a file of each wheel.
fn complete(folder: &Path) -> Result<PathBuf> {
    for file in [
        "librmm/include/rapids/cuda/memory_resource",
        "rapids_logger/include/rapids_logger/logger.hpp",
        "nvidia/cu13/include/cuda_runtime_api.h",
        "nvidia/cu13/include/crt/host_defines.h",
        CMAKE,
        NINJA,
    ] {
        let path = folder.join(file);
        if !path.is_file() {
            let path = path.display();
            return Err(format!(
                "{path} is missing: xtask/rmm-tests/wheels.txt lists the wheels to unpack"
            )
            .into());
        }
    }
    // CMake would look for it in its own folders.
    fs::canonicalize(folder).context(folder.display())
}

#[cfg(test)]
mod tests {
    //! Folders of wheels.

    use super::*;

    #[test]
    fn a_folder_without_a_header_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let error = find(Some(folder.path()), Path::new("target")).unwrap_err().to_string();
        assert!(error.contains("memory_resource is missing"), "{error}");
    }
}
