//! The archive folder: writing and opening it.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{Context as _, Result};

const MANIFEST: &str = "manifest.json";
const BIN: &str = "bin";
const LIB: &str = "lib";
const TRACES: &str = "traces";
const PARTS: [&str; 3] = [BIN, LIB, TRACES];

/// Raised when an older reader would misread a folder.
const FORMAT: u32 = 1;

/// The contents of `manifest.json`.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Manifest {
    format: u32,
    /// The commit that everything was built from, if known.
    commit: Option<String>,
    /// Files in `bin`.
    programs: Vec<String>,
    /// Files in `lib`.
    #[serde(default)]
    libraries: Vec<String>,
    /// Files in `traces`.
    traces: Vec<String>,
}

/// What goes into an archive.
#[derive(Debug, Default)]
pub(crate) struct Contents {
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
    manifest: Manifest,
}

/// Writes an archive, in place of an older one. Returns the programs' places in it.
///
/// # Errors
///
/// If the folder holds something else, two programs have one name, or a file cannot be copied.
pub(crate) fn write(folder: &Path, contents: &Contents) -> Result<Vec<PathBuf>> {
    clear(folder)?;
    let bin = folder.join(BIN);
    fs::create_dir_all(&bin).context(bin.display())?;

    let mut manifest = Manifest {
        format: FORMAT,
        commit: contents.commit.clone(),
        programs: Vec::new(),
        libraries: copy(&contents.libraries, &folder.join(LIB))?,
        traces: copy(&contents.traces, &folder.join(TRACES))?,
    };
    for (name, from) in &contents.programs {
        if manifest.programs.contains(name) {
            return Err(format!("two programs of the archive are called `{name}`").into());
        }
        // A copy keeps the permission to run it.
        fs::copy(from, bin.join(name)).context(from.display())?;
        manifest.programs.push(name.clone());
    }
    let json = serde_json::to_string_pretty(&manifest)?;
    fs::write(folder.join(MANIFEST), json + "\n").context(folder.display())?;
    Ok(manifest.programs.iter().map(|name| bin.join(name)).collect())
}

/// Copies files into a folder under their own names, which are returned.
fn copy(files: &[PathBuf], folder: &Path) -> Result<Vec<String>> {
    fs::create_dir_all(folder).context(folder.display())?;
    let mut names = Vec::new();
    for from in files {
        let name = from.file_name().context(from.display())?;
        fs::copy(from, folder.join(name)).context(from.display())?;
        names.push(name.to_string_lossy().into_owned());
    }
    Ok(names)
}

impl Archive {
    /// Opens an archive for a run, and says what it was built from.
    ///
    /// # Errors
    ///
    /// If the folder is no archive, or one of another format.
    pub(crate) fn open(folder: &Path) -> Result<Self> {
        let manifest = read_manifest(folder)?;
        if manifest.format != FORMAT {
            return Err(format!(
                "{}: format {} is not {FORMAT}, which this program reads",
                folder.display(),
                manifest.format
            )
            .into());
        }
        if let Some(commit) = &manifest.commit {
            println!("archive {} of commit {commit}", folder.display());
        }
        // Absolute: a program that runs from it may have another current folder.
        let folder = fs::canonicalize(folder).context(folder.display())?;
        Ok(Self { folder, manifest })
    }

    /// Where it lies.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// What it was built from, if known.
    pub(crate) fn commit(&self) -> Option<&str> {
        self.manifest.commit.as_deref()
    }

    /// A program of it.
    ///
    /// # Errors
    ///
    /// If it is not there.
    pub(crate) fn program(&self, name: &str) -> Result<PathBuf> {
        let path = self.folder.join(BIN).join(name);
        fs::metadata(&path).context(path.display())?;
        Ok(path)
    }

    /// The folder of the traces.
    pub(crate) fn traces(&self) -> PathBuf {
        self.folder.join(TRACES)
    }
}

/// The size of all files of an archive, in bytes.
///
/// # Errors
///
/// If the folder cannot be read.
pub(super) fn size(folder: &Path) -> Result<u64> {
    let mut bytes = fs::metadata(folder.join(MANIFEST))?.len();
    for part in PARTS {
        for entry in fs::read_dir(folder.join(part))? {
            bytes += entry?.metadata()?.len();
        }
    }
    Ok(bytes)
}

