//! `cargo xtask test`: tests that need no GPU. Three extents, each contains the one before:
//!
//! - quick, `cargo xtask test`: default features once, and the facade's documentation tests; what a
//!   newcomer waits for
//! - continuous integration, `cargo xtask ci`: compile-fail suites, all features under another
//!   schedule of the software device, all documentation tests
//! - everything, `cargo xtask test --all` and `cargo xtask ci --all`: more schedules, sets of
//!   features, documentation tests without features

use std::env;
use std::process::Command;

use crate::command::{cargo, has_nextest};
use crate::error::Result;
use crate::metadata::{self, Metadata, Workspace as _};
use crate::steps::Steps;

/// The packages whose tests depend on when the software device runs its work: they are repeated
/// with other schedules.
const SCHEDULE_DEPENDENT: [&str; 5] =
    ["rmm-adaptors", "rmm-async", "rmm-containers", "rmm-conformance", "rmm-interop-dlpack"];

/// The package whose documentation a newcomer reads.
const FACADE: &str = "rmm-rs";

/// Tests that compile programs which must not compile: a minute, and neither features nor schedules
/// change what they see.
pub(crate) const COMPILE_FAIL: [&str; 2] =
    ["programs_that_would_race_or_dangle_do_not_compile", "compiler_messages_name_what_is_missing"];

/// How much is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Extent {
    /// What a newcomer waits for.
    Quick,
    /// What every change has to pass.
    Ci,
    /// What is run now and then.
    All,
}

impl Extent {
    /// How many schedules are tried if no number is asked for, besides that of a run without a
    /// seed.
    fn seeds(self) -> u64 {
        match self {
            Self::Quick => 0,
            Self::Ci => 1,
            Self::All => 3,
        }
    }
}

/// Options of `cargo xtask test`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Also what takes longer: compile-fail suites, sets of features, several schedules, all
    /// documentation tests
    #[arg(long)]
    pub(crate) all: bool,
    /// Use `cargo test` even if cargo-nextest is installed; the variable `RMM_NO_NEXTEST` asks for
    /// the same
    #[arg(long)]
    pub(crate) no_nextest: bool,
    /// How many schedules of the software device to try [default: none; 1 in `ci`, 3 with --all]
    #[arg(long, value_name = "N")]
    pub(crate) seeds: Option<u64>,
}

/// Runs the tests.
///
/// # Errors
///
/// If any step failed.
pub(crate) fn run(args: &Args) -> Result<()> {
    let mut steps = Steps::default();
    add_steps(args, if args.all { Extent::All } else { Extent::Quick }, &mut steps)?;
    steps.finish()
}

/// Runs the tests as a part of a longer list of steps.
///
/// # Errors
///
/// If the workspace cannot be read; failed steps are in `steps`.
pub(crate) fn add_steps(args: &Args, extent: Extent, steps: &mut Steps) -> Result<()> {
    let metadata = metadata::read()?;
    let runner = Runner::choose(args.no_nextest || env::var_os("RMM_NO_NEXTEST").is_some());
    let compile_fail: &[&str] = if extent == Extent::Quick { &COMPILE_FAIL } else { &[] };
    steps.run("tests", &mut runner.tests(&[], &[], compile_fail));
    let mut seeds = 1..=args.seeds.unwrap_or(extent.seeds());
    if extent > Extent::Quick {
        add_feature_steps(&metadata, runner, extent, seeds.next(), steps);
    }
    let packages: Vec<&str> =
        SCHEDULE_DEPENDENT.into_iter().filter(|name| metadata.member(name).is_some()).collect();
    for seed in seeds {
        let name = format!("tests, schedule {seed}");
        if packages.is_empty() {
            steps.skip(name, "no package depends on the schedule");
        } else {
            let mut command = runner.tests(&[], &packages, &COMPILE_FAIL);
            command.env("RMM_SIM_SEED", seed.to_string());
            steps.run(name, &mut command);
        }
    }
    let mut doctests = cargo();
    offline(&mut doctests).args(["test", "--doc"]);
    match extent {
        Extent::Quick => doctests.args(["-p", FACADE]),
        Extent::Ci | Extent::All => doctests.arg("--all-features"),
    };
    steps.run("doctests", &mut doctests);
    Ok(())
}

/// Tests with all features, under a schedule of their own, and what lies between none and all.
/// Without features the first step has run: no package has any by default.
fn add_feature_steps(
    metadata: &Metadata,
    runner: Runner,
    extent: Extent,
    seed: Option<u64>,
    steps: &mut Steps,
) {
    let packages: Vec<&str> = libraries_with_features(metadata);
    let packages: Vec<&str> = packages.into_iter().flat_map(|package| ["-p", package]).collect();
    let mut tests =
        runner.tests(&[&packages[..], &["--all-features"]].concat(), &[], &COMPILE_FAIL);
    if let Some(seed) = seed {
        tests.env("RMM_SIM_SEED", seed.to_string());
    }
    let schedule = seed.map(|seed| format!(", schedule {seed}")).unwrap_or_default();
    steps.run(format!("tests, all features{schedule}"), &mut tests);
    if extent < Extent::All {
        return;
    }
    // Two at a time: the power set of many takes too long.
    let mut check = cargo();
    check.args(["hack", "check", "--all-targets", "--feature-powerset", "--depth=2"]);
    check
        .args(["--keep-going", "--exclude-no-default-features", "--exclude-all-features"])
        .args(&packages);
    steps.run("feature sets (needs cargo-hack)", &mut check);
    let mut doctests = cargo();
    offline(&mut doctests).args(["hack", "test", "--keep-going", "--doc", "--no-default-features"]);
    steps.run("doctests without features (needs cargo-hack)", doctests.args(&packages));
}

