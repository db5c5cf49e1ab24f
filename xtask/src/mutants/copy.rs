//! A copy of the workspace, in which mutants are applied.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::mutant::Mutant;
use crate::error::{Context as _, Result};

/// What is no source: what cargo makes by default, and what only the repository needs.
const LEFT_OUT: [&str; 2] = ["target", ".git"];

/// The copy.
#[derive(Debug)]
pub(super) struct Workspace {
    root: PathBuf,
}

impl Workspace {
    /// Makes the copy, or brings an older one up to date, without what cargo has `built`. Files
    /// that are the same keep their times, so that cargo builds only what has changed.
    pub(super) fn copy(from: &Path, to: &Path, built: &Path) -> Result<Self> {
        update(from, to, built)
            .context(format_args!("copying the workspace to {}", to.display()))?;
        Ok(Self { root: to.to_path_buf() })
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Breaks the copy until the result is dropped.
    pub(super) fn apply(&self, mutant: &Mutant) -> Result<Applied> {
        let path = self.root.join(mutant.file);
        let original = fs::read_to_string(&path).context(path.display())?;
        let broken = mutant.apply(&original)?;
        fs::write(&path, broken).context(path.display())?;
        Ok(Applied { path, original })
    }
}

/// A mutant in place.
#[derive(Debug)]
pub(super) struct Applied {
    path: PathBuf,
    original: String,
}

impl Drop for Applied {
    fn drop(&mut self) {
        // Should this fail, the next run writes the file again.
        let _left_broken = fs::write(&self.path, &self.original);
    }
}

fn update(from: &Path, to: &Path, built: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    let mut known = Vec::new();
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name();
        let (source, target) = (entry.path(), to.join(&name));
        if source == built || LEFT_OUT.iter().any(|left_out| name == *left_out) {
            continue;
        }
        if entry.file_type()?.is_dir() {
            update(&source, &target, built)?;
        } else {
            let bytes = fs::read(&source)?;
            if fs::read(&target).ok().as_ref() != Some(&bytes) {
                fs::write(&target, bytes)?;
            }
        }
        known.push(name);
    }
    remove_others(to, &known)
}

/// Removes what is in a folder of the copy only: a test that was deleted must not go on testing.
fn remove_others(folder: &Path, known: &[std::ffi::OsString]) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if known.contains(&entry.file_name()) {
            continue;
        }
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    //! What the copy holds.

    use super::*;

    const MUTANT: Mutant =
        Mutant { name: "m", file: "a/x.rs", original: "one", replacement: "two", breaks: "it" };

    #[test]
    fn a_copy_is_brought_up_to_date_and_a_mutant_undone() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        for (file, text) in
            [("a/x.rs", "one"), ("target/y", "built"), ("b/z", "built"), ("a/old.rs", "old")]
        {
            fs::create_dir_all(from.join(file).parent().unwrap()).unwrap();
            fs::write(from.join(file), text).unwrap();
        }
        let built = from.join("b");
        let copied = Workspace::copy(&from, &to, &built).unwrap();
        assert!(!to.join("target").exists() && !to.join("b").exists());
        let read = || fs::read_to_string(to.join("a/x.rs")).unwrap();
        let applied = copied.apply(&MUTANT).unwrap();
        assert_eq!(read(), "two");
        drop(applied);
        assert_eq!(read(), "one");

        let before = fs::metadata(to.join("a/x.rs")).unwrap().modified().unwrap();
        fs::remove_file(from.join("a/old.rs")).unwrap();
        Workspace::copy(&from, &to, &built).unwrap();
        assert!(!to.join("a/old.rs").exists());
        assert_eq!(fs::metadata(to.join("a/x.rs")).unwrap().modified().unwrap(), before);
    }
}