fn read_manifest(folder: &Path) -> Result<Manifest> {
    let path = folder.join(MANIFEST);
    let json = fs::read_to_string(&path).context(path.display())?;
    serde_json::from_str(&json).context(path.display())
}

/// Removes an older archive; refuses to touch a folder that holds anything else.
fn clear(folder: &Path) -> Result<()> {
    if read_manifest(folder).is_ok() {
        for part in PARTS {
            let part = folder.join(part);
            if part.exists() {
                fs::remove_dir_all(&part).context(part.display())?;
            }
        }
        return Ok(());
    }
    let holds_something = fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some());
    if holds_something {
        return Err(
            format!("{} is not empty and is no archive: not written to", folder.display()).into()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    //! Writing, reading, and what is refused. Running from an archive is tested with the whole
    //! command.

    use super::*;

    fn contents(folder: &Path, names: &[&str]) -> Contents {
        let programs = names.iter().map(|name| {
            let from = folder.join(format!("{name}-1f2e"));
            fs::write(&from, format!("program {name}")).unwrap();
            ((*name).to_owned(), from)
        });
        let trace = folder.join("a.csv.gz");
        fs::write(&trace, "trace").unwrap();
        let library = folder.join("libpeer.so");
        fs::write(&library, "library").unwrap();
        Contents {
            commit: Some("abc".to_owned()),
            programs: programs.collect(),
            libraries: vec![library],
            traces: vec![trace],
        }
    }

    #[test]
    fn what_is_written_can_be_opened() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("archive");
        let written = write(&folder, &contents(dir.path(), &["gpu", "rmm", "pair"])).unwrap();
        assert_eq!(written, ["gpu", "rmm", "pair"].map(|name| folder.join("bin").join(name)));
        let archive = Archive::open(&folder).unwrap();
        assert_eq!(archive.commit(), Some("abc"));
        let program = |name| fs::read_to_string(archive.program(name).unwrap()).unwrap();
        assert_eq!((program("gpu"), program("rmm")), ("program gpu".into(), "program rmm".into()));
        assert!(archive.program("other").unwrap_err().to_string().contains("bin/other"));
        assert_eq!(fs::read_to_string(archive.traces().join("a.csv.gz")).unwrap(), "trace");
        assert_eq!(fs::read_to_string(folder.join("lib/libpeer.so")).unwrap(), "library");
        let names = ["gpu", "rmm", "pair"].map(str::to_owned).to_vec();
        let expected = Manifest {
            format: 1,
            commit: Some("abc".into()),
            programs: names,
            libraries: vec!["libpeer.so".into()],
            traces: vec!["a.csv.gz".into()],
        };
        assert_eq!(read_manifest(&folder).unwrap(), expected);
    }

    #[test]
    fn a_second_archive_replaces_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("archive");
        write(&folder, &contents(dir.path(), &["gpu", "rmm", "old"])).unwrap();
        write(&folder, &contents(dir.path(), &["gpu", "rmm"])).unwrap();
        assert!(!folder.join("bin/old").exists());
        let manifest = fs::metadata(folder.join(MANIFEST)).unwrap().len();
        let expected = manifest + ("program gpuprogram rmmtracelibrary".len()) as u64;
        assert_eq!(size(&folder).unwrap(), expected);
    }

    #[test]
    fn a_folder_with_other_things_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("home");
        fs::create_dir_all(folder.join("bin")).unwrap();
        fs::write(folder.join("bin/precious"), "").unwrap();
        assert!(write(&folder, &contents(dir.path(), &["gpu"])).is_err());
        assert!(folder.join("bin/precious").exists());
    }

    #[test]
    fn two_programs_of_one_name_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let error =
            write(&dir.path().join("x"), &contents(dir.path(), &["gpu", "gpu"])).unwrap_err();
        assert_eq!(error.to_string(), "two programs of the archive are called `gpu`");
    }

    #[test]
    fn a_folder_that_is_no_complete_archive_is_not_opened() {
        let dir = tempfile::tempdir().unwrap();
        assert!(Archive::open(dir.path()).is_err(), "no manifest");
        let folder = dir.path().join("newer");
        write(&folder, &contents(dir.path(), &["rmm"])).unwrap();
        fs::write(folder.join(MANIFEST), r#"{"format":2,"commit":null,"programs":[],"traces":[]}"#)
            .unwrap();
        assert!(Archive::open(&folder).unwrap_err().to_string().contains("format 2 is not 1"));
    }
}
