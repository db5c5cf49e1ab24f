//! Logs that are named on a command line.

use std::io;
use std::path::PathBuf;

use rmm_report::trace::{self, Trace};

use crate::args::{OutputArgs, is_standard};

/// The name of standard input in what is printed.
const STANDARD_INPUT: &str = "standard input";

/// Reads all of them, so that a bad one is known before anything is replayed or written.
///
/// # Errors
/// What is wrong with the first that cannot be read, or that standard input is named twice.
pub(crate) fn read_all(files: &[PathBuf], outputs: &OutputArgs) -> Result<Vec<Trace>, String> {
    if files.iter().filter(|path| is_standard(path)).count() > 1 {
        return Err("standard input (`-`) can be read once".to_owned());
    }
    let read = |path: &PathBuf| {
        let read = if is_standard(path) {
            trace::read_from(STANDARD_INPUT, io::stdin().lock())
        } else {
            trace::read(path)
        };
        read.map_err(|error| {
            let is_output = outputs.json.as_deref().is_some_and(is_standard)
                && path.extension().is_some_and(|extension| extension == "json");
            // Such as `--json out.json`.
            let path = path.display();
            let hint = format!("; to write JSON to a file, say --json={path}");
            format!("{error}{}", if is_output { hint.as_str() } else { "" })
        })
    };
    files.iter().map(read).collect()
}
