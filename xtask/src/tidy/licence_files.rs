//! The licence texts that every published crate carries, as links to those at the top: a package
//! gets what a link leads to. And those of what is linked into the Python package, which is built
//! from its folder alone.

use std::fs;
use std::path::{Path, PathBuf};

use super::files::below;
use super::finding::Finding;
use crate::error::{Context as _, Result};
use crate::licences;
use crate::metadata::{Member, Metadata};

/// The files, at the top and in each published crate.
const FILES: [&str; 2] = ["LICENSE-MIT", "LICENSE-APACHE"];

const PACKAGE: &str = "python/rmm_rs";
const EXTENSION: &str = "rmm-py";

/// Checks that every published crate and the Python package have their files.
///
/// # Errors
///
/// If a text at the top cannot be read.
pub(super) fn check(root: &Path, metadata: &Metadata) -> Result<Vec<Finding>> {
    let published = metadata.packages.iter().filter(|package| package.is_published());
    let mut findings = check_links(root, &published.map(Member::folder).collect::<Vec<_>>())?;
    if let Some((file, _)) = stale(root)? {
        let text = "is not the text of what is linked in: run `cargo xtask tidy --fix`";
        findings.push(Finding::new(below(root, &file), 1, text));
    }
    Ok(findings)
}

fn check_links(root: &Path, folders: &[&Path]) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for name in FILES {
        let original = root.join(name);
        let text = fs::read_to_string(&original).context(original.display())?;
        for file in folders.iter().map(|folder| folder.join(name)) {
            if fs::read_to_string(&file).ok().as_ref() != Some(&text) {
                let text = "is no link to the file at the top: make it one with `ln -s`";
                findings.push(Finding::new(below(root, &file), 1, text));
            }
        }
    }
    Ok(findings)
}

/// Writes the text of what is linked into the Python package, if it is another.
///
/// # Errors
///
/// If a text cannot be read or written.
pub(super) fn write(root: &Path) -> Result<()> {
    let Some((file, text)) = stale(root)? else { return Ok(()) };
    fs::write(&file, text).context(file.display())?;
    println!("wrote {}", file.display());
    Ok(())
}

/// The file of the Python package, and the text that it should have, if it has another.
fn stale(root: &Path) -> Result<Option<(PathBuf, String)>> {
    let (file, text) = (root.join(PACKAGE).join(licences::FILE), licences::text_of(EXTENSION)?);
    Ok((fs::read_to_string(&file).ok().as_ref() != Some(&text)).then_some((file, text)))
}

#[cfg(test)]
mod tests {
    //! Files that are missing or differ.

    use super::*;

    #[test]
    fn a_published_crate_has_the_texts_at_the_top() {
        let dir = tempfile::tempdir().unwrap();
        let (root, folder) = (dir.path(), dir.path().join("a"));
        fs::create_dir(&folder).unwrap();
        for name in FILES {
            fs::write(root.join(name), format!("text of {name}\n")).unwrap();
        }
        let found = || -> Vec<String> {
            let findings = check_links(root, &[&folder]).unwrap().into_iter();
            findings.map(|finding| finding.file.display().to_string()).collect()
        };
        assert_eq!(found(), ["a/LICENSE-MIT", "a/LICENSE-APACHE"]);
        fs::copy(root.join("LICENSE-MIT"), root.join("a/LICENSE-MIT")).unwrap();
        fs::write(root.join("a/LICENSE-APACHE"), "another text\n").unwrap();
        assert_eq!(found(), ["a/LICENSE-APACHE"]);
        fs::remove_file(root.join("LICENSE-APACHE")).unwrap();
        assert!(check_links(root, &[]).is_err(), "no text at the top");
    }
}
