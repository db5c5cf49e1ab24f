//! The workspace's own files.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{Context as _, Result};

/// The folders that hold files of ours, beside the top folder itself.
const FOLDERS: [&str; 6] = [".github", "benches", "consumers", "crates", "docs", "xtask"];

/// What is read, by the ends of names.
const EXTENSIONS: [&str; 6] = ["html", "md", "rs", "toml", "txt", "yml"];

/// One file.
#[derive(Debug, Clone)]
pub(super) struct SourceFile {
    /// Below the workspace's folder, with `/` between the parts.
    pub(super) path: String,
    /// All of it.
    pub(super) text: String,
}

impl SourceFile {
    /// Whether it is Rust code.
    pub(super) fn is_rust(&self) -> bool {
        Path::new(&self.path).extension().is_some_and(|extension| extension == "rs")
    }

    /// Whether it is a part of a crate, not one of its tests, benches or examples.
    pub(super) fn is_in_src(&self) -> bool {
        self.path.split('/').any(|part| part == "src")
    }
}

/// Every file of code or text, in the order of their paths.
pub(super) fn sources(root: &Path) -> Result<Vec<SourceFile>> {
    let mut paths = Vec::new();
    for folder in FOLDERS.map(|folder| root.join(folder)) {
        if folder.is_dir() {
            collect(&folder, &mut paths)?;
        }
    }
    for entry in fs::read_dir(root).context(root.display())? {
        let path = entry?.path();
        if path.is_file() && is_read(&path) {
            paths.push(path);
        }
    }
    paths.sort();
    paths
        .into_iter()
        .map(|path| {
            let text = fs::read_to_string(&path).context(path.display())?;
            Ok(SourceFile { path: below(root, &path), text })
        })
        .collect()
}

fn is_read(path: &Path) -> bool {
    let extension = path.extension().unwrap_or_default();
    EXTENSIONS.iter().any(|read| extension == *read)
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
        } else if is_read(&path) {
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
            "docs/x.md",
            "docs/x.svg",
            "other/x.rs",
            "README.md",
        ] {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "//! Text.\n").unwrap();
        }
        let found = sources(root.path()).unwrap();
        let shown: Vec<_> = found
            .iter()
            .map(|file| (file.path.as_str(), file.is_rust(), file.is_in_src()))
            .collect();
        let expected = [
            ("README.md", false, false),
            ("crates/a/src/lib.rs", true, true),
            ("crates/a/tests/t.rs", true, false),
            ("docs/x.md", false, false),
        ];
        assert_eq!(shown, expected);
    }
}
