//! Calls of git.

use std::path::Path;
use std::process::Command;

use crate::command::stdout_of;
use crate::error::Result;

/// Runs git in a folder, and returns what it printed, without the last line's end.
pub(super) fn git(folder: &Path, args: &[&str]) -> Result<String> {
    Ok(stdout_of(Command::new("git").current_dir(folder).args(args))?.trim_end().to_owned())
}
