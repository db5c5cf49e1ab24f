//! The libraries that programs are linked with and run on: the software driver as `libcuda`, the
//! stand-in for the CUDA runtime, and our C interface.

use std::fs;
use std::path::{Path, PathBuf};

use cargo_metadata::Message;

use crate::cargo::{cargo, describe, stdout_of};
use crate::error::{Context as _, Result};
use crate::metadata::{self, Workspace as _};

const DRIVER: &str = "rmm-sim-driver";
const C_INTERFACE: &str = "rmm-capi";

/// What cargo has built.
#[derive(Debug)]
pub(super) struct Libraries {
    /// Where `libcuda.so.1` is, and `librmm_rs.so.1` if there is a C interface.
    pub(super) folder: PathBuf,
    /// The headers of the C interface.
    pub(super) headers: Option<PathBuf>,
}

impl Libraries {
    /// Builds the libraries and puts them into a folder under the names that programs ask for.
    ///
    /// # Errors
    ///
    /// If one does not build.
    pub(super) fn build(folder: &Path) -> Result<Self> {
        let metadata = metadata::read()?;
        build_driver(folder)?;
        let headers = match metadata.member(C_INTERFACE) {
            None => None,
            Some(package) => {
                install(C_INTERFACE, "librmm_rs.so", folder, "librmm_rs.so")?;
                let include = package.manifest_path.with_file_name("include").into_std_path_buf();
                include.join("rmm_rs.hpp").is_file().then_some(include)
            }
        };
        Ok(Self { folder: folder.to_path_buf(), headers })
    }
}

/// Builds the software driver alone, and returns the folder that it is in.
///
/// # Errors
///
/// If it does not build.
pub(super) fn build_driver(folder: &Path) -> Result<PathBuf> {
    fs::create_dir_all(folder).context(folder.display())?;
    install(DRIVER, "librmm_sim_driver.so", folder, "libcuda.so")?;
    Ok(folder.to_path_buf())
}

/// Builds the shared library of a package, and copies it as `<name>.1`, with a link `<name>`.
fn install(package: &str, file: &str, folder: &Path, name: &str) -> Result<()> {
    let mut command = cargo();
    command.args(["build", "-p", package, "--message-format=json-render-diagnostics"]);
    println!("$ {}", describe(&command));
    let messages = stdout_of(&mut command)?;
    let built =
        library_in(&messages, file).context(format_args!("cargo built no {file} of {package}"))?;
    let versioned = folder.join(format!("{name}.1"));
    // Copied beside it first: programs that run have the old one mapped.
    let beside = folder.join(format!("{name}.new"));
    fs::copy(&built, &beside).context(built.display())?;
    fs::rename(&beside, &versioned).context(versioned.display())?;
    link_name(&format!("{name}.1"), &folder.join(name))
}

/// Makes a symbolic link, if it is not there.
///
/// # Errors
///
/// If it cannot be made.
#[cfg(unix)]
pub(super) fn link_name(target: &str, link: &Path) -> Result<()> {
    if link.is_symlink() {
        return Ok(());
    }
    std::os::unix::fs::symlink(target, link).context(link.display())
}

/// The software driver's library is one of Linux.
#[cfg(not(unix))]
pub(super) fn link_name(_target: &str, link: &Path) -> Result<()> {
    Err(format!("{}: no symbolic links here", link.display()).into())
}

/// The file of this name among those that cargo's JSON messages name.
fn library_in(messages: &str, file: &str) -> Option<PathBuf> {
    let names = Message::parse_stream(messages.as_bytes()).map_while(std::io::Result::ok);
    let artifacts = names.filter_map(|message| match message {
        Message::CompilerArtifact(artifact) => Some(artifact.filenames),
        _ => None,
    });
    let mut files = artifacts.flatten().map(cargo_metadata::camino::Utf8PathBuf::into_std_path_buf);
    files.find(|path| path.file_name().is_some_and(|name| name == file))
}

/// What the software driver says of the processes of one program.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct DriverReport {
    /// Uses of memory that nothing orders, and other misuse.
    pub(super) violations: Vec<String>,
    /// Driver objects that were left at the end of the process.
    pub(super) leaks: usize,
}

/// Reads and removes the reports in a folder: one file for each process that ended.
pub(super) fn take_reports(folder: &Path) -> DriverReport {
    let mut report = DriverReport::default();
    let files = fs::read_dir(folder).into_iter().flatten().filter_map(std::result::Result::ok);
    for file in files {
        let text = fs::read_to_string(file.path()).unwrap_or_default();
        for line in text.lines() {
            match line.split_once(' ') {
                Some(("violation", what)) => report.violations.push(unescape(what)),
                Some(("leak", _)) => report.leaks += 1,
                _ => {}
            }
        }
        // A report that stays would be read again.
        let _stays = fs::remove_file(file.path());
    }
    report
}

/// Line breaks are written as `\n`, backslashes as `\\`.
fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(next) = chars.next() {
        match next {
            '\\' if chars.as_str().starts_with('n') => {
                chars.next();
                out.push('\n');
            }
            '\\' => out.extend(chars.next()),
            _ => out.push(next),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    //! Reports of the driver, and messages of cargo.

    use super::*;

    #[test]
    fn reports_are_read_once() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(
            folder.path().join("1.txt"),
            "calls 3\nviolation a\\nb\\\\n\nleak event 1\nend\n",
        )
        .unwrap();
        fs::write(folder.path().join("2.txt"), "calls 3\nleak event 1\nend\n").unwrap();
        let expected = DriverReport { violations: vec!["a\nb\\n".to_owned()], leaks: 2 };
        assert_eq!(take_reports(folder.path()), expected);
        assert_eq!(take_reports(folder.path()), DriverReport::default());
    }

    #[test]
    fn a_library_is_found_by_its_name() {
        assert_eq!(library_in("", "librmm_rs.so"), None);
    }
}
