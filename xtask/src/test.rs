//! `cargo xtask test`: every test that needs no GPU.

mod features;

use std::env;
use std::process::Command;

use crate::cargo::{cargo, has_nextest};
use crate::error::Result;
use crate::metadata::Metadata;
use crate::steps::Steps;

/// The packages whose tests depend on when the software device runs its work: they are repeated with other schedules.
const SCHEDULE_DEPENDENT: [&str; 3] = ["rmm-adaptors", "rmm-containers", "rmm-conformance"];

/// How many schedules are tried when nothing else is asked for: seeds 1, 2, 3.
const SEEDS: u64 = 3;

/// Options of `cargo xtask test`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Use `cargo test` even if cargo-nextest is installed; the variable `RMM_NO_NEXTEST` asks for the same
    #[arg(long)]
    pub(crate) no_nextest: bool,
    /// How many schedules of the software device to try
    #[arg(long, value_name = "N", default_value_t = SEEDS)]
    pub(crate) seeds: u64,
}

/// Runs the matrix.
///
/// # Errors
///
/// If any step failed.
pub(crate) fn run(args: &Args) -> Result<()> {
    let mut steps = Steps::default();
    add_steps(args, &mut steps)?;
    steps.finish()
}

/// Runs the matrix as a part of a longer list of steps.
///
/// # Errors
///
/// If the workspace cannot be read; failed steps are in `steps`.
pub(crate) fn add_steps(args: &Args, steps: &mut Steps) -> Result<()> {
    let metadata = Metadata::of_workspace()?;
    let runner = Runner::choose(args.no_nextest || env::var_os("RMM_NO_NEXTEST").is_some());
    steps.run("tests", &mut runner.tests());
    for variant in features::variants(&metadata) {
        match variant.skipped {
            Some(why) => steps.skip(variant.name, why),
            None if variant.run_tests => {
                steps.run(&variant.name, runner.tests().args(&variant.selection));
                if variant.run_doctests {
                    let mut doctests = cargo();
                    offline(doctests.args(["test", "--doc"]).args(&variant.selection));
                    steps.run(format!("{}, doctests", variant.name), &mut doctests);
                }
            }
            None => steps.run(
                variant.name,
                offline(&mut cargo()).args(["check", "--all-targets"]).args(variant.selection),
            ),
        }
    }
    let packages: Vec<&str> =
        SCHEDULE_DEPENDENT.into_iter().filter(|name| metadata.member(name).is_some()).collect();
    let all_default = packages
        .iter()
        .filter_map(|name| metadata.member(name))
        .all(|p| metadata.is_default_member(p));
    for seed in 1..=args.seeds {
        let name = format!("tests, schedule {seed}");
        if packages.is_empty() {
            steps.skip(name, "no package depends on the schedule");
        } else {
            let mut command = runner.tests();
            command
                .args(runner.select(&packages, all_default))
                .env("RMM_SIM_SEED", seed.to_string());
            steps.run(name, &mut command);
        }
    }
    steps.run("doctests", offline(&mut cargo()).args(["test", "--doc", "--all-features"]));
    Ok(())
}

/// No test of this matrix may reach a real driver, even where there is one.
fn offline(command: &mut Command) -> &mut Command {
    command.env("RMM_DRIVER", "sim")
}

/// What runs the tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Runner {
    /// One process a test, and a limit on how long each may take.
    Nextest,
    /// What every installation of Rust has.
    CargoTest,
}

impl Runner {
    fn choose(no_nextest: bool) -> Self {
        if no_nextest {
            println!("tests run with `cargo test`, as asked");
            Self::CargoTest
        } else if has_nextest() {
            println!("tests run with `cargo nextest run`");
            Self::Nextest
        } else {
            println!("tests run with `cargo test`: cargo-nextest is not installed");
            Self::CargoTest
        }
    }

    fn tests(self) -> Command {
        let mut command = cargo();
        offline(&mut command).args(match self {
            Self::Nextest => &["nextest", "run", "--no-fail-fast", "--no-tests=pass"][..],
            // Doctests are a step of their own, whoever runs the rest.
            Self::CargoTest => {
                &["test", "--no-fail-fast", "--lib", "--bins", "--tests", "--examples"][..]
            }
        });
        command
    }

    /// Arguments that restrict a run to some packages.
    ///
    /// `-p` resolves features for these packages alone, and so may build their dependencies once more. nextest can
    /// build what is built already and choose among the tests instead.
    fn select(self, packages: &[&str], all_default: bool) -> Vec<String> {
        match self {
            Self::Nextest if all_default => {
                let terms: Vec<String> =
                    packages.iter().map(|name| format!("package({name})")).collect();
                vec!["-E".to_owned(), terms.join(" | ")]
            }
            _ => packages.iter().flat_map(|name| ["-p".to_owned(), (*name).to_owned()]).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    //! Which commands the matrix is made of.

    use super::*;
    use crate::cargo::describe;

    #[test]
    fn no_test_can_reach_a_real_driver() {
        for runner in [Runner::Nextest, Runner::CargoTest] {
            assert!(describe(&runner.tests()).starts_with("RMM_DRIVER=sim "), "{runner:?}");
        }
    }

    #[test]
    fn some_packages_are_chosen_without_building_again_where_that_can_be() {
        assert_eq!(Runner::Nextest.select(&["a", "b"], true), ["-E", "package(a) | package(b)"]);
        assert_eq!(Runner::Nextest.select(&["a", "b"], false), ["-p", "a", "-p", "b"]);
        assert_eq!(Runner::CargoTest.select(&["a"], true), ["-p", "a"]);
    }

    #[test]
    fn a_run_without_nextest_can_be_asked_for() {
        assert_eq!(Runner::choose(true), Runner::CargoTest);
    }
}
