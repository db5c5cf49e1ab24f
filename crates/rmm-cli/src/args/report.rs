//! `rmm report`.

use std::path::PathBuf;

use clap::Args;

use super::OutputArgs;

pub(super) const ABOUT: &str = "\
Answer questions about the memory of a program from its allocation logs

Says what the peak was and who held it, which request failed, whether memory grows, whether it is lost to leaks or to \
fragmentation, and what changed between two logs. Needs no device: addresses are those that were recorded.";

pub(super) const HELP: &str = "\
Examples:
  rmm report train.csv.gz
  rmm report train.csv.gz --html train.html
  rmm report before.csv after.csv --html changed.html

The page is one file that needs no network: it shows every block by address
over time.

Exit statuses:
  0  the questions were answered, whatever the answers are
  1  a file could not be written
  2  bad input or usage";

/// Options of `rmm report`.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct ReportArgs {
    /// Logs, compared with each other if they are several; `-` is standard input
    #[arg(value_name = "LOG", required = true)]
    pub files: Vec<PathBuf>,

    /// Where the answers go.
    #[command(flatten)]
    pub outputs: OutputArgs,
}
