//! The licences of everything that we build with.

use super::Finding;
use crate::metadata::Metadata;

/// Licences that ask for no more than a notice. Another one is a decision for a person.
const ALLOWED: [&str; 14] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unicode-DFS-2016",
    "Unlicense",
    "Zlib",
];

/// Checks the licence of every package.
pub(super) fn check(metadata: &Metadata) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in &metadata.packages {
        let problem = match &package.license {
            None => Some("states no licence".to_owned()),
            Some(expression) if !is_allowed(expression) => {
                Some(format!("has the licence `{expression}`"))
            }
            Some(_) => None,
        };
        if let Some(problem) = problem {
            let text = format!(
                "`{} {}` {problem}, which is not on xtask's list",
                package.name, package.version
            );
            findings.push(Finding::new("Cargo.lock", 1, text));
        }
    }
    findings
}

/// Whether an SPDX expression can be met by allowed licences. What cannot be read is not allowed.
fn is_allowed(expression: &str) -> bool {
    // Old manifests write `/` for "or".
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut words: Words<'_> = spaced.split_whitespace().peekable();
    any_of(&mut words) == Some(true) && words.next().is_none()
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

/// `a OR b OR ...`
fn any_of(words: &mut Words<'_>) -> Option<bool> {
    let mut allowed = all_of(words)?;
    while words.next_if_eq(&"OR").is_some() {
        // Not `||`: the rest must be read even if the answer is known.
        allowed |= all_of(words)?;
    }
    Some(allowed)
}

/// `a AND b AND ...`, which binds tighter than `OR`
fn all_of(words: &mut Words<'_>) -> Option<bool> {
    let mut allowed = one(words)?;
    while words.next_if_eq(&"AND").is_some() {
        allowed &= one(words)?;
    }
    Some(allowed)
}

/// A licence, with or without an exception, or an expression in brackets.
fn one(words: &mut Words<'_>) -> Option<bool> {
    match words.next()? {
        "(" => {
            let allowed = any_of(words)?;
            words.next_if_eq(&")").map(|_| allowed)
        }
        ")" | "OR" | "AND" | "WITH" => None,
        licence if words.next_if_eq(&"WITH").is_some() => {
            let with = format!("{licence} WITH {}", words.next()?);
            Some(ALLOWED.contains(&with.as_str()))
        }
        licence => Some(ALLOWED.contains(&licence)),
    }
}

#[cfg(test)]
mod tests {
    //! Expressions as they stand in manifests.

    use super::*;

    #[test]
    fn one_allowed_choice_is_enough() {
        for expression in [
            "MIT",
            "MIT OR Apache-2.0",
            "MIT/Apache-2.0",
            "GPL-3.0-only OR MIT",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR GPL-2.0-only",
            "MIT OR Apache-2.0 OR LGPL-2.1-or-later",
        ] {
            assert!(is_allowed(expression), "{expression}");
        }
    }

    #[test]
    fn every_part_that_must_be_met_counts() {
        for expression in [
            "GPL-3.0-only",
            "MIT AND GPL-3.0-only",
            "(MIT OR Apache-2.0) AND MPL-2.0",
            "GPL-2.0-only WITH Classpath-exception-2.0",
            "MIT AND GPL-3.0-only OR MPL-2.0",
        ] {
            assert!(!is_allowed(expression), "{expression}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_not_allowed() {
        for expression in ["", "MIT OR", "(MIT", "MIT Apache-2.0", "MIT)", "OR", "MIT WITH"] {
            assert!(!is_allowed(expression), "{expression:?}");
        }
    }

    #[test]
    fn cargo_deny_is_told_the_same_list() {
        let deny = include_str!("../../../deny.toml");
        let (_, list) = deny.split_once("\nallow = [").unwrap();
        let (list, _) = list.split_once(']').unwrap();
        let listed: Vec<&str> = list
            .split(',')
            .map(|licence| licence.trim().trim_matches('"'))
            .filter(|licence| !licence.is_empty())
            .collect();
        assert_eq!(listed, ALLOWED);
    }

    #[test]
    fn a_package_is_named_with_its_licence() {
        let metadata = Metadata::parse(
            r#"{"packages":[
            {"id":"1","name":"a","version":"1.2.3","license":"GPL-3.0-only","manifest_path":"/r/a/Cargo.toml"},
            {"id":"2","name":"b","version":"4.5.6","license":null,"manifest_path":"/r/b/Cargo.toml"},
            {"id":"3","name":"c","version":"1.0.0","license":"MIT","manifest_path":"/r/c/Cargo.toml"}],
            "workspace_members":[],"workspace_default_members":[]}"#,
        )
        .unwrap();
        let texts: Vec<_> = check(&metadata).iter().map(ToString::to_string).collect();
        let expected = [
            "Cargo.lock:1: `a 1.2.3` has the licence `GPL-3.0-only`, which is not on xtask's list",
            "Cargo.lock:1: `b 4.5.6` states no licence, which is not on xtask's list",
        ];
        assert_eq!(texts, expected);
    }
}
