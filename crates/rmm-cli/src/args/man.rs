//! `rmm man`.

use std::path::PathBuf;

use clap::Args;

pub(super) const HELP: &str = "\
Example:
  rmm man ~/.local/share/man/man1 && man rmm-replay

Exit statuses:
  0  they were written
  2  bad usage, or they could not be written";

/// Options of `rmm man`.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct ManArgs {
    /// The folder for rmm.1, and a page for each command; made if it is not there
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
}
