//! The licence texts that every published crate carries: copies of those at the top, because a
//! package holds only what lies in its own folder, and links do not survive every checkout.

use std::fs;
use std::path::{Path, PathBuf};

use super::files::below;
use super::finding::Finding;
use crate::error::{Context as _, Result};
use crate::licences;
use crate::metadata::{Member as _, Metadata, Workspace as _};

/// The files, at the top and in each published crate.
const FILES: [&str; 2] = ["LICENSE-MIT", "LICENSE-APACHE"];

/// The Python package, which also has the licences of what is linked into its extension module.
const PACKAGE: &str = "python/rmm_rs";
const EXTENSION: &str = "rmm-py";

/// Checks that every published crate has its copies.
///
/// # Errors
///
/// If a text at the top cannot be read.
pub(super) fn check(root: &Path, metadata: &Metadata) -> Result<Vec<Finding>> {
    let text = "differs from the one at the top, or is not there: run `cargo xtask tidy --fix`";
    let stale = stale_copies(root, metadata)?;
    Ok(stale.into_iter().map(|(copy, _)| Finding::new(below(root, &copy), 1, text)).collect())
}

/// Writes the copies that are missing or differ, and returns them.
///
/// # Errors
///
/// If a text cannot be read or written.
pub(super) fn write(root: &Path, metadata: &Metadata) -> Result<Vec<PathBuf>> {
    let stale = stale_copies(root, metadata)?;
    for (copy, text) in &stale {
        fs::write(copy, text).context(copy.display())?;
    }
    Ok(stale.into_iter().map(|(copy, _)| copy).collect())
}

/// The files that are missing or differ, with the text that they should have.
fn stale_copies(root: &Path, metadata: &Metadata) -> Result<Vec<(PathBuf, String)>> {
    let mut stale = Vec::new();
    // Of the Python package, which is built from its folder alone.
    if metadata.member(EXTENSION).is_some() {
        let (copy, text) = (root.join(PACKAGE).join(licences::FILE), licences::text_of(EXTENSION)?);
        if fs::read_to_string(&copy).ok().as_ref() != Some(&text) {
            stale.push((copy, text));
        }
    }
    for name in FILES {
        let original = root.join(name);
        let text = fs::read_to_string(&original).context(original.display())?;
        for package in metadata.packages.iter().filter(|package| package.is_published()) {
            let copy = package.folder().join(name);
            if fs::read_to_string(&copy).ok().as_ref() != Some(&text) {
                stale.push((copy, text.clone()));
            }
        }
    }
    Ok(stale)
}

#[cfg(test)]
mod tests {
    //! Copies that are missing, differ, and are mended.

    use serde_json::json;

    use super::*;
    use crate::metadata::tests::metadata_of;

    /// A workspace of one published crate and one that is not.
    fn workspace(root: &Path) -> Metadata {
        for folder in ["a", "b"] {
            fs::create_dir(root.join(folder)).unwrap();
        }
        for name in FILES {
            fs::write(root.join(name), format!("text of {name}\n")).unwrap();
        }
        metadata_of(json!([
            {"name": "a", "manifest_path": root.join("a/Cargo.toml")},
            {"name": "b", "manifest_path": root.join("b/Cargo.toml"), "publish": []},
        ]))
    }

    fn found(root: &Path, metadata: &Metadata) -> Vec<String> {
        check(root, metadata)
            .unwrap()
            .into_iter()
            .map(|finding| finding.file.display().to_string())
            .collect()
    }

    #[test]
    fn a_missing_copy_is_found_and_written() {
        let root = tempfile::tempdir().unwrap();
        let metadata = workspace(root.path());
        assert_eq!(found(root.path(), &metadata), ["a/LICENSE-MIT", "a/LICENSE-APACHE"]);
        assert_eq!(write(root.path(), &metadata).unwrap().len(), 2);
        assert!(found(root.path(), &metadata).is_empty());
        assert!(!root.path().join("b/LICENSE-MIT").exists());
    }

    #[test]
    fn a_copy_that_differs_is_found_and_mended() {
        let root = tempfile::tempdir().unwrap();
        let metadata = workspace(root.path());
        write(root.path(), &metadata).unwrap();
        let copy = root.path().join("a/LICENSE-MIT");
        fs::write(&copy, "another text\n").unwrap();
        assert_eq!(found(root.path(), &metadata), ["a/LICENSE-MIT"]);
        assert_eq!(write(root.path(), &metadata).unwrap(), std::slice::from_ref(&copy));
        assert_eq!(fs::read_to_string(copy).unwrap(), "text of LICENSE-MIT\n");
    }

    #[test]
    fn no_text_at_the_top_is_an_error() {
        let root = tempfile::tempdir().unwrap();
        let metadata = workspace(root.path());
        fs::remove_file(root.path().join("LICENSE-APACHE")).unwrap();
        assert!(check(root.path(), &metadata).is_err());
    }
}
