//! `cargo xtask soak`: random programs over the pool on the software device.

use crate::command::{self, cargo};
use crate::error::Result;

/// Options of `cargo xtask soak`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How many steps the programs have together, at least: a million takes ten seconds or so on
    /// two cores
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    steps: u64,
    /// The first program's seed; the others follow it. A report names the seed of its program
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
}

/// Runs the programs.
///
/// # Errors
///
/// If they do not build, or one breaks a rule.
pub(crate) fn run(args: &Args) -> Result<()> {
    let mut command = cargo();
    command
        .args(["test", "--release", "-p", "rmm-adaptors", "--test", "suite"])
        .args(["--", "--exact", "soak::random_programs_keep_all_invariants", "--nocapture"])
        .env("RMM_DRIVER", "sim")
        .env("RMM_SOAK_STEPS", args.steps.to_string())
        .env("RMM_SIM_SEED", args.seed.to_string());
    command::run(&mut command)
}
