//! Failures that are expected: a pattern and a reason on each line of a list.
//!
//! A pattern is the name of a test, in which `*` stands for any text:
//!
//! ```text
//! rmm/PROGRAM/Suite.Test               a test of the checkout
//! ours/alone/pool/Suite.Test           a typed test over a resource of ours
//! rmm/PROGRAM/(build)                  a program that does not compile
//! ```

use std::fs;
use std::path::Path;

use crate::error::{Context as _, Result};

/// What is known not to work with RMM's own tests on the software driver.
const LIST: &str = "xtask/rmm-tests/expected.txt";

/// A list of expected failures.
#[derive(Debug)]
pub(super) struct Expected {
    lines: Vec<(String, String)>,
}

impl Expected {
    /// Reads the list.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or a line has no reason.
    pub(super) fn read(root: &Path) -> Result<Self> {
        Self::parse(&fs::read_to_string(root.join(LIST)).context(LIST)?)
    }

    pub(super) fn parse(text: &str) -> Result<Self> {
        let lines = text.lines().map(str::trim);
        let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        let split = |line: &str| {
            let (pattern, reason) = line
                .split_once(char::is_whitespace)
                .context(format_args!("expected failures: `{line}` has no reason"))?;
            Ok((pattern.to_owned(), reason.trim().to_owned()))
        };
        Ok(Self { lines: lines.map(split).collect::<Result<_>>()? })
    }

    /// Why the failure is expected, if it is.
    pub(super) fn reason(&self, name: &str) -> Option<&str> {
        let line = self.lines.iter().find(|(pattern, _)| matches(pattern, name))?;
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
    use crate::command::workspace_root;

    #[test]
    fn a_star_stands_for_any_text() {
        let yes = [
            ("a", "a"),
            ("*", ""),
            ("a*c", "abc"),
            ("a*c", "ac"),
            ("*b*", "abc"),
            ("a*b*c", "axbxbc"),
        ];
        let no = [("a", "ab"), ("a*c", "abcd"), ("*b", "abc"), ("ab*ba", "aba"), ("a*b*c", "acb")];
        assert!(yes.iter().all(|(pattern, text)| matches(pattern, text)));
        assert!(!no.iter().any(|(pattern, text)| matches(pattern, text)));
    }

    #[test]
    fn each_line_has_a_reason() {
        let expected = Expected::parse("# why\n\n rmm/A/*  needs a kernel\n").unwrap();
        assert_eq!(expected.reason("rmm/A/B.C"), Some("needs a kernel"));
        assert_eq!(expected.reason("rmm/B/B.C"), None);
        assert!(Expected::parse("rmm/A/*").unwrap_err().to_string().contains("no reason"));
        assert!(Expected::read(&workspace_root().unwrap()).is_ok());
    }
}
