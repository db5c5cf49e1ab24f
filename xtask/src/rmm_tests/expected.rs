//! Failures that are expected, each with its reason.
//!
//! A list has a pattern and a reason on each line. A pattern is the id of a test, in which `*`
//! stands for any text:
//!
//! ```text
//! rmm/PROGRAM/Suite.Test               a test of the checkout
//! ours/alone/pool/Suite.Test           a typed test over a resource of ours
//! build/mr/pool_mr_tests.cpp           a source that does not compile
//! ```

use std::path::Path;

use crate::error::{Context as _, Result};

/// What is known not to work with RMM's own tests on the software driver.
const BUILT_IN: &str = include_str!("../../rmm-tests/expected.txt");

/// A list of expected failures.
#[derive(Debug, Default)]
pub(super) struct Expected {
    lines: Vec<(String, String)>,
}

impl Expected {
    /// The list of this program and, if there is one, the user's.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, or a line has no reason.
    pub(super) fn read(file: Option<&Path>) -> Result<Self> {
        let mut expected = Self::parse(BUILT_IN).context("the list of expected failures")?;
        if let Some(file) = file {
            let text = std::fs::read_to_string(file).context(file.display())?;
            expected.lines.extend(Self::parse(&text).context(file.display())?.lines);
        }
        Ok(expected)
    }

    fn parse(text: &str) -> Result<Self> {
        let mut lines = Vec::new();
        for line in text.lines().map(str::trim) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (pattern, reason) = line
                .split_once(char::is_whitespace)
                .context(format_args!("`{line}` has no reason"))?;
            lines.push((pattern.to_owned(), reason.trim().to_owned()));
        }
        Ok(Self { lines })
    }

    /// Why the failure is expected, if it is.
    pub(super) fn reason(&self, id: &str) -> Option<&str> {
        let line = self.lines.iter().find(|(pattern, _)| matches(pattern, id))?;
        Some(&line.1)
    }
}

/// Whether a text matches a pattern in which `*` stands for any text.
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(first) else { return false };
    let parts: Vec<&str> = rest.split('*').collect();
    let (last, middle) = parts.split_last().expect("a split has at least one part");
    for part in middle {
        let Some(found) = text.find(part) else { return false };
        text = &text[found + part.len()..];
    }
    text.ends_with(last)
}

#[cfg(test)]
mod tests {
    //! Patterns and lists.

    use super::*;

    #[test]
    fn a_star_stands_for_any_text() {
        let yes = [
            ("a", "a"),
            ("*", ""),
            ("*", "ab"),
            ("a*c", "abc"),
            ("a*c", "ac"),
            ("*b*", "abc"),
            ("a*b*c", "axbxbc"),
        ];
        let no = [("a", "ab"), ("a*c", "abcd"), ("*b", "abc"), ("ab*ba", "aba"), ("a*b*c", "acb")];
        for (pattern, text) in yes {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in no {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
    }

    #[test]
    fn each_line_has_a_reason() {
        let expected = Expected::parse("# why\n\n rmm/A/*  needs a kernel\n").unwrap();
        assert_eq!(expected.reason("rmm/A/B.C"), Some("needs a kernel"));
        assert_eq!(expected.reason("rmm/B/B.C"), None);
        assert!(Expected::parse("rmm/A/*").unwrap_err().to_string().contains("no reason"));
    }

    #[test]
    fn the_built_in_list_can_be_read() {
        assert!(Expected::read(None).is_ok());
    }
}
