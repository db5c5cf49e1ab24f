//! The folder that carries a run to a machine with no Rust.
//!
//! ```text
//! DIR/manifest.json      what is in the folder, and what it was built from
//! DIR/bin/xtask          this program: `DIR/bin/xtask test-gpu --archive DIR` runs the matrix
//! DIR/bin/rmm            the command-line tool, as released
//! DIR/bin/rmm-checked    the same with assertions kept
//! DIR/bin/gpu            the GPU tests, with assertions kept
//! DIR/bin/...            the benchmarks
//! DIR/traces/*.gz        what `rmm replay` and the benchmarks replay
//! DIR/test-gpu.xml       the results, after a run
//! ```

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Programs;
use crate::error::{Context as _, Result};

const MANIFEST: &str = "manifest.json";
const BIN: &str = "bin";
const TRACES: &str = "traces";

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
    /// Files in `traces`.
    traces: Vec<String>,
}

/// What goes into an archive.
#[derive(Debug)]
pub(super) struct Contents {
    pub(super) commit: Option<String>,
    /// The name of each program in the archive, and the file that it is copied from.
    pub(super) programs: Vec<(String, PathBuf)>,
    /// The files of the traces.
    pub(super) traces: Vec<PathBuf>,
}

/// Writes an archive, in place of an older one. Returns the programs' places in it.
///
/// # Errors
///
/// If the folder holds something else, two programs have one name, or a file cannot be copied.
pub(super) fn write(folder: &Path, contents: &Contents) -> Result<Vec<PathBuf>> {
    clear(folder)?;
    let (bin, traces) = (folder.join(BIN), folder.join(TRACES));
    fs::create_dir_all(&bin).context(bin.display())?;
    fs::create_dir_all(&traces).context(traces.display())?;

    let mut manifest = Manifest {
        format: FORMAT,
        commit: contents.commit.clone(),
        programs: Vec::new(),
        traces: Vec::new(),
    };
    for (name, from) in &contents.programs {
        if manifest.programs.contains(name) {
            return Err(format!("two programs of the archive are called `{name}`").into());
        }
        // A copy keeps the permission to run it.
        fs::copy(from, bin.join(name)).context(from.display())?;
        manifest.programs.push(name.clone());
    }
    for from in &contents.traces {
        let name = from.file_name().context(from.display())?;
        fs::copy(from, traces.join(name)).context(from.display())?;
        manifest.traces.push(name.to_string_lossy().into_owned());
    }
    let json = serde_json::to_string_pretty(&manifest)?;
    fs::write(folder.join(MANIFEST), json + "\n").context(folder.display())?;
    Ok(manifest.programs.iter().map(|name| bin.join(name)).collect())
}

/// Opens an archive for a run.
///
/// # Errors
///
/// If the folder is no archive, or a program that a run needs is not in it.
pub(super) fn open(folder: &Path) -> Result<Programs> {
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
    let program = |name: &str| {
        // Not relative: the current folder of whoever runs it is not ours to assume.
        let path = folder.join(BIN).join(name);
        fs::canonicalize(&path).context(path.display())
    };
    Ok(Programs { gpu: program("gpu")?, rmm: program("rmm")?, junit: folder.join("test-gpu.xml") })
}

/// The size of all files of an archive, in bytes.
///
/// # Errors
///
/// If the folder cannot be read.
pub(super) fn size(folder: &Path) -> Result<u64> {
    let mut bytes = fs::metadata(folder.join(MANIFEST))?.len();
    for part in [BIN, TRACES] {
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
        for part in [BIN, TRACES] {
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
    //! Writing, reading, and what is refused. Running from an archive is tested with the whole command.

    use super::*;

    fn contents(folder: &Path, names: &[&str]) -> Contents {
        let programs = names.iter().map(|name| {
            let from = folder.join(format!("{name}-1f2e"));
            fs::write(&from, format!("program {name}")).unwrap();
            ((*name).to_owned(), from)
        });
        let trace = folder.join("a.csv.gz");
        fs::write(&trace, "trace").unwrap();
        Contents {
            commit: Some("abc".to_owned()),
            programs: programs.collect(),
            traces: vec![trace],
        }
    }

    #[test]
    fn what_is_written_can_be_opened() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("archive");
        let written = write(&folder, &contents(dir.path(), &["gpu", "rmm", "pair"])).unwrap();
        assert_eq!(written, ["gpu", "rmm", "pair"].map(|name| folder.join("bin").join(name)));
        let programs = open(&folder).unwrap();
        assert_eq!(fs::read_to_string(programs.gpu).unwrap(), "program gpu");
        assert_eq!(fs::read_to_string(programs.rmm).unwrap(), "program rmm");
        assert_eq!(programs.junit, folder.join("test-gpu.xml"));
        assert_eq!(fs::read_to_string(folder.join("traces/a.csv.gz")).unwrap(), "trace");
        let names = ["gpu", "rmm", "pair"].map(str::to_owned).to_vec();
        let expected = Manifest {
            format: 1,
            commit: Some("abc".into()),
            programs: names,
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
        let expected =
            manifest + ("program gpu".len() + "program rmm".len() + "trace".len()) as u64;
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
        assert!(open(dir.path()).is_err(), "no manifest");
        let folder = dir.path().join("partial");
        write(&folder, &contents(dir.path(), &["rmm"])).unwrap();
        assert!(open(&folder).unwrap_err().to_string().contains("bin/gpu"));
        fs::write(folder.join(MANIFEST), r#"{"format":2,"commit":null,"programs":[],"traces":[]}"#)
            .unwrap();
        assert!(open(&folder).unwrap_err().to_string().contains("format 2 is not 1"));
    }
}
