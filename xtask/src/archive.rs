//! The folder that carries a run to a machine with no Rust.
//!
//! ```text
//! DIR/commit.txt         what it was built from
//! DIR/bin/rmm            the command-line tool, as released
//! DIR/bin/...            what is to be run there
//! DIR/lib/...            libraries that the peers need
//! DIR/traces/*.gz        what `rmm replay` and the benchmarks replay
//! ```

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::cargo::describe;
use crate::error::{Context as _, Result};

const COMMIT: &str = "commit.txt";
const PARTS: [&str; 3] = ["bin", "lib", "traces"];

/// What is easy to carry to another machine, in MiB.
const COMFORTABLE: u64 = 60;

/// What goes into an archive.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    /// The commit that everything was built from, if known.
    pub(crate) commit: Option<String>,
    /// The name of each program in the archive, and the file that it is copied from.
    pub(crate) programs: Vec<(String, PathBuf)>,
    /// Libraries that they need.
    pub(crate) libraries: Vec<PathBuf>,
    /// The files of the traces.
    pub(crate) traces: Vec<PathBuf>,
}

/// An archive that was opened for a run.
#[derive(Debug)]
pub(crate) struct Archive {
    folder: PathBuf,
    commit: String,
}

/// Writes an archive, in place of an older one, as small as it can be, and says how large it is.
///
/// # Errors
///
/// As [`write()`].
pub(crate) fn save(folder: &Path, contents: &Contents) -> Result<()> {
    let files = write(folder, contents)?;
    strip(&files[..contents.programs.len()]);
    let bytes = |file: &PathBuf| fs::metadata(file).map_or(0, |metadata| metadata.len());
    let size = files.iter().map(bytes).sum::<u64>() >> 20;
    println!("{}: {} files, {size} MiB", folder.display(), files.len());
    if size > COMFORTABLE {
        eprintln!("warning: that is more than {COMFORTABLE} MiB");
    }
    Ok(())
}

/// Writes an archive, in place of an older one. Returns its files, programs first.
///
/// # Errors
///
/// If the folder holds something else, two programs have one name, or a file cannot be copied.
pub(crate) fn write(folder: &Path, contents: &Contents) -> Result<Vec<PathBuf>> {
    clear(folder)?;
    let [bin, lib, traces] = PARTS.map(|part| folder.join(part));
    let programs = contents.programs.iter().map(|(name, from)| (from, bin.join(name)));
    let own_name = |to: &Path, from: &PathBuf| to.join(from.file_name().unwrap_or_default());
    let libraries = contents.libraries.iter().map(|from| (from, own_name(&lib, from)));
    let traces_to = contents.traces.iter().map(|from| (from, own_name(&traces, from)));
    for part in [&bin, &lib, &traces] {
        fs::create_dir_all(part).context(part.display())?;
    }
    let mut files = Vec::new();
    for (from, to) in programs.chain(libraries).chain(traces_to) {
        if to.exists() {
            return Err(format!("there are two files for {}", to.display()).into());
        }
        // A copy keeps the permission to run it.
        fs::copy(from, &to).context(from.display())?;
        files.push(to);
    }
    fs::write(folder.join(COMMIT), contents.commit.as_deref().unwrap_or("unknown"))?;
    Ok(files)
}

/// Removes an older archive; refuses to touch a folder that holds anything else.
fn clear(folder: &Path) -> Result<()> {
    let holds_something = fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some());
    if holds_something && !folder.join(COMMIT).is_file() {
        return Err(
            format!("{} is not empty and is no archive: not written to", folder.display()).into()
        );
    }
    for part in PARTS.map(|part| folder.join(part)).iter().filter(|part| part.exists()) {
        fs::remove_dir_all(part).context(part.display())?;
    }
    Ok(())
}

/// Takes the debug information out of the copies; names of functions stay, for backtraces.
fn strip(programs: &[PathBuf]) {
    let mut command = Command::new("strip");
    command.arg("--strip-debug").args(programs).stdin(Stdio::null());
    println!("$ {}", describe(&command));
    if !command.status().is_ok_and(|status| status.success()) {
        eprintln!(
            "warning: `strip` failed or is not installed: the archive is larger than it need be"
        );
    }
}

