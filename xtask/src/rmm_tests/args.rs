//! The options of the command.

use std::num::NonZero;
use std::path::PathBuf;

use super::expected::matches;
use super::test_program::TestProgram;

/// How many devices the software driver has: two, for the tests that need them.
const DEVICES: u32 = 2;

/// How long a test program may take, in seconds.
const LIMIT: u64 = 600;

/// What the tests run over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Over {
    /// RMM's own resources: all tests of the checkout
    Rmm,
    /// Our resources: the typed suites
    Ours,
}

/// Options of `cargo xtask rmm-tests`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    /// A checkout of RMM 26.10, or its folder `cpp`; small ones of this repository if left out,
    /// which test this command
    #[arg(long, value_name = "DIR")]
    pub(super) cpp: Option<PathBuf>,
    /// Run over these alone; over both if left out
    #[arg(long)]
    pub(super) over: Option<Over>,
    /// Only the test programs with such names, in which `*` stands for any text
    #[arg(long, value_name = "PATTERN")]
    pub(super) program: Option<String>,
    /// How many compilers and tests run at a time; one for each core if left out
    #[arg(long, value_name = "NUMBER")]
    pub(super) jobs: Option<NonZero<usize>>,
    /// Compile with a default stream for each thread, as RMM builds most tests a second time
    #[arg(long)]
    pub(super) per_thread_default_stream: bool,
    /// Define a macro in every compilation, such as `NDEBUG`
    #[arg(long, value_name = "NAME[=VALUE]")]
    pub(super) define: Vec<String>,
    /// How many devices the software driver has
    #[arg(long, value_name = "NUMBER", default_value_t = DEVICES)]
    pub(super) devices: u32,
    /// How long a test program may take
    #[arg(long, value_name = "SECONDS", default_value_t = LIMIT)]
    pub(super) limit: u64,
    /// More failures that are expected: a pattern and the reason on each line
    #[arg(long, value_name = "FILE")]
    pub(super) expected: Option<PathBuf>,
    /// Fixtures for the typed suites in the place of ours, for a checkout whose suites need more
    /// than `mr`, `ref` and `stream`
    #[arg(long, value_name = "HEADER")]
    pub(super) fixtures: Option<PathBuf>,
    /// A folder with RMM's wheels unpacked, as the variable `RMM_WHEELS` names one; installed by
    /// pip if left out
    #[arg(long, value_name = "DIR")]
    pub(super) wheels: Option<PathBuf>,
    /// Where to write the results as JUnit XML; `target/rmm-tests.xml` if left out
    #[arg(long, value_name = "FILE")]
    pub(super) junit: Option<PathBuf>,
}

impl Default for Args {
    /// As on a command line without options.
    fn default() -> Self {
        Self {
            cpp: None,
            over: None,
            program: None,
            jobs: None,
            per_thread_default_stream: false,
            define: Vec::new(),
            devices: DEVICES,
            limit: LIMIT,
            expected: None,
            fixtures: None,
            wheels: None,
            junit: None,
        }
    }
}

impl Args {
    /// Whether a program is one of those that the user wants.
    pub(super) fn wants(&self, program: &TestProgram) -> bool {
        self.program.as_ref().is_none_or(|pattern| matches(pattern, &program.name))
    }
}
