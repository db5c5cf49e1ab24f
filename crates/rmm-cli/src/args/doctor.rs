//! `rmm doctor`.

use clap::Args;

use super::OutputArgs;

pub(super) const HELP: &str = "\
It needs no GPU: on a machine without one, the report says why there is none.

Exit statuses:
  0  the report was printed, whatever it says
  2  bad usage, or a file could not be written";

/// Options of `rmm doctor`.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct DoctorArgs {
    /// Where the report goes.
    #[command(flatten)]
    pub outputs: OutputArgs,
}
