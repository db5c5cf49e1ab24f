//! Finding the workspace's own Rust files.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{Context as _, Result};

/// The folders that hold Rust code of ours.
const FOLDERS: [&str; 4] = ["crates", "consumers", "benches", "xtask"];

/// One file of Rust code.
#[derive(Debug, Clone)]
pub(super) struct RustFile {
    /// Below the workspace's folder, with `/` between the parts.
    pub(super) path: String,
    /// All of it.
    pub(super) text: String,
}

impl RustFile {
    /// Whether it is a part of a crate, not one of its tests, benches or examples.
    pub(super) fn is_in_src(&self) -> bool {
        self.path.split('/').any(|part| part == "src")
    }
}

/// Every Rust file of the workspace, in the order of their paths.
pub(super) fn rust_sources(root: &Path) -> Result<Vec<RustFile>> {
    let mut paths = Vec::new();
    for folder in FOLDERS.map(|folder| root.join(folder)) {
        if folder.is_dir() {
            collect(&folder, &mut paths)?;
        }
    }
    paths.sort();
    paths
        .into_iter()
        .map(|path| {
            let text = fs::read_to_string(&path).context(path.display())?;
            Ok(RustFile { path: below(root, &path), text })
        })
        .collect()
}

/// `path` as seen from `root`, with `/` between the parts on every system.
pub(super) fn below(root: &Path, path: &Path) -> String {
    let relative = path.strip_prefix(root).unwrap_or(path);
    let parts: Vec<_> =
        relative.components().map(|part| part.as_os_str().to_string_lossy()).collect();
    parts.join("/")
}

fn collect(folder: &Path, paths: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).context(folder.display())? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            // Build folders of single crates, and hidden ones, hold nothing that we wrote.
            let name = entry.file_name();
            if name != "target" && !name.to_string_lossy().starts_with('.') {
                collect(&path, paths)?;
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            paths.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    //! Which files are found.

    use super::*;

    #[test]
    fn files_are_found_below_the_folders_of_the_workspace() {
        let root = tempfile::tempdir().unwrap();
        for path in [
            "crates/a/src/lib.rs",
            "crates/a/tests/t.rs",
            "crates/a/target/gen.rs",
            "docs/x.rs",
            "xtask/readme.md",
        ] {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "//! Text.\n").unwrap();
        }
        let found = rust_sources(root.path()).unwrap();
        let shown: Vec<_> =
            found.iter().map(|file| (file.path.as_str(), file.is_in_src())).collect();
        assert_eq!(shown, [("crates/a/src/lib.rs", true), ("crates/a/tests/t.rs", false)]);
    }
}
