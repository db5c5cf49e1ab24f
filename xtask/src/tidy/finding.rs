//! Findings of a check.

use std::fmt;
use std::path::PathBuf;

/// Something that is not as it should be, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    /// The file, below the workspace's folder.
    pub(super) file: PathBuf,
    /// Its line, from 1.
    pub(super) line: usize,
    /// What is wrong, and what to do.
    text: String,
}

impl Finding {
    pub(super) fn new(file: impl Into<PathBuf>, line: usize, text: impl Into<String>) -> Self {
        Self { file: file.into(), line, text: text.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file.display(), self.line, self.text)
    }
}
