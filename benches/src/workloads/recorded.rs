//! Recorded programs, read from traces.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use rmm_report::trace;

use super::extent::Extent;
use crate::outcome::Outcome;
use crate::program::Program;

/// A recorded program.
#[derive(Debug)]
pub struct Recorded {
    /// The trace's name.
    pub name: String,
    /// Its calls.
    pub program: Program,
}

impl Recorded {
    /// Reads every `*.csv.gz` of a folder, in the order of their names.
    ///
    /// # Errors
    /// If the folder cannot be read, or a file is no trace.
    pub fn read_all(folder: &Path, extent: Extent) -> Outcome<Vec<Self>> {
        let in_folder = |error: io::Error| format!("{}: {error}", folder.display());
        let mut names = Vec::new();
        for entry in fs::read_dir(folder).map_err(in_folder)? {
            let name = entry.map_err(in_folder)?.file_name().to_string_lossy().into_owned();
            names.extend(name.strip_suffix(".csv.gz").map(str::to_owned));
        }
        names.sort();
        names.into_iter().map(|name| Self::read(folder, name, extent)).collect()
    }

    fn read(folder: &Path, name: String, extent: Extent) -> Outcome<Self> {
        let mut trace = trace::read(&folder.join(format!("{name}.csv.gz")))?;
        trace.events.truncate(extent.scaled(trace.events.len()));
        Ok(Self { program: Program::recorded(&trace)?, name })
    }

    /// Writes the calls as `NAME.csv` into a folder, for programs that read no compressed logs:
    /// `action,slot,size,stream`.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write_ops(&self, folder: &Path) -> Outcome {
        fs::create_dir_all(folder)?;
        let mut file =
            io::BufWriter::new(fs::File::create(folder.join(format!("{}.csv", self.name)))?);
        writeln!(file, "action,slot,size,stream")?;
        for call in self.program.list() {
            writeln!(file, "{call}")?;
        }
        Ok(file.flush()?)
    }
}
