//! The direction of dependencies between crates: downwards only.

use std::path::Path;

use super::files::below;
use super::finding::Finding;
use crate::metadata::{DependencyKind, Member as _, Metadata, Package, Workspace as _};

/// The crates that are published, from the bottom up. A crate may depend on crates of the rows
/// before its own.
const LAYERS: [&[&str]; 8] = [
    &["rmm-sys", "rmm-sim-macros"],
    &["rmm-sim", "rmm-core"],
    &["rmm-resources", "rmm-sim-cuda"],
    &["rmm-adaptors", "rmm-lease"],
    &["rmm-containers", "rmm-spec"],
    &["rmm-async", "rmm-report"],
    &["rmm-rs"],
    &["rmm-cli", "rmm-preload", "rmm-capi"],
];

/// The software device is chosen by programs and tests, never by a library.
const SOFTWARE_DEVICE: &str = "rmm-sim";
const MAY_USE_THE_SOFTWARE_DEVICE: [&str; 5] =
    ["rmm-cli", "rmm-benches", "rmm-conformance", "rmm-sim-cuda", "rmm-sim-driver"];

/// A published crate that may stand beside the layers: it converts handles of one foreign crate.
const BESIDE: &str = "rmm-interop-";

/// Checks the normal and build dependencies of the workspace's members; those of tests are free.
pub(super) fn check(root: &Path, metadata: &Metadata) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in &metadata.packages {
        let manifest = below(root, &package.folder().join("Cargo.toml"));
        let mut find = |text: String| findings.push(Finding::new(&manifest, 1, text));
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
    if to == SOFTWARE_DEVICE && !MAY_USE_THE_SOFTWARE_DEVICE.contains(&from) {
        let programs = MAY_USE_THE_SOFTWARE_DEVICE.join(", ");
        findings.push(format!(
            "`{from}` must not depend on `{to}` outside its tests; only {programs} may"
        ));
    }
    findings
}

fn rank(name: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&name))
}

#[cfg(test)]
mod tests {
    //! Edges that point the wrong way. That those of tests count for nothing shows in this
    //! workspace: its libraries test on the software device.

    use super::*;
    use crate::metadata;

    #[test]
    fn downwards_is_right_and_upwards_is_wrong() {
        assert_eq!(check_edge("rmm-adaptors", "rmm-core"), [""; 0]);
        let expected = "`rmm-core` must not depend on `rmm-adaptors`: dependencies point \
                        downwards only";
        assert_eq!(check_edge("rmm-core", "rmm-adaptors"), [expected]);
        assert_eq!(check_edge("rmm-core", "rmm-conformance").len(), 1, "beside the layers");
        assert_eq!(check_edge("rmm-conformance", "rmm-core"), [""; 0]);
    }

    #[test]
    fn no_library_depends_on_the_software_device() {
        assert_eq!(check_edge("rmm-adaptors", "rmm-sim").len(), 1);
        assert_eq!(check_edge("rmm-core", "rmm-sim").len(), 2, "nor is it below rmm-core");
        assert_eq!(check_edge("rmm-interop-x", "rmm-sim").len(), 1);
        for program in ["rmm-cli", "rmm-benches"] {
            assert_eq!(check_edge(program, "rmm-sim"), [""; 0]);
        }
    }

    #[test]
    fn a_published_crate_has_a_place() {
        let metadata = metadata::read().unwrap();
        let mut core = metadata.member("rmm-core").unwrap().clone();
        assert_eq!(check_known(&core), None);
        core.name = "rmm-new".parse().unwrap();
        assert!(check_known(&core).is_some());
        core.publish = Some(Vec::new());
        assert_eq!(check_known(&core), None);
    }
}
