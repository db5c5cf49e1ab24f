//! The reports that processes leave, one file each. `rmm-sim-driver` writes them.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// What one process found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Found {
    /// The process's number.
    pub process: String,
    /// Its command line.
    pub command: String,
    /// Driver calls; 0 if the report has no end.
    pub calls: u64,
    /// Violations, each with its call sites.
    pub violations: Vec<String>,
    /// Kernels that were not found.
    pub missing: BTreeSet<String>,
    /// Functions of the driver that were called and not served.
    pub refused: BTreeSet<String>,
    /// Whether it shared memory with other processes.
    pub shares_memory: bool,
    /// Objects that were not released.
    pub leaks: Vec<String>,
    /// Whether the report has its end.
    pub is_whole: bool,
}

impl Found {
    /// What the device did not see of the process.
    pub(super) fn unchecked(&self) -> Vec<String> {
        let process = format!("process {} ({})", self.process, self.command);
        let mut reasons = Vec::new();
        for name in &self.missing {
            reasons.push(format!(
                "the kernel `{name}` was not found: declare it, \
                 --kernel '{name}(float y[n], const float x[n], size_t n)'"
            ));
        }
        for name in &self.refused {
            reasons.push(match name.as_str() {
                "cuGetExportTable" => format!(
                    "{process} uses the CUDA runtime (libcudart): it asks the driver for private tables \
                     (cuGetExportTable), which the software device does not have, and fails. --runtime \
                     names a library in its place, for programs that are linked with libcudart dynamically"
                ),
                name => format!("{process} called {name}, which the software device does not serve"),
            });
        }
        if self.shares_memory {
            reasons.push(format!(
                "{process} shares memory with other processes: the order between processes is not checked"
            ));
        }
        if !self.is_whole && self.refused.is_empty() {
            reasons.push(format!(
                "{process} has not ended by its exit handlers, but by _exit, exec, a signal or a crash, or \
                 still runs: its leaks are not known"
            ));
        }
        reasons
    }
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
        // `PROCESS`, or `PROCESS-2` for the second program that the process executes.
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let process = name.split('-').next().unwrap_or_default().to_owned();
        found.push((name.into_owned(), Found { process, ..parse(&text) }));
    }
    found.sort_by(|(a, _), (b, _)| a.cmp(b));
    let found = found.into_iter().map(|(_, found)| found).collect();
    Ok(found)
}

fn parse(text: &str) -> Found {
    let mut found = Found::default();
    for line in text.lines() {
        let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
        match kind {
            "calls" => {
                let (calls, command) = rest.split_once(' ').unwrap_or((rest, ""));
                found.calls = calls.parse().unwrap_or(0);
                found.command = unescape(command);
            }
            "violation" => found.violations.push(unescape(rest)),
            "missing" => drop(found.missing.insert(unescape(rest))),
            "refused" => drop(found.refused.insert(unescape(rest))),
            "shared" => found.shares_memory = true,
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
        let text = "calls 0000000012 ./train --fast\nviolation race: a\\n  at C:\\\\n\nmissing f\nmissing f\nshared memory\nleak stream 2\nend\n";
        let expected = Found {
            command: "./train --fast".into(),
            calls: 12,
            violations: vec!["race: a\n  at C:\\n".into()],
            missing: ["f".into()].into(),
            shares_memory: true,
            leaks: vec!["stream 2".into()],
            is_whole: true,
            ..Found::default()
        };
        assert_eq!(parse(text), expected);
        assert!(!parse("calls 12\n").is_whole);
    }
}
