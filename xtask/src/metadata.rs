//! What `cargo metadata` says about the workspace.

use std::path::Path;

use cargo_metadata::MetadataCommand;
pub(crate) use cargo_metadata::{DependencyKind, Metadata, Package};

use crate::cargo::workspace_root;
use crate::error::{Context as _, Result};

/// Reads the members of the workspace, without what they depend on: fast, and without network.
pub(crate) fn read() -> Result<Metadata> {
    // In the folder of a member, that one alone is a default member.
    let mut command = MetadataCommand::new();
    command.current_dir(workspace_root()?).no_deps().exec().context("cargo metadata")
}

/// Questions about a workspace.
pub(crate) trait Workspace {
    /// The member with this name.
    fn member(&self, name: &str) -> Option<&Package>;
}

impl Workspace for Metadata {
    fn member(&self, name: &str) -> Option<&Package> {
        self.packages.iter().find(|package| package.name == name)
    }
}

/// Questions about a package.
pub(crate) trait Member {
    /// Whether it may be published to a registry.
    fn is_published(&self) -> bool;

    /// The folder of its manifest.
    fn folder(&self) -> &Path;
}

impl Member for Package {
    fn is_published(&self) -> bool {
        self.publish.as_ref().is_none_or(|registries| !registries.is_empty())
    }

    fn folder(&self) -> &Path {
        self.manifest_path.parent().map_or(Path::new("."), |folder| folder.as_std_path())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    //! What is read, and metadata of workspaces that do not exist.

    use serde_json::{Value, json};

    use super::*;

    /// The metadata of a workspace in `/w` of these packages, of which only the keys that matter
    /// are given.
    pub(crate) fn metadata_of(mut packages: Value) -> Metadata {
        let mut names = Vec::new();
        for package in packages.as_array_mut().unwrap() {
            let name = package["name"].clone();
            let library = json!({"name": name, "kind": ["lib"], "src_path": ""});
            let manifest = format!("/w/{}/Cargo.toml", name.as_str().unwrap());
            let rest = json!({"id": name, "version": "0.1.0", "dependencies": [], "features": {},
                              "targets": [library], "manifest_path": manifest});
            complete(package, &rest);
            for dependency in package["dependencies"].as_array_mut().unwrap() {
                let rest = json!({"req": "*", "kind": null, "optional": false, "features": [],
                                  "uses_default_features": true});
                complete(dependency, &rest);
            }
            names.push(name);
        }
        let metadata = json!({"packages": packages, "workspace_members": names,
            "workspace_default_members": names, "workspace_root": "/w", "target_directory": "/w/t",
            "version": 1});
        serde_json::from_value(metadata).unwrap()
    }

    fn complete(value: &mut Value, rest: &Value) {
        for (key, default) in rest.as_object().unwrap() {
            if value.get(key).is_none() {
                value[key] = default.clone();
            }
        }
    }

    #[test]
    fn an_empty_list_of_registries_means_not_published() {
        let metadata = metadata_of(json!([{"name": "a", "publish": []}, {"name": "b"}]));
        let published: Vec<_> = metadata.packages.iter().map(Member::is_published).collect();
        assert_eq!(published, [false, true]);
    }

    #[test]
    fn this_workspace_can_be_read() {
        let metadata = read().unwrap();
        let xtask = metadata.member("xtask").expect("this package is a member");
        assert!(!xtask.is_published());
        assert!(xtask.folder().join("src/main.rs").exists());
        assert!(metadata.member("serde").is_none(), "a dependency is not a member");
    }
}
