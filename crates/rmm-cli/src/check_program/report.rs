//! The reports that processes leave, one file each. `rmm-sim-driver` writes them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// What one process found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Found {
    /// The process's number.
    pub process: String,
    /// Driver calls.
    pub calls: u64,
    /// Violations, each with its call sites.
    pub violations: Vec<String>,
    /// Kernels that were not found.
    pub missing: Vec<String>,
    /// Objects that were not released.
    pub leaks: Vec<String>,
    /// Whether the report has its end.
    pub is_whole: bool,
}

/// A report that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the report {}: {error}", .path.display())]
pub struct Unreadable {
    path: PathBuf,
    #[source]
    error: io::Error,
}

/// The reports in a folder, by process.
pub(super) fn read_all(folder: &Path) -> Result<Vec<Found>, Unreadable> {
    let failed = |path: &Path, error| Unreadable { path: path.to_owned(), error };
    let entries = fs::read_dir(folder).map_err(|error| failed(folder, error))?;
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| failed(folder, error))?.path();
        let text = fs::read_to_string(&path).map_err(|error| failed(&path, error))?;
        let process = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        found.push(Found { process, ..parse(&text) });
    }
    found.sort_by(|a, b| a.process.cmp(&b.process));
    Ok(found)
}

fn parse(text: &str) -> Found {
    let mut found = Found::default();
    for line in text.lines() {
        let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
        match kind {
            "calls" => found.calls = rest.parse().unwrap_or(0),
            "violation" => found.violations.push(unescape(rest)),
            "missing" => found.missing.push(unescape(rest)),
            "leak" => found.leaks.push(unescape(rest)),
            "end" => found.is_whole = true,
            _ => {}
        }
    }
    found
}

fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some('n') => plain.push('\n'),
                Some(other) => plain.push(other),
                None => {}
            },
            _ => plain.push(character),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_findings() {
        let text = "calls 12\nviolation race: a\\n  at C:\\\\n\nmissing f\nleak stream 2\nend\n";
        let expected = Found {
            calls: 12,
            violations: vec!["race: a\n  at C:\\n".into()],
            missing: vec!["f".into()],
            leaks: vec!["stream 2".into()],
            is_whole: true,
            ..Found::default()
        };
        assert_eq!(parse(text), expected);
        assert!(!parse("calls 12\n").is_whole);
    }
}
