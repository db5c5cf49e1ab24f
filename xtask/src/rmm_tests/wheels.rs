//! The headers of RMM's dependencies, and the library of its logger, from the wheels that pip has.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use crate::cargo::{WithCommand as _, describe};
use crate::error::{Context as _, Result};

/// The wheels that pip installs.
const REQUIREMENTS: &str = include_str!("../../rmm-tests/wheels.txt");

/// A folder in which the wheels lie unpacked, as an environment variable.
pub(super) const VARIABLE: &str = "RMM_WHEELS";

/// A folder with the contents of the wheels.
#[derive(Debug)]
pub(super) struct Wheels {
    folder: PathBuf,
}

impl Wheels {
    /// The wheels in the folder that is named, or in that of the variable; else those below the
    /// target folder, where they are installed if they are missing.
    ///
    /// # Errors
    ///
    /// If a folder lacks a header, or pip fails.
    pub(super) fn find(named: Option<&Path>, target: &Path) -> Result<Self> {
        let given =
            named.map(Path::to_path_buf).or_else(|| env::var_os(VARIABLE).map(PathBuf::from));
        if let Some(folder) = given {
            return Self::open(folder);
        }
        let folder = target.join("rmm-wheels");
        let marker = folder.join("requirements.txt");
        if fs::read_to_string(&marker).is_ok_and(|installed| installed == REQUIREMENTS) {
            return Self::open(folder);
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
            return Err(
                format!("{status}; {VARIABLE} can name a folder with unpacked wheels").into()
            );
        }
        fs::rename(&list, &marker).context(marker.display())?;
        Self::open(folder)
    }

    fn open(folder: PathBuf) -> Result<Self> {
        let wheels = Self { folder };
        for header in [
            "librmm/include/rapids/cuda/memory_resource",
            "rapids_logger/include/rapids_logger/logger.hpp",
            "nvidia/cu13/include/cuda_runtime_api.h",
            "nvidia/cu13/include/crt/host_defines.h",
        ] {
            let path = wheels.folder.join(header);
            if !path.is_file() {
                return Err(format!(
                    "{} is missing: xtask/rmm-tests/wheels.txt lists the wheels to unpack",
                    path.display()
                )
                .into());
            }
        }
        Ok(wheels)
    }

    /// Where headers are found. RMM's own come last: a checkout has newer ones, but for those that
    /// its build generates.
    pub(super) fn include_folders(&self) -> Vec<PathBuf> {
        ["librmm/include/rapids", "rapids_logger/include", "nvidia/cu13/include", "librmm/include"]
            .map(|folder| self.folder.join(folder))
            .to_vec()
    }

    /// Where the library of the logger is.
    pub(super) fn logger_folder(&self) -> PathBuf {
        self.folder.join("rapids_logger/lib64")
    }
}

#[cfg(test)]
mod tests {
    //! Folders of wheels.

    use super::*;

    #[test]
    fn a_folder_without_a_header_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let error = Wheels::find(Some(folder.path()), Path::new("target")).unwrap_err().to_string();
        assert!(error.contains("memory_resource is missing"), "{error}");
    }

    #[test]
    fn the_requirements_name_all_wheels_with_versions() {
        let names: Vec<&str> =
            REQUIREMENTS.lines().filter_map(|line| Some(line.split_once("==")?.0)).collect();
        let expected = [
            "librmm-cu13",
            "rapids-logger",
            "nvidia-cuda-runtime",
            "nvidia-cuda-crt",
            "nvidia-cuda-cccl",
        ];
        assert_eq!(names, expected);
    }
}
