//! The workspace as `cargo metadata` describes it.

use std::path::Path;

use cargo_metadata::MetadataCommand;
pub(crate) use cargo_metadata::{DependencyKind, Metadata, Package};

use crate::command::workspace_root;
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
mod tests {
    //! This workspace.

    use super::*;

    #[test]
    fn this_workspace_can_be_read() {
        let metadata = read().unwrap();
        let xtask = metadata.member("xtask").expect("this package is a member");
        assert!(!xtask.is_published() && metadata.member("rmm-core").unwrap().is_published());
        assert!(xtask.folder().join("src/main.rs").exists());
        assert!(metadata.member("serde").is_none(), "a dependency is not a member");
    }
}
