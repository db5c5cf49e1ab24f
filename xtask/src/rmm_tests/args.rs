//! The options of the command.

use std::num::NonZero;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use clap::ValueEnum as _;

use super::expected::matches;

/// How long a process of tests may take.
const LIMIT: Duration = Duration::from_secs(600);

/// What the tests run over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Over {
    /// RMM's own resources: all tests of the checkout
    Rmm,
    /// Our resources: the typed suites
    Ours,
}

/// Where ours lie in a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Place {
    /// Ours, and nothing else
    Alone,
    /// Below RMM's statistics adaptor
    Statistics,
    /// Below RMM's pool
    Pool,
    /// Above RMM's `cudaMalloc` resource and statistics adaptor, through C functions
    OverRmm,
}

impl Place {
    /// The name on a command line.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Alone => "alone",
            Self::Statistics => "statistics",
            Self::Pool => "pool",
            Self::OverRmm => "over-rmm",
        }
    }
}

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
    /// Run the C++ tests over these alone; over both if left out
    #[arg(long)]
    pub(super) over: Option<Over>,
    /// Run them over ours in this place of a stack alone, or in these; in all if left out
    #[arg(long, value_name = "PLACE")]
    pub(super) place: Vec<Place>,
    /// Only the test programs, or files of Python tests, with such names, in which `*` stands for
    /// any text
    #[arg(long, value_name = "PATTERN")]
    pub(super) program: Option<String>,
    /// How many compilers and tests run at a time; one for each core if left out
    #[arg(long, value_name = "NUMBER")]
    pub(super) jobs: Option<NonZero<usize>>,
    /// The programs with a default stream for each thread, in the place of those with one for all
    #[arg(long)]
    pub(super) per_thread_default_stream: bool,
    /// How many devices the software driver has; if left out, as many as `GPUS` of a C++ program
    /// says, which is one for most, and two for Python tests
    #[arg(long, value_name = "NUMBER")]
    pub(super) devices: Option<u32>,
    /// How long a process of tests may take; ten minutes if left out
    #[arg(long, value_name = "SECONDS")]
    pub(super) limit: Option<u64>,
    /// More failures that are expected: a pattern and the reason on each line
    #[arg(long, value_name = "FILE")]
    pub(super) expected: Option<PathBuf>,
    /// A folder with RMM's wheels unpacked, as the variable `RMM_WHEELS` names one; installed by
    /// pip if left out
    #[arg(long, value_name = "DIR")]
    pub(super) wheels: Option<PathBuf>,
    /// Where to write the results as JUnit XML; `target/rmm-tests.xml`, or
    /// `target/rmm-tests-python.xml` for Python tests alone, if left out
    #[arg(long, value_name = "FILE")]
    pub(super) junit: Option<PathBuf>,
    /// Further arguments of pytest, such as `-k pool`
    #[arg(last = true, requires = "python")]
    pub(super) pytest: Vec<String>,
}

impl Args {
    /// The places of ours in a stack that the user wants.
    pub(super) fn places(&self) -> &[Place] {
        if self.place.is_empty() { Place::value_variants() } else { &self.place }
    }

    /// Whether a program, or a file of tests, is one of those that the user wants.
    pub(super) fn wants(&self, name: &str) -> bool {
        self.program.as_ref().is_none_or(|pattern| matches(pattern, name))
    }

    /// How many processes work at a time.
    pub(super) fn jobs(&self) -> usize {
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        self.jobs.map_or(cores, NonZero::get)
    }

    /// How long a process of tests may take.
    pub(super) fn limit(&self) -> Duration {
        self.limit.map_or(LIMIT, Duration::from_secs)
    }

    /// The checkout of the Python tests, if they are asked for and it is named.
    pub(super) fn python_checkout(&self) -> Option<&PathBuf> {
        self.python.as_ref().and_then(|named| named.first().or(self.cpp.as_ref()))
    }
}

#[cfg(test)]
mod tests {
    //! Command lines.

    use std::path::Path;

    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn parse(line: &str) -> Option<Args> {
        let line = Line::try_parse_from(line.split_whitespace());
        line.ok().map(|line| line.args)
    }

    #[test]
    fn python_tests_are_of_the_checkout_that_is_named_last() {
        let checkout = |line| parse(line).unwrap().python_checkout().cloned();
        assert_eq!(checkout("x --python a").as_deref(), Some(Path::new("a")));
        assert_eq!(checkout("x --cpp b --python a").as_deref(), Some(Path::new("a")));
        assert_eq!(checkout("x --cpp b --python").as_deref(), Some(Path::new("b")));
        assert_eq!(checkout("x --python"), None);
        assert_eq!(checkout("x --cpp b"), None);
        assert_eq!(parse("x --python a -- -k pool").unwrap().pytest, ["-k", "pool"]);
    }

    #[test]
    fn places_have_the_names_of_the_command_line() {
        for place in Place::value_variants() {
            assert_eq!(parse(&format!("x --place {}", place.name())).unwrap().places(), [*place]);
        }
        assert_eq!(parse("x").unwrap().places(), Place::value_variants());
    }

    #[test]
    fn a_gpu_runs_python_tests_only() {
        assert!(parse("x --python a --gpu --interpreter p").unwrap().gpu);
        for wrong in ["x --gpu", "x --cpp b --gpu", "x --interpreter p", "x -- -k pool"] {
            assert!(parse(wrong).is_none(), "{wrong}");
        }
    }
}
