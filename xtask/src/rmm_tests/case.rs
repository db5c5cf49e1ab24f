//! A test that has a result, whatever ran it.

use std::time::Duration;

/// How a test went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Outcome {
    Passed,
    Failed,
    Skipped,
}

/// A test that has a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Case {
    /// Within its program: `Suite.Test`, or `test[parameters]`.
    pub(super) name: String,
    pub(super) outcome: Outcome,
    /// What it printed, if it failed; the reason, if it was skipped.
    pub(super) text: String,
    pub(super) took: Duration,
}

impl Case {
    /// A failure of something that is no test, such as a program as a whole.
    pub(super) fn failed(name: &str, text: &str) -> Self {
        let (name, text) = (name.to_owned(), text.trim().to_owned());
        Self { name, outcome: Outcome::Failed, text, took: Duration::ZERO }
    }

    /// A failure of a program as a whole.
    pub(super) fn program_failed(text: &str) -> Self {
        Self::failed("(program)", text)
    }
}
