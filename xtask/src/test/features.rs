//! The feature sets that are compiled, besides none and all.

use crate::metadata::{Member as _, Metadata, Package};

/// Beyond this many features, each is checked alone instead of in every combination: 2^n builds
/// take too long.
const POWERSET_LIMIT: usize = 3;

/// The sets of features of one package.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Sets {
    pub(super) package: String,
    /// As arguments of `--features`.
    pub(super) between: Vec<String>,
}

/// The sets of every library that has features and that plain commands build.
pub(super) fn sets(metadata: &Metadata) -> Vec<Sets> {
    metadata
        .workspace_default_packages()
        .into_iter()
        .filter(|package| package.targets.iter().any(cargo_metadata::Target::is_lib))
        .filter(|package| package.feature_names().next().is_some())
        .map(sets_of)
        .collect()
}

fn sets_of(package: &Package) -> Sets {
    let features: Vec<&str> = package.feature_names().collect();
    let between = between_none_and_all(&features).iter().map(|set| set.join(",")).collect();
    Sets { package: package.name.to_string(), between }
}

/// Every combination of a few features, or each of many alone; without the empty set and the full
/// one.
fn between_none_and_all<'a>(features: &[&'a str]) -> Vec<Vec<&'a str>> {
    let count = features.len();
    if count > POWERSET_LIMIT {
        return features.iter().map(|feature| vec![*feature]).collect();
    }
    (1..(1_usize << count) - 1)
        .map(|bits| {
            (0..count).filter(|bit| bits >> bit & 1 == 1).map(|bit| features[bit]).collect()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    //! The sets that are chosen.

    use serde_json::json;

    use super::*;
    use crate::metadata::{self, tests::metadata_of};

    fn workspace(features: &serde_json::Value) -> Metadata {
        metadata_of(json!([{"name": "a", "features": features}]))
    }

    #[test]
    fn a_library_without_features_has_no_sets() {
        assert_eq!(sets(&workspace(&json!({}))), []);
    }

    #[test]
    fn what_lies_between_none_and_all_is_checked() {
        let sets = sets(&workspace(&json!({"default": [], "x": [], "y": []})));
        assert_eq!(sets, [Sets { package: "a".into(), between: vec!["x".into(), "y".into()] }]);
    }

    #[test]
    fn nothing_is_on_by_default_so_that_a_plain_run_is_one_without_features() {
        let metadata = metadata::read().unwrap();
        // Those that plain commands build, as in `sets`.
        for package in metadata.workspace_default_packages() {
            let default = package.features.get("default");
            assert!(default.is_none_or(Vec::is_empty), "{}: add a run without it", package.name);
        }
    }

    #[test]
    fn the_powerset_of_three_leaves_out_none_and_all() {
        assert_eq!(between_none_and_all(&["x", "y", "z"]).len(), 6);
        assert!(
            between_none_and_all(&["x"]).is_empty(),
            "one feature: none and all are everything"
        );
    }

    #[test]
    fn many_features_are_taken_one_at_a_time() {
        assert_eq!(between_none_and_all(&["a", "b", "c", "d"]), [["a"], ["b"], ["c"], ["d"]]);
    }
}
