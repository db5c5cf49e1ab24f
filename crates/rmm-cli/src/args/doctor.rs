//! `rmm doctor`.

use std::path::PathBuf;

use clap::Args;

pub(super) const HELP: &str = "\
It needs no GPU: on a machine without one, the report says why there is none.

Exit statuses:
  0  the report was printed, whatever it says
  2  bad usage, or a file could not be written";

/// Options of `rmm doctor`.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct DoctorArgs {
    /// Print JSON in place of the text; with `=FILE`, write it to that file and print the text, too
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    pub json: Option<PathBuf>,
}
