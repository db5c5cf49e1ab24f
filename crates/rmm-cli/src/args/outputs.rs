//! Where a command writes what it found, besides the text on the terminal.

use std::path::{Path, PathBuf};

use clap::Args;

/// In place of a file: standard input, or standard output.
const STANDARD: &str = "-";

/// `--json` and `--html`, which mean the same in every command that has them.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct OutputArgs {
    /// Print JSON in place of the text; with `=FILE`, write it to that file and print the text, too
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = STANDARD)]
    pub json: Option<PathBuf>,

    /// Also write an HTML page to this file, which needs nothing else; `-` prints it in place of
    /// the text
    #[arg(long, alias = "report", value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// Whether it stands for standard input or output.
pub fn is_standard(path: &Path) -> bool {
    path.as_os_str() == STANDARD
}
