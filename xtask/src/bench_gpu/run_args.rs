//! Options of a run.

use std::path::PathBuf;

/// How to run.
#[derive(Debug, Default, clap::Args)]
pub(super) struct RunArgs {
    /// Where the results go: `bench-gpu` in the archive if left out
    #[arg(long, value_name = "DIR", conflicts_with_all = ["save", "report"])]
    pub(super) output: Option<PathBuf>,
    /// How often everything is run; each time each allocator in a process of its own, ours and
    /// others' in turn
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) passes: u32,
    /// The allocators to run, by their names in the rows; all of them if left out
    #[arg(long, value_name = "LIST", value_delimiter = ',', conflicts_with_all = ["save", "report"])]
    pub(super) allocator: Vec<String>,
    /// The workloads to run; all of them if left out
    #[arg(long, value_name = "LIST", value_delimiter = ',', conflicts_with_all = ["save", "report"])]
    pub(super) workload: Vec<String>,
    /// Just enough of everything to see that it runs; the figures say nothing
    #[arg(long, conflicts_with_all = ["save", "report"])]
    pub(super) quick: bool,
    /// How long one allocator may take
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    pub(super) limit: u64,
}
