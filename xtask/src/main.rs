//! The workspace's own commands, run as `cargo xtask <command>`.
//!
//! One file a command. Each command prints what it runs, keeps going through steps that do not
//! depend on each other, ends with a table, and exits non-zero when something failed. Nothing here
//! needs more than `cargo`, but for `mutants`, which needs cargo-nextest, and `ci`, which installs
//! cargo-deny if it is missing.

#![forbid(unsafe_code)]
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line tool talks to its terminal"
)]

mod archive;
mod bench;
mod bench_gpu;
mod build;
mod c_library;
mod cargo;
mod ci;
mod deny;
mod doctor;
mod error;
mod execute;
mod licences;
mod metadata;
mod mutants;
mod python;
mod readme;
mod rmm_tests;
mod sanitize;
#[cfg(unix)]
#[cfg(test)]
mod scripts;
mod soak;
mod steps;
mod test;
mod test_gpu;
mod tidy;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The workspace's own commands.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the tests that need no GPU; with --all in every set of features and on several schedules
    /// of the software device
    Test(test::Args),
    /// Run the GPU tests over devices x streams x resources, or build or use an archive for a
    /// machine with no Rust
    TestGpu(test_gpu::Args),
    /// Run the benchmarks, on the GPU if there is one
    Bench(bench::Args),
    /// Time our allocators and those of others on a GPU: from an archive for a machine with no
    /// Rust; or make the report of a run
    BenchGpu(bench_gpu::Args),
    /// Build the library for C and C++, and install it with its headers, and its files for
    /// pkg-config and CMake
    CLibrary(c_library::Args),
    /// Run everything that continuous integration runs for each change; with --all also what it
    /// runs once a week
    Ci(ci::Args),
    /// Apply the patches of xtask/mutants, each of which breaks stream order, a cache, the heap or
    /// ownership, and see that a test notices (about an hour; see --changed)
    Mutants(mutants::Args),
    /// Run RMM's own tests on the software driver: those in C++ over RMM's resources and over ours,
    /// those in Python over our package
    RmmTests(rmm_tests::Args),
    /// Build the Python package as a wheel, install it into an environment of its own and test it
    /// there
    Python(python::Args),
    /// Run random programs over the pool, with every use of memory checked to be in order
    Soak(soak::Args),
    /// Run the tests under the address sanitizer, with a nightly compiler
    Sanitize(sanitize::Args),
    /// Check what no lint checks: file lengths, module docs, width and words of comments, layers,
    /// licence copies
    Tidy(tidy::Args),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Test(args) => test::run(&args),
        Command::TestGpu(args) => test_gpu::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::BenchGpu(args) => bench_gpu::run(&args),
        Command::CLibrary(args) => c_library::run(&args),
        Command::Ci(args) => ci::run(&args),
        Command::Mutants(args) => mutants::run(&args),
        Command::RmmTests(args) => rmm_tests::run(&args),
        Command::Python(args) => python::run(&args),
        Command::Soak(args) => soak::run(&args),
        Command::Sanitize(args) => sanitize::run(&args),
        Command::Tidy(args) => tidy::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    //! The command line as a whole.

    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_benchmark_run_does_one_thing() {
        let parse = |line: &str| {
            let words = ["xtask", "bench-gpu"].into_iter().chain(line.split_whitespace());
            Cli::try_parse_from(words)
        };
        assert!(parse("--archive a --output o --passes 1 --allocator pool,arena --quick").is_ok());
        assert!(parse("--save a --without-peers").is_ok());
        assert!(parse("--report results").is_ok());
        for wrong in ["", "--save a --archive b", "--save a --quick", "--archive a --passes 0"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn arguments_after_bench_are_passed_on_as_they_are() {
        for line in ["--bench pair -- --quick pool", "-- --quick", "--bench pair", "--help-me", ""]
        {
            let words: Vec<&str> = line.split_whitespace().collect();
            let cli =
                Cli::try_parse_from(["xtask", "bench"].into_iter().chain(words.clone())).unwrap();
            let Command::Bench(args) = cli.command else {
                panic!("not the bench command: {cli:?}")
            };
            assert_eq!(args.passed_on(), words);
        }
    }

    #[test]
    fn an_archive_of_the_gpu_tests_is_saved_or_run() {
        let parse = |line: &str| {
            Cli::try_parse_from(["xtask", "test-gpu"].into_iter().chain(line.split_whitespace()))
        };
        assert!(parse("--save a").is_ok() && parse("-- pool:: --exact").is_ok());
        assert!(parse("--save a -- pool::").is_err());
    }
}
