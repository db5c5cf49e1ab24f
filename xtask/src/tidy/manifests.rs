//! Requirements of a registry on the manifests of published crates.

use std::path::Path;

use super::files::below;
use super::finding::Finding;
use crate::metadata::{DependencyKind, Member as _, Metadata, Package};

/// Checks every published member: each of its path dependencies needs a version too, because the
/// path means nothing in a crate from a registry. Those of tests alone are left out of
/// the published manifest, and are free.
pub(super) fn check(root: &Path, metadata: &Metadata) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in metadata.packages.iter().filter(|package| package.is_published()) {
        for dependency in &package.dependencies {
            let is_published = dependency.kind != DependencyKind::Development;
            let has_version = !dependency.req.comparators.is_empty();
            if is_published && dependency.path.is_some() && !has_version {
                let text = format!("the path dependency `{}` has no version", dependency.name);
                findings.push(Finding::new(manifest_of(root, package), 1, text));
            }
        }
    }
    findings
}

/// The manifest of a package, as seen from the workspace's folder.
pub(super) fn manifest_of(root: &Path, package: &Package) -> String {
    below(root, &package.folder().join("Cargo.toml"))
}

#[cfg(test)]
mod tests {
    //! Manifests that a registry would refuse.

    use serde_json::{Value, json};

    use super::*;
    use crate::metadata::tests::metadata_of;

    fn findings(req: &str, kind: &str, publish: &str) -> Vec<String> {
        let (kind, publish): (Value, Value) =
            (serde_json::from_str(kind).unwrap(), serde_json::from_str(publish).unwrap());
        let dependencies =
            json!([{"name": "b", "req": req, "kind": kind, "path": "/w/b"}, {"name": "c"}]);
        let metadata =
            metadata_of(json!([{"name": "a", "publish": publish, "dependencies": dependencies}]));
        check(Path::new("/w"), &metadata).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_path_alone_is_not_enough_for_a_published_crate() {
        let expected = ["a/Cargo.toml:1: the path dependency `b` has no version"];
        assert_eq!(findings("*", "null", "null"), expected);
        assert!(findings("^0.1", "null", "null").is_empty());
    }

    #[test]
    fn it_is_enough_for_tests_and_for_crates_that_stay_here() {
        assert!(findings("*", "\"dev\"", "null").is_empty());
        assert!(findings("*", "null", "[]").is_empty());
    }
}
