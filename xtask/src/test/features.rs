//! Which sets of features are tested, and which only compiled.

use crate::metadata::{Metadata, Package};

/// Beyond this many features, each is checked alone instead of in every combination: 2^n builds help nobody.
const POWERSET_LIMIT: usize = 3;

/// One set of features of one package.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Variant {
    /// For the table.
    pub(super) name: String,
    /// The arguments that choose it.
    pub(super) selection: Vec<String>,
    /// Whether its tests run, or it is only compiled.
    pub(super) run_tests: bool,
    /// Whether the tests of its documentation run by themselves: with all features they run for all packages at once.
    pub(super) run_doctests: bool,
    /// Why there is nothing to do.
    pub(super) skipped: Option<&'static str>,
}

/// The sets of features of every library that plain commands build.
pub(super) fn variants(metadata: &Metadata) -> Vec<Variant> {
    metadata
        .members()
        .filter(|package| package.has_library() && metadata.is_default_member(package))
        .flat_map(variants_of)
        .collect()
}

fn variants_of(package: &Package) -> Vec<Variant> {
    let features: Vec<&str> = package.feature_names().collect();
    let name = &package.name;
    if features.is_empty() {
        let skipped = Some("it has no features");
        return vec![Variant {
            name: format!("{name}, feature sets"),
            selection: Vec::new(),
            run_tests: false,
            run_doctests: false,
            skipped,
        }];
    }
    let with = |flags: &[&str]| {
        ["-p", name].iter().chain(flags).map(|arg| (*arg).to_owned()).collect::<Vec<_>>()
    };
    let tested = |what: &str, flag: &str, run_doctests: bool| Variant {
        name: format!("{name}, {what} features"),
        selection: with(&[flag]),
        run_tests: true,
        run_doctests,
        skipped: None,
    };
    let none = tested("no", "--no-default-features", true);
    let mut variants = vec![none, tested("all", "--all-features", false)];
    variants.extend(between_none_and_all(&features).into_iter().map(|set| {
        let list = set.join(",");
        Variant {
            name: format!("{name}, check {list}"),
            selection: with(&["--no-default-features", "--features", &list]),
            run_tests: false,
            run_doctests: false,
            skipped: None,
        }
    }));
    variants
}

/// Every combination of a few features, or each of many alone; without the empty set and the full one.
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

    use super::*;

    fn workspace(features: &str) -> Metadata {
        let json = format!(
            r#"{{"packages":[{{"id":"a","name":"a","manifest_path":"/a/Cargo.toml","targets":[{{"kind":["lib"]}}],
            "features":{features}}}],"workspace_members":["a"],"workspace_default_members":["a"]}}"#
        );
        Metadata::parse(&json).unwrap()
    }

    #[test]
    fn a_library_without_features_is_skipped() {
        let variants = variants(&workspace("{}"));
        assert_eq!(variants.len(), 1);
        assert_eq!(variants[0].skipped, Some("it has no features"));
    }

    #[test]
    fn none_and_all_are_tested_and_the_rest_is_checked() {
        let variants = variants(&workspace(r#"{"default":["x"],"x":[],"y":[]}"#));
        let shown: Vec<_> =
            variants.iter().map(|v| (v.selection.join(" "), v.run_tests, v.run_doctests)).collect();
        let expected = [
            ("-p a --no-default-features", true, true),
            ("-p a --all-features", true, false),
            ("-p a --no-default-features --features x", false, false),
            ("-p a --no-default-features --features y", false, false),
        ];
        assert_eq!(shown, expected.map(|(set, tests, docs)| (set.to_owned(), tests, docs)));
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
