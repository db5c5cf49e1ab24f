//! The workspace's own commands, run as `cargo xtask <command>`.
//!
//! One file a command. Each command prints what it runs, keeps going through steps that do not
//! depend on each other, ends with a table, and exits non-zero when something failed. Nothing here
//! needs more than `cargo`, but for `mutants` and `sanitize`, which need cargo-nextest, `--all`,
//! which needs cargo-hack, and `ci`, which installs cargo-deny if it is missing.

#![forbid(unsafe_code)]
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line tool talks to its terminal"
)]

mod archive;
mod bench_gpu;
mod browser;
mod build;
mod c_library;
mod ci;
mod command;
mod deny;
mod driver_report;
mod error;
mod licences;
mod metadata;
mod mutants;
mod python;
mod readme;
mod rmm_tests;
mod sanitize;
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
    /// Run the GPU tests over devices x streams x resources, or build an archive for a machine with
    /// no Rust
    TestGpu(test_gpu::Args),
    /// Build an archive that times our allocators and those of others on a GPU machine with no
    /// Rust
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
        Command::BenchGpu(args) => bench_gpu::run(&args),
        Command::CLibrary(args) => c_library::run(&args),
        Command::Ci(args) => ci::run(&args),
        Command::Mutants(args) => mutants::run(&args),
        Command::RmmTests(args) => rmm_tests::run(&args),
        Command::Python(args) => python::run(&args),
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
    fn an_archive_of_the_gpu_tests_is_saved_or_run() {
        let parse = |line: &str| {
            Cli::try_parse_from(["xtask", "test-gpu"].into_iter().chain(line.split_whitespace()))
        };
        assert!(parse("--save a").is_ok() && parse("-- pool:: --exact").is_ok());
        assert!(parse("--save a -- pool::").is_err());
    }
}
