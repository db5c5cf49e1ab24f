//! `rmm doctor`.

use clap::Args;

pub(super) const HELP: &str = "\
It needs no GPU: on a machine without one, the report says why there is none.

Exit statuses:
  0  the report was printed, whatever it says
  2  bad usage";

/// Options of `rmm doctor`.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct DoctorArgs {
    /// Print JSON instead of text
    #[arg(long)]
    pub json: bool,
}
