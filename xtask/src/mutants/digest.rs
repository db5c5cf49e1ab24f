//! Digests of everything that a verdict depends on.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::killer::Killer;
use super::mutant::Mutant;
use crate::cargo::stdout_of;
use crate::error::{Context as _, Result};
use crate::metadata::{DependencyKind, Metadata, Workspace as _};

/// What every package depends on.
const SHARED: [&str; 3] = ["Cargo.toml", "Cargo.lock", ".config/nextest.toml"];

/// Digests of the packages of a workspace.
#[derive(Debug)]
pub(super) struct Digests {
    root: PathBuf,
    metadata: Metadata,
    /// Of the compiler and of what every package depends on.
    base: u64,
    /// Of a package and all of the workspace that its tests are built from.
    packages: BTreeMap<String, u64>,
}

impl Digests {
    /// Those of the workspace in `root`, whose packages lie where `metadata` says of another copy
    /// of it.
    pub(super) fn new(root: &Path, metadata: Metadata) -> Result<Self> {
        let mut hasher = DefaultHasher::new();
        stdout_of(Command::new("rustc").arg("-vV"))?.hash(&mut hasher);
        for file in SHARED {
            fs::read(root.join(file)).context(file)?.hash(&mut hasher);
        }
        Ok(Self {
            root: root.to_path_buf(),
            metadata,
            base: hasher.finish(),
            packages: BTreeMap::new(),
        })
    }

    /// Of the mutant, and of the test that killed it with all that is compiled into it.
    pub(super) fn of(&mut self, mutant: &Mutant, killer: &Killer) -> Result<u64> {
        let mut hasher = DefaultHasher::new();
        (mutant.file, mutant.original, mutant.replacement).hash(&mut hasher);
        self.package(killer.package())?.hash(&mut hasher);
        Ok(hasher.finish())
    }

    fn package(&mut self, name: &str) -> Result<u64> {
        if let Some(digest) = self.packages.get(name) {
            return Ok(*digest);
        }
        let mut hasher = DefaultHasher::new();
        self.base.hash(&mut hasher);
        for folder in tested_with(&self.metadata, name) {
            hash_files(&self.root.join(folder), &mut hasher)?;
        }
        let digest = hasher.finish();
        self.packages.insert(name.to_owned(), digest);
        Ok(digest)
    }
}

/// The folders of a package and of those of the workspace that its tests are built with, below the
/// workspace's folder.
fn tested_with(metadata: &Metadata, name: &str) -> BTreeSet<PathBuf> {
    let mut folders = BTreeSet::new();
    let mut found: BTreeSet<&str> = [name].into();
    let mut left = vec![name];
    while let Some(next) = left.pop() {
        let Some(package) = metadata.member(next) else { continue };
        folders.insert(metadata.below_root(package).to_path_buf());
        // What only tests need matters for the package whose tests run.
        let needed = |kind| next == name || kind != DependencyKind::Development;
        left.extend(
            package
                .dependencies
                .iter()
                .filter(|dependency| needed(dependency.kind) && dependency.path.is_some())
                .map(|dependency| dependency.name.as_str())
                .filter(|dependency| found.insert(dependency)),
        );
    }
    folders
}

fn hash_files(folder: &Path, hasher: &mut DefaultHasher) -> Result<()> {
    let read = fs::read_dir(folder).context(folder.display())?;
    let entries = read.map(|entry| Ok(entry.context(folder.display())?.path()));
    let mut paths = entries.collect::<Result<Vec<_>>>()?;
    paths.sort_unstable();
    for path in paths {
        if path.is_dir() {
            hash_files(&path, hasher)?;
        } else {
            path.hash(hasher);
            fs::read(&path).context(path.display())?.hash(hasher);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    //! What changes a digest, and what does not.

    use serde_json::json;

    use super::*;
    use crate::metadata::tests::metadata_of;

    const MUTANT: Mutant =
        Mutant { name: "m", file: "b/x.rs", original: "x", replacement: "y", breaks: "" };

    /// Package `a` needs `b`, `b` needs `c` for its tests; `d` stands alone.
    fn packages() -> Metadata {
        metadata_of(json!([
            {"name": "a", "dependencies": [{"name": "b", "path": "/w/b"}]},
            {"name": "b", "dependencies": [{"name": "c", "path": "/w/c", "kind": "dev"}]},
            {"name": "c"},
            {"name": "d"},
        ]))
    }

    #[test]
    fn a_digest_changes_with_what_is_compiled_into_the_test_and_with_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for file in SHARED.into_iter().chain(["a/x", "b/x.rs", "b/tests/x", "c/x", "d/x"]) {
            fs::create_dir_all(root.join(file).parent().unwrap()).unwrap();
            fs::write(root.join(file), "1").unwrap();
        }
        let of = |mutant: &Mutant, killer: &str| {
            let killer = Killer::parse(killer).unwrap();
            Digests::new(root, packages()).unwrap().of(mutant, &killer).unwrap()
        };
        let before = [of(&MUTANT, "a t"), of(&MUTANT, "b::suite t")];
        assert_ne!(before[0], of(&Mutant { replacement: "z", ..MUTANT }, "a t"));
        for (file, changes) in [
            ("d/x", [false, false]),
            ("a/x", [true, false]),
            ("b/tests/x", [true, true]),
            ("c/x", [false, true]),
            ("Cargo.lock", [true, true]),
        ] {
            fs::write(root.join(file), "2").unwrap();
            let after = [of(&MUTANT, "a t"), of(&MUTANT, "b::suite t")];
            assert_eq!([0, 1].map(|i| before[i] != after[i]), changes, "{file}");
            fs::write(root.join(file), "1").unwrap();
        }
    }
}
