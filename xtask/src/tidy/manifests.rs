//! What a registry asks of the manifests of published crates.

use std::path::Path;

use super::Finding;
use super::files::below;
use crate::metadata::{Metadata, Package};

/// Checks every published member: each of its path dependencies needs a version too, because the
/// path means nothing to who gets the crate from a registry. Those of tests alone are left out of
/// the published manifest, and are free.
pub(super) fn check(root: &Path, metadata: &Metadata) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in metadata.members().filter(|package| package.is_published()) {
        for dependency in &package.dependencies {
            if dependency.has_path() && dependency.req == "*" && !dependency.is_dev() {
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

    use super::*;

    fn findings(req: &str, kind: &str, publish: &str) -> Vec<String> {
        let json = format!(
            r#"{{"packages":[{{"id":"1","name":"a","manifest_path":"/w/crates/a/Cargo.toml","publish":{publish},
            "dependencies":[{{"name":"b","req":"{req}","kind":{kind},"path":"/w/crates/b"}},
                            {{"name":"c","req":"*","kind":null}}]}}],
            "workspace_members":["1"],"workspace_default_members":[]}}"#
        );
        let metadata = Metadata::parse(&json).unwrap();
        check(Path::new("/w"), &metadata).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_path_alone_is_not_enough_for_a_published_crate() {
        let expected = ["crates/a/Cargo.toml:1: the path dependency `b` has no version"];
        assert_eq!(findings("*", "null", "null"), expected);
        assert!(findings("^0.1", "null", "null").is_empty());
    }

    #[test]
    fn it_is_enough_for_tests_and_for_crates_that_stay_here() {
        assert!(findings("*", "\"dev\"", "null").is_empty());
        assert!(findings("*", "null", "[]").is_empty());
    }
}