/// The commit of the working tree, with a mark if something is not committed; nothing outside git.
pub(crate) fn commit(root: &Path) -> Option<String> {
    let mut git = Command::new("git");
    git.args(["describe", "--always", "--dirty", "--abbrev=40"]).current_dir(root);
    let output = git.stdin(Stdio::null()).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The recorded programs of the repository.
///
/// # Errors
///
/// If their folder cannot be read.
pub(crate) fn traces(root: &Path) -> Result<Vec<PathBuf>> {
    let folder = root.join("benches/traces");
    let mut traces = Vec::new();
    for entry in fs::read_dir(&folder).context(folder.display())? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "gz") {
            traces.push(path);
        }
    }
    traces.sort();
    Ok(traces)
}

impl Archive {
    /// Opens an archive for a run, and says what it was built from.
    ///
    /// # Errors
    ///
    /// If the folder is no archive.
    pub(crate) fn open(folder: &Path) -> Result<Self> {
        let path = folder.join(COMMIT);
        let commit = fs::read_to_string(&path).context(path.display())?;
        println!("archive {} of commit {commit}", folder.display());
        // Absolute: a program that runs from it may have another current folder.
        Ok(Self { folder: fs::canonicalize(folder).context(folder.display())?, commit })
    }

    /// Where it lies.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// What it was built from.
    pub(crate) fn commit(&self) -> &str {
        &self.commit
    }

    /// A program of it.
    ///
    /// # Errors
    ///
    /// If it is not there.
    pub(crate) fn program(&self, name: &str) -> Result<PathBuf> {
        let path = self.folder.join("bin").join(name);
        fs::metadata(&path).context(path.display())?;
        Ok(path)
    }

    /// The folder of the traces.
    pub(crate) fn traces(&self) -> PathBuf {
        self.folder.join("traces")
    }
}

#[cfg(test)]
mod tests {
    //! Writing, reading, and what is refused.

    use super::*;

    fn contents(folder: &Path, names: &[&str]) -> Contents {
        let file = |name: &str| {
            let path = folder.join(name);
            fs::write(&path, format!("content of {name}")).unwrap();
            path
        };
        Contents {
            commit: Some("abc".to_owned()),
            programs: names.iter().map(|name| ((*name).to_owned(), file(name))).collect(),
            libraries: vec![file("libpeer.so")],
            traces: vec![file("a.csv.gz")],
        }
    }

    #[test]
    fn what_is_written_can_be_opened() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("archive");
        let written = write(&folder, &contents(dir.path(), &["gpu", "rmm"])).unwrap();
        let files = ["bin/gpu", "bin/rmm", "lib/libpeer.so", "traces/a.csv.gz"];
        assert_eq!(written, files.map(|name| folder.join(name)));
        let archive = Archive::open(&folder).unwrap();
        assert_eq!(archive.commit(), "abc");
        assert_eq!(fs::read_to_string(archive.program("gpu").unwrap()).unwrap(), "content of gpu");
        assert!(archive.program("other").unwrap_err().to_string().contains("bin/other"));
        assert!(archive.traces().join("a.csv.gz").is_file());
    }

    #[test]
    fn a_second_archive_replaces_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("archive");
        write(&folder, &contents(dir.path(), &["rmm", "old"])).unwrap();
        write(&folder, &contents(dir.path(), &["rmm"])).unwrap();
        assert!(folder.join("bin/rmm").exists() && !folder.join("bin/old").exists());
    }

    #[test]
    fn a_folder_with_other_things_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("home");
        fs::create_dir_all(folder.join("bin")).unwrap();
        fs::write(folder.join("bin/precious"), "").unwrap();
        assert!(write(&folder, &contents(dir.path(), &["gpu"])).is_err());
        assert!(folder.join("bin/precious").exists());
        assert!(Archive::open(&folder).unwrap_err().to_string().contains("commit.txt"));
    }

    #[test]
    fn two_programs_of_one_name_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let error = write(&dir.path().join("x"), &contents(dir.path(), &["gpu", "gpu"]));
        assert!(error.unwrap_err().to_string().contains("two files for"));
    }
}
