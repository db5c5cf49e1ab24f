//! Options of the command.

use std::num::NonZero;
use std::path::PathBuf;
use std::thread;

use super::expected::matches;

/// How long a process of tests may take.
pub(super) const LIMIT: u64 = 600;

/// Options of `cargo xtask rmm-tests`.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct Args {
    /// A checkout of RMM 26.10, or its folder `cpp`; a small one of this repository if left out,
    /// which tests this command
    #[arg(long, value_name = "DIR")]
    pub(super) cpp: Option<PathBuf>,
    /// A checkout of RMM 26.10, whose Python tests run over the wheel of rmm-rs; that of --cpp if
    /// none is named, and else a small one of this repository
    #[arg(long, value_name = "DIR", num_args = 0..=1)]
    pub(super) python: Option<Vec<PathBuf>>,
    /// Build the stand-in for the CUDA runtime into this folder and test nothing: `rmm check
    /// --runtime` serves programs with it
    #[arg(long, value_name = "DIR", conflicts_with_all = ["cpp", "python"])]
    pub(super) runtime: Option<PathBuf>,
    /// Run the Python tests on the GPU, not on the software driver
    #[arg(long, requires = "python", conflicts_with = "cpp")]
    pub(super) gpu: bool,
    /// A Python that has rmm-rs and what the Python tests need; made below `target/rmm-tests` if
    /// left out
    #[arg(long, value_name = "PROGRAM", requires = "python")]
    pub(super) interpreter: Option<PathBuf>,
    /// Only the rows with such names, in which `*` stands for any text: `rmm/POOL_MR_TEST`,
    /// `ours/alone/*`, `*pool*`
    #[arg(long, value_name = "PATTERN")]
    pub(super) program: Option<String>,
    /// How many compilers and tests run at a time; one for each core if left out
    #[arg(long, value_name = "NUMBER")]
    pub(super) jobs: Option<NonZero<usize>>,
    /// The programs with a default stream for each thread, in the place of those with one for all
    #[arg(long)]
    pub(super) per_thread_default_stream: bool,
    /// How long a process of tests may take; ten minutes if left out
    #[arg(long, value_name = "SECONDS")]
    pub(super) limit: Option<u64>,
    /// Further arguments of pytest, such as `-k pool`
    #[arg(last = true, requires = "python")]
    pub(super) pytest: Vec<String>,
}

impl Args {
    /// Whether a row is one of those that the user wants.
    pub(super) fn wants(&self, name: &str) -> bool {
        self.program.as_ref().is_none_or(|pattern| matches(pattern, name))
    }

    /// How many processes work at a time.
    pub(super) fn jobs(&self) -> usize {
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        self.jobs.map_or(cores, NonZero::get)
    }

    /// The checkout of the Python tests, if they are asked for and it is named.
    pub(super) fn python_checkout(&self) -> Option<&PathBuf> {
        self.python.as_ref().and_then(|named| named.first().or(self.cpp.as_ref()))
    }
}