/// The libraries that have features and that plain commands build.
fn libraries_with_features(metadata: &Metadata) -> Vec<&str> {
    let mut packages = metadata.workspace_default_packages();
    packages.retain(|package| package.targets.iter().any(cargo_metadata::Target::is_lib));
    packages.retain(|package| package.features.keys().any(|name| name != "default"));
    packages.into_iter().map(|package| package.name.as_str()).collect()
}

/// No test of this matrix may reach a real driver, even where there is one.
fn offline(command: &mut Command) -> &mut Command {
    command.env("RMM_DRIVER", "sim")
}

/// What runs the tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Runner {
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

    /// Runs tests: of the packages and features that `build` selects, among them those of
    /// `packages` (of all if there are none), without those named in `left_out`.
    ///
    /// `-p` resolves features for the packages alone, and so may build their dependencies once
    /// more. nextest can build what is built already and choose among the tests instead.
    fn tests(self, build: &[&str], packages: &[&str], left_out: &[&str]) -> Command {
        let mut command = cargo();
        offline(&mut command);
        match self {
            Self::Nextest => {
                command.args(["nextest", "run", "--no-fail-fast", "--no-tests=pass"]).args(build);
                let mut terms = Vec::new();
                if !packages.is_empty() {
                    let any: Vec<String> =
                        packages.iter().map(|name| format!("package({name})")).collect();
                    terms.push(format!("({})", any.join(" | ")));
                }
                terms.extend(left_out.iter().map(|name| format!("not test({name})")));
                if !terms.is_empty() {
                    command.args(["-E", &terms.join(" & ")]);
                }
            }
            // Doctests are a step of their own with either runner.
            Self::CargoTest => {
                command
                    .args(["test", "--no-fail-fast", "--lib", "--bins", "--tests", "--examples"])
                    .args(build)
                    .args(packages.iter().flat_map(|name| ["-p", *name]));
                if !left_out.is_empty() {
                    command.arg("--").args(left_out.iter().flat_map(|name| ["--skip", *name]));
                }
            }
        }
        command
    }
}

#[cfg(test)]
mod tests {
    //! Which commands the tests are run with.

    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::command::describe;

    #[test]
    fn no_test_can_reach_a_real_driver() {
        for runner in [Runner::Nextest, Runner::CargoTest] {
            let line = describe(&runner.tests(&[], &[], &[]));
            assert!(line.starts_with("RMM_DRIVER=sim "), "{line}");
        }
    }

    #[test]
    fn some_tests_are_chosen_without_building_again_where_that_can_be() {
        let line = describe(&Runner::Nextest.tests(&[], &["a", "b"], &["x", "y"]));
        let chosen = "-E '(package(a) | package(b)) & not test(x) & not test(y)'";
        assert!(line.ends_with(chosen), "{line}");
        let line = describe(&Runner::CargoTest.tests(&[], &["a"], &["x"]));
        assert!(line.ends_with("-p a -- --skip x"), "{line}");
        let line = describe(&Runner::Nextest.tests(&["--all-features"], &[], &[]));
        assert!(line.ends_with("--no-tests=pass --all-features"), "{line}");
    }

    #[test]
    fn a_run_without_nextest_can_be_asked_for() {
        assert_eq!(Runner::choose(true), Runner::CargoTest);
    }

    #[test]
    fn nothing_is_on_by_default_so_that_a_plain_run_is_one_without_features() {
        let metadata = metadata::read().unwrap();
        assert!(libraries_with_features(&metadata).contains(&"rmm-rs"));
        for package in metadata.workspace_default_packages() {
            let default = package.features.get("default");
            assert!(default.is_none_or(Vec::is_empty), "{}: add a run without it", package.name);
        }
    }

    #[test]
    fn the_compile_fail_suites_are_known_by_name() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let suites = ["rmm-containers/tests/refused.rs", "rmm-core/tests/concepts/messages.rs"];
        for (suite, name) in suites.into_iter().zip(COMPILE_FAIL) {
            let text = fs::read_to_string(root.join("crates").join(suite)).unwrap();
            assert!(text.contains(&format!("fn {name}()")), "{suite}");
        }
        let metadata = metadata::read().unwrap();
        let with_suites: Vec<&str> = metadata
            .packages
            .iter()
            .filter(|package| package.dependencies.iter().any(|each| each.name == "trybuild"))
            .map(|package| package.name.as_str())
            .collect();
        assert_eq!(with_suites.len(), suites.len(), "{with_suites:?}");
    }
}
