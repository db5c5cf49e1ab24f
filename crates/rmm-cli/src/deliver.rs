//! What a command found, on its way to standard output and to files.

use std::path::Path;

use crate::args::{OutputArgs, is_standard};
use crate::output::{self, OutputError};

/// Checks that the files can be written, as far as possible without writing them: the work may take
/// minutes.
///
/// # Errors
/// The file that cannot be written, or that two things are to be printed.
pub(crate) fn check(outputs: &OutputArgs) -> Result<(), String> {
    let printed = files(outputs).filter(|path| is_standard(path)).count();
    if printed > 1 {
        return Err("standard output takes --json or --html, not both".to_owned());
    }
    for path in files(outputs).filter(|path| !is_standard(path)) {
        output::check(path).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Writes the files that are wanted. Returns what is to be printed: the text, or what was asked for
/// in its place.
///
/// # Errors
/// The text, and the file that could not be written.
pub(crate) fn write(
    outputs: &OutputArgs,
    text: String,
    json: impl FnOnce() -> serde_json::Result<String>,
    page: impl FnOnce() -> String,
) -> Result<String, (String, String)> {
    let mut printed = None;
    let mut deliver = |path: &Path, contents: String| {
        if is_standard(path) {
            printed = Some(contents);
            return Ok(());
        }
        output::write_atomically(path, contents.as_bytes())
    };
    let mut failed = None;
    if let Some(path) = &outputs.json {
        match json() {
            Ok(json) => keep_first(&mut failed, deliver(path, json)),
            Err(error) => failed = Some(error.to_string()),
        }
    }
    if let Some(path) = &outputs.html {
        keep_first(&mut failed, deliver(path, page()));
    }
    match failed {
        None => Ok(printed.unwrap_or(text)),
        Some(error) => Err((text, error)),
    }
}

/// Data as indented JSON with a line end.
///
/// # Errors
/// Those of `serde_json`.
pub(crate) fn to_json(data: &impl serde::Serialize) -> serde_json::Result<String> {
    Ok(serde_json::to_string_pretty(data)? + "\n")
}

fn files(outputs: &OutputArgs) -> impl Iterator<Item = &Path> {
    outputs.json.iter().chain(&outputs.html).map(AsRef::as_ref)
}

fn keep_first(failed: &mut Option<String>, written: Result<(), OutputError>) {
    if let Err(error) = written {
        failed.get_or_insert_with(|| error.to_string());
    }
}
