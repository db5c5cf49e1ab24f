//! What `cargo metadata` says about the workspace and its dependencies, as plain data.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::cargo::{cargo, stdout_of};
use crate::error::{Context, Result};

/// The workspace, and, when asked for, every package it depends on.
#[derive(Debug, Deserialize)]
pub(crate) struct Metadata {
    pub(crate) packages: Vec<Package>,
    workspace_members: Vec<String>,
    workspace_default_members: Vec<String>,
    #[serde(default)]
    workspace_root: PathBuf,
}

/// One package.
#[derive(Debug, Deserialize)]
pub(crate) struct Package {
    id: String,
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) version: String,
    #[serde(default)]
    pub(crate) license: Option<String>,
    manifest_path: PathBuf,
    #[serde(default)]
    pub(crate) features: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    pub(crate) dependencies: Vec<Dependency>,
    #[serde(default)]
    targets: Vec<Target>,
    /// The registries that it may be published to; nothing means every one.
    #[serde(default)]
    publish: Option<Vec<String>>,
}

/// One line under `[dependencies]` or its like.
#[derive(Debug, Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    pub(crate) req: String,
    #[serde(default)]
    kind: Option<String>,
    #[serde(default)]
    path: Option<PathBuf>,
}

#[derive(Debug, Deserialize)]
struct Target {
    kind: Vec<String>,
}

impl Metadata {
    /// The members of the workspace only: fast, and needs no network.
    pub(crate) fn of_workspace() -> Result<Self> {
        Self::parse(&stdout_of(cargo().args(["metadata", "--format-version", "1", "--no-deps"]))?)
    }

    /// The members and all that they depend on, on any platform.
    pub(crate) fn with_dependencies() -> Result<Self> {
        Self::parse(&stdout_of(cargo().args([
            "metadata",
            "--format-version",
            "1",
            "--all-features",
        ]))?)
    }

    /// Reads the text that `cargo metadata` prints.
    pub(crate) fn parse(json: &str) -> Result<Self> {
        serde_json::from_str(json).context("reading the output of cargo metadata")
    }

    /// The packages of the workspace.
    pub(crate) fn members(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|package| self.workspace_members.contains(&package.id))
    }

    /// The package of the workspace with this name.
    pub(crate) fn member(&self, name: &str) -> Option<&Package> {
        self.members().find(|package| package.name == name)
    }

    /// The folder of a package, below that of the workspace.
    pub(crate) fn below_root<'a>(&self, package: &'a Package) -> &'a Path {
        package.folder().strip_prefix(&self.workspace_root).unwrap_or(package.folder())
    }

    /// Whether a plain `cargo build` builds this package.
    pub(crate) fn is_default_member(&self, package: &Package) -> bool {
        self.workspace_default_members.contains(&package.id)
    }
}

impl Package {
    /// Whether it may go to a registry.
    pub(crate) fn is_published(&self) -> bool {
        self.publish.as_ref().is_none_or(|registries| !registries.is_empty())
    }

    /// Whether other packages can depend on it.
    pub(crate) fn has_library(&self) -> bool {
        self.targets.iter().any(|target| target.kind.iter().any(|kind| kind == "lib"))
    }

    /// The folder of its manifest.
    pub(crate) fn folder(&self) -> &Path {
        self.manifest_path.parent().unwrap_or(Path::new("."))
    }

    /// What it can be switched on with, other than `default`.
    pub(crate) fn feature_names(&self) -> impl Iterator<Item = &str> {
        self.features.keys().map(String::as_str).filter(|name| *name != "default")
    }
}

impl Dependency {
    /// Whether it is needed only by tests, examples and benches.
    pub(crate) fn is_dev(&self) -> bool {
        self.kind.as_deref() == Some("dev")
    }

    /// Whether it is found by its folder.
    pub(crate) fn has_path(&self) -> bool {
        self.path.is_some()
    }
}

#[cfg(test)]
mod tests {
    //! What is read out of cargo's JSON.

    use super::*;

    const TWO: &str = r#"{"packages":[
        {"id":"a","name":"a","manifest_path":"/w/a/Cargo.toml","publish":[],"features":{"default":[],"x":[]},
         "targets":[{"kind":["lib"]}],
         "dependencies":[{"name":"b","req":"*","kind":"dev","path":"/w/b"},{"name":"b","req":"^1","kind":null}]},
        {"id":"b","name":"b","manifest_path":"/r/b/Cargo.toml","publish":null,"targets":[{"kind":["bin"]}]}],
        "workspace_members":["a"],"workspace_default_members":[]}"#;

    #[test]
    fn members_are_told_from_dependencies() {
        let metadata = Metadata::parse(TWO).unwrap();
        assert_eq!(metadata.members().map(|p| &p.name).collect::<Vec<_>>(), ["a"]);
        assert!(metadata.member("b").is_none());
        assert!(!metadata.is_default_member(metadata.member("a").unwrap()));
    }

    #[test]
    fn an_empty_list_of_registries_means_not_published() {
        let metadata = Metadata::parse(TWO).unwrap();
        assert_eq!(
            metadata.packages.iter().map(Package::is_published).collect::<Vec<_>>(),
            [false, true]
        );
        assert_eq!(
            metadata.packages.iter().map(Package::has_library).collect::<Vec<_>>(),
            [true, false]
        );
    }

    #[test]
    fn the_default_feature_is_no_feature_of_its_own() {
        let metadata = Metadata::parse(TWO).unwrap();
        assert_eq!(metadata.packages[0].feature_names().collect::<Vec<_>>(), ["x"]);
        let kinds: Vec<_> =
            metadata.packages[0].dependencies.iter().map(|d| (d.is_dev(), d.has_path())).collect();
        assert_eq!(kinds, [(true, true), (false, false)]);
    }

    #[test]
    fn this_workspace_can_be_read() {
        let metadata = Metadata::of_workspace().unwrap();
        let xtask = metadata.member("xtask").expect("this package is a member");
        assert!(!xtask.is_published());
        assert!(xtask.folder().join("src/main.rs").exists());
    }
}
