//! A mutant: a patch for `git apply`, with a head of what it breaks and which test notices.

use std::fs;
use std::path::Path;

use crate::command::git;
use crate::error::{Context as _, Result};

/// Where the patches are, below the workspace's folder.
const FOLDER: &str = "xtask/mutants/";

/// What begins the line of the head that names the test: arguments for `cargo nextest run`, of
/// which the last is the test's name.
const KILLED_BY: &str = "Killed-by: ";

/// A patch.
#[derive(Clone, Debug)]
pub(super) struct Patch {
    /// What it guards and its own name: `order/no-wait-after-stealing`.
    pub(super) name: String,
    /// Of the patch, below the workspace's folder.
    pub(super) path: String,
    /// The file that it changes, below the workspace's folder.
    pub(super) changes: String,
    /// `-p package --test program name`; the package alone where no test is known.
    pub(super) killed_by: Vec<String>,
}

impl Patch {
    /// Reads those of the workspace that git tracks.
    pub(super) fn read_all(root: &Path) -> Result<Vec<Self>> {
        let read = |path| Self::parse(path, &fs::read_to_string(root.join(path)).context(path)?);
        git(root, &["ls-files", FOLDER])?.lines().map(read).collect()
    }

    fn parse(path: &str, text: &str) -> Result<Self> {
        let name = path.trim_start_matches(FOLDER).trim_end_matches(".patch");
        let after = |start| text.lines().find_map(|line| line.strip_prefix(start));
        let changes = after("+++ b/").context(format_args!("{path}: it changes no file"))?;
        let package = changes.split('/').nth(1).context(format_args!("{path}: of no package"))?;
        let killed_by = after(KILLED_BY).map_or_else(|| format!("-p {package}"), str::to_owned);
        Ok(Self {
            name: name.to_owned(),
            path: path.to_owned(),
            changes: changes.to_owned(),
            killed_by: killed_by.split_whitespace().map(str::to_owned).collect(),
        })
    }

    /// The arguments of nextest before the test's name, and the name.
    pub(super) fn test(&self) -> (&[String], Option<&str>) {
        match self.killed_by.split_last() {
            Some((name, program)) if program.len() > 1 => (program, Some(name)),
            _ => (&self.killed_by, None),
        }
    }

    /// The arguments of nextest for all tests of the package.
    pub(super) fn package(&self) -> &[String] {
        let is_program = |word: &String| word == "--lib" || word == "--test";
        let end = self.killed_by.iter().position(is_program).unwrap_or(2);
        &self.killed_by[..end]
    }

    /// Whether it is killed by a model of what threads share, in a build for that alone.
    pub(super) fn is_modelled(&self) -> bool {
        self.test().1.is_some_and(|name| name.contains("models::"))
    }
}

#[cfg(test)]
mod tests {
    //! The patches are true of the code.

    use std::collections::HashSet;
    use std::process::Command;

    use super::*;

    fn root() -> &'static Path {
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
    }

    #[test]
    fn every_patch_applies_to_the_code_as_it_is() {
        let apply = |patch: Patch| {
            let mut git = Command::new("git");
            git.current_dir(root()).args(["apply", "--check", &patch.path]).output().unwrap()
        };
        let rotten: Vec<String> = Patch::read_all(root())
            .unwrap()
            .into_iter()
            .map(apply)
            .filter(|output| !output.status.success())
            .map(|output| String::from_utf8_lossy(&output.stderr).into_owned())
            .collect();
        assert!(rotten.is_empty(), "make these patches anew:\n{}", rotten.join(""));
    }

    #[test]
    fn every_patch_names_a_test_that_exists() {
        // `fn name`, or `name: ..` in what a macro makes tests of.
        let words = git(root(), &["grep", "-hoE", "^ *(fn )?[a-z0-9_]+", "--", "*.rs"]).unwrap();
        let words: HashSet<&str> = words.split_whitespace().collect();
        for patch in Patch::read_all(root()).unwrap() {
            let name = patch.test().1.unwrap_or_else(|| panic!("{}: no {KILLED_BY}", patch.path));
            let exists = words.contains(name.rsplit("::").next().unwrap());
            let is_file_of_python = patch.package().contains(&"rmm-py".to_owned());
            assert!(exists || is_file_of_python, "{}: there is no test {name}", patch.path);
        }
    }

    #[test]
    fn the_head_of_a_patch_says_what_to_run() {
        let parse = |head: &str| {
            let text = format!("It breaks.\n{head}\n--- a/crates/a/x\n+++ b/crates/a/x\n");
            Patch::parse("xtask/mutants/heap/m.patch", &text).unwrap()
        };
        let patch = parse("\nKilled-by: -p b --test suite pool::t\n");
        assert_eq!((&*patch.name, &*patch.changes), ("heap/m", "crates/a/x"));
        assert_eq!(patch.package(), ["-p", "b"]);
        assert_eq!(patch.test(), (&patch.killed_by[..4], Some("pool::t")));
        assert!(!patch.is_modelled());
        assert!(parse("Killed-by: -p b --lib cell::models::t").is_modelled());
        let unknown = parse("");
        assert_eq!((unknown.test().1, unknown.package().join(" ")), (None, "-p a".to_owned()));
        assert!(Patch::parse("m.patch", "It breaks.").is_err());
    }
}
