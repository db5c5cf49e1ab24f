//! The mutants in files that a branch changed.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use super::mutant::Mutant;
use crate::cargo::stdout_of;
use crate::error::{Context as _, Result};

/// Where the mutants are listed.
const LISTS: &str = "xtask/src/mutants";

/// What differs between the working tree and the commit where it left a branch.
#[derive(Debug)]
pub(super) struct Changes {
    /// Below the workspace's folder.
    files: BTreeSet<String>,
    /// The text of the lists of mutants at that commit.
    old_lists: String,
}

impl Changes {
    /// Asks git; changes that are not committed count, too.
    pub(super) fn since(root: &Path, base: &str) -> Result<Self> {
        let git = |args: &[&str]| stdout_of(Command::new("git").current_dir(root).args(args));
        let fork = git(&["merge-base", base, "HEAD"])
            .context(format_args!("looking for the merge base with {base}"))?;
        let fork = fork.trim();
        let files = git(&["diff", "--name-only", fork])?;
        Ok(Self {
            files: files.lines().map(str::to_owned).collect(),
            old_lists: git(&["grep", "-h", "name: \"", fork, "--", LISTS])?,
        })
    }

    /// Whether the mutant is in a file that differs, or is itself new.
    pub(super) fn touch(&self, mutant: &Mutant) -> bool {
        self.files.contains(mutant.file)
            || !self.old_lists.contains(&format!("\"{}\"", mutant.name))
    }
}

#[cfg(test)]
mod tests {
    //! Mutants of changed files, and new ones.

    use super::*;

    #[test]
    fn a_mutant_is_touched_if_its_file_differs_or_it_is_new() {
        let changes = Changes {
            files: ["crates/a/x.rs".to_owned()].into(),
            old_lists: "name: \"old\",\nname: \"older\",\n".to_owned(),
        };
        let mutant =
            |name, file| Mutant { name, file, original: "x", replacement: "y", breaks: "" };
        assert!(changes.touch(&mutant("old", "crates/a/x.rs")));
        assert!(!changes.touch(&mutant("old", "crates/a/other.rs")));
        assert!(changes.touch(&mutant("new", "crates/a/other.rs")));
    }
}
