//! The workspace's own files.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::command::stdout_of;
use crate::error::{Context as _, Result};

/// The folders that hold files of ours, beside the top folder itself.
const FOLDERS: [&str; 5] = [".github", "benches", "crates", "docs", "xtask"];

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

/// Every file of code or text that git tracks or would add, in the order of their paths.
pub(super) fn sources(root: &Path) -> Result<Vec<SourceFile>> {
    let mut git = Command::new("git");
    git.current_dir(root).args(["ls-files", "--cached", "--others", "--exclude-standard"]);
    let list = stdout_of(&mut git)?;
    let mut paths: Vec<&str> = list.lines().filter(|path| is_read(path)).collect();
    // One that was removed stays in the index for a while.
    paths.retain(|path| root.join(path).is_file());
    paths.sort_unstable();
    let read = |path: &str| {
        let text = fs::read_to_string(root.join(path)).context(path)?;
        Ok(SourceFile { path: path.to_owned(), text })
    };
    paths.into_iter().map(read).collect()
}

fn is_read(path: &str) -> bool {
    let extension = Path::new(path).extension().unwrap_or_default();
    let is_ours = path.split_once('/').is_none_or(|(folder, _)| FOLDERS.contains(&folder));
    is_ours && EXTENSIONS.iter().any(|read| extension == *read)
}

/// `path` as seen from `root`, with `/` between the parts on every system.
pub(super) fn below(root: &Path, path: &Path) -> String {
    let relative = path.strip_prefix(root).unwrap_or(path);
    let parts: Vec<_> =
        relative.components().map(|part| part.as_os_str().to_string_lossy()).collect();
    parts.join("/")
}
