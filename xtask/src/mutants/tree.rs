//! A second working tree of the repository, in which patches are applied.

use std::collections::BTreeSet;
use std::env;
use std::path::{self, Path, PathBuf};

use super::patch::Patch;
use crate::command::git;
use crate::error::{Context as _, Result};

/// The tree, and where cargo builds it.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) root: PathBuf,
    pub(super) target: PathBuf,
}

impl Tree {
    /// Checks out what git tracks, with changes that are not committed. Files that are the same
    /// keep their times, so that cargo builds only what has changed.
    pub(super) fn check_out(root: &Path) -> Result<Self> {
        let target = env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
        let folder = path::absolute(target).context("the target folder")?.join("mutants");
        let tree = Self { root: folder.join("tree"), target: folder };
        let user = ["-c", "user.name=mutants", "-c", "user.email=mutants"];
        let changes = git(root, &[&user[..], &["stash", "create"]].concat())?;
        let commit = if changes.is_empty() { git(root, &["rev-parse", "HEAD"])? } else { changes };
        if !tree.root.exists() {
            let place = tree.root.to_str().context("a target folder that is not UTF-8")?;
            git(root, &["worktree", "add", "--force", "--detach", place, &commit])?;
        }
        git(&tree.root, &["checkout", "--quiet", "--force", "--detach", &commit])?;
        Ok(tree)
    }

    /// Breaks the tree until the result is dropped.
    pub(super) fn apply(&self, patch: &Patch) -> Result<Applied<'_>> {
        git(&self.root, &["apply", &patch.path])?;
        Ok(Applied(&self.root))
    }
}

/// A patch in place.
#[derive(Debug)]
pub(super) struct Applied<'a>(&'a Path);

impl Drop for Applied<'_> {
    fn drop(&mut self) {
        // Should this fail, the next run checks everything out again.
        let _ignored = git(self.0, &["checkout", "--quiet", "--", "."]);
    }
}

/// The files that differ from the commit where the working tree left a branch.
pub(super) fn changed_since(root: &Path, base: &str) -> Result<BTreeSet<String>> {
    let fork = git(root, &["merge-base", base, "HEAD"])?;
    let changed = git(root, &["diff", "--name-only", &fork])?;
    Ok(changed.lines().map(str::to_owned).collect())
}
