//! The direction of dependencies between crates: downwards only.

use std::path::Path;

use super::finding::Finding;
use super::manifests::manifest_of;
use crate::metadata::{DependencyKind, Member as _, Metadata, Package, Workspace as _};

/// The crates that are published, from the bottom up. A crate may depend on crates of the rows
/// before its own.
const LAYERS: [&[&str]; 8] = [
    &["rmm-sys", "rmm-sim-macros"],
    &["rmm-sim", "rmm-core"],
    &["rmm-resources", "rmm-sim-cuda"],
    &["rmm-adaptors"],
    &["rmm-containers", "rmm-spec"],
    &["rmm-async", "rmm-report"],
    &["rmm-rs"],
    &["rmm-cli", "rmm-preload", "rmm-capi"],
];

/// The software device is chosen by programs and tests, never by a library.
const SOFTWARE_DEVICE: &str = "rmm-sim";
const MAY_USE_THE_SOFTWARE_DEVICE: [&str; 5] =
    ["rmm-cli", "rmm-benches", "rmm-conformance", "rmm-sim-cuda", "rmm-sim-driver"];

/// Programs that stay here and use the crates as their users do.
const CONSUMER: &str = "rmm-consumer-";

/// A published crate that may stand beside the layers: it converts handles of one foreign crate.
const BESIDE: &str = "rmm-interop-";

/// Checks the normal and build dependencies of the workspace's members; those of tests are free.
pub(super) fn check(root: &Path, metadata: &Metadata) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in &metadata.packages {
        let mut find =
            |text: String| findings.push(Finding::new(manifest_of(root, package), 1, text));
        if let Some(text) = check_known(package) {
            find(text);
        }
        for dependency in &package.dependencies {
            let is_normal = dependency.kind != DependencyKind::Development;
            if is_normal && metadata.member(&dependency.name).is_some() {
                check_edge(&package.name, &dependency.name).into_iter().for_each(&mut find);
            }
        }
    }
    findings
}

fn check_known(package: &Package) -> Option<String> {
    let name = &package.name;
    let known = rank(name).is_some() || name.starts_with(BESIDE);
    (package.is_published() && !known)
        .then(|| format!("`{name}` is published, but has no place in the layers: add it to xtask/src/tidy/layers.rs"))
}

fn check_edge(from: &str, to: &str) -> Vec<String> {
    let mut findings = Vec::new();
    if let Some(from_rank) = rank(from) {
        match rank(to) {
            None => findings.push(format!(
                "`{from}` must not depend on `{to}`, which is not one of the layers"
            )),
            Some(to_rank) if to_rank >= from_rank => {
                findings.push(format!(
                    "`{from}` must not depend on `{to}`: dependencies point downwards only"
                ));
            }
            Some(_) => {}
        }
    }
    let may_use_it = MAY_USE_THE_SOFTWARE_DEVICE.contains(&from) || from.starts_with(CONSUMER);
    if to == SOFTWARE_DEVICE && !may_use_it {
        let programs = MAY_USE_THE_SOFTWARE_DEVICE.join(", ");
        findings.push(format!(
            "`{from}` must not depend on `{to}` outside its tests; only {programs} and the consumers may"
        ));
    }
    findings
}

fn rank(name: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&name))
}

#[cfg(test)]
mod tests {
    //! Edges that point the wrong way.

    use serde_json::{Value, json};

    use super::*;
    use crate::metadata::tests::metadata_of;

    /// Two members, `from` depending on `to`.
    fn findings(from: &str, to: &str, kind: &str, publish: &str) -> Vec<String> {
        let (kind, publish): (Value, Value) =
            (serde_json::from_str(kind).unwrap(), serde_json::from_str(publish).unwrap());
        let dependency = json!({"name": to, "req": "^0.1", "kind": kind, "path": "/w/x"});
        let metadata = metadata_of(json!([
            {"name": from, "publish": publish, "dependencies": [dependency]},
            {"name": to, "publish": []},
        ]));
        check(Path::new("/w"), &metadata).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn downwards_is_right_and_upwards_is_wrong() {
        assert!(findings("rmm-adaptors", "rmm-core", "null", "null").is_empty());
        let expected = "rmm-core/Cargo.toml:1: `rmm-core` must not depend on `rmm-adaptors`: \
                        dependencies point downwards only";
        assert_eq!(findings("rmm-core", "rmm-adaptors", "null", "null"), [expected]);
        assert_eq!(findings("rmm-core", "rmm-adaptors", "\"build\"", "null").len(), 1);
    }

    #[test]
    fn tests_may_depend_on_anything() {
        assert!(findings("rmm-core", "rmm-sim", "\"dev\"", "null").is_empty());
    }

    #[test]
    fn no_library_depends_on_the_software_device() {
        assert_eq!(findings("rmm-adaptors", "rmm-sim", "null", "null").len(), 1);
        assert_eq!(
            findings("rmm-core", "rmm-sim", "null", "null").len(),
            2,
            "nor is it below rmm-core"
        );
        assert_eq!(findings("rmm-interop-x", "rmm-sim", "null", "[]").len(), 1);
        assert!(findings("rmm-cli", "rmm-sim", "null", "null").is_empty());
        assert!(findings("rmm-benches", "rmm-sim", "null", "[]").is_empty());
        assert!(findings("rmm-consumer-x", "rmm-sim", "null", "[]").is_empty());
    }

    #[test]
    fn a_layer_depends_on_no_crate_beside_the_layers() {
        assert_eq!(findings("rmm-core", "rmm-conformance", "null", "null").len(), 1);
        assert!(findings("rmm-conformance", "rmm-core", "null", "[]").is_empty());
    }

    #[test]
    fn a_published_crate_has_a_place() {
        assert_eq!(findings("rmm-new", "rmm-core", "null", "null").len(), 1);
        assert!(findings("rmm-new", "rmm-core", "null", "[]").is_empty());
        assert!(findings("rmm-interop-cudarc", "rmm-core", "null", "null").is_empty());
    }
}
