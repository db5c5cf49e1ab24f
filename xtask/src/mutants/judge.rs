//! Runs tests against a mutant, the likeliest killers first.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::all::is_modelled;
use super::copy::Workspace;
use super::killer::{Killer, Killers};
use super::list::python;
use super::mutant::Mutant;
use super::verdict::Verdict;
use crate::cargo::{WithCommand as _, cargo};
use crate::error::Result;

/// The package whose tests are asked last, because they take longest.
const SLOW: &str = "rmm-conformance";

/// The packages some of whose tests run example programs, which cargo builds only if it is asked
/// for no kind of target.
const RUN_EXAMPLES: [&str; 2] = ["rmm-interop-cudarc", "rmm-preload"];

/// The package that is built alone: else the program chooses the features of cudarc.
const ALONE: &str = "rmm-interop-cudarc";

/// The packages that have models of what their threads share.
const MODELLED: [&str; 2] = ["rmm-adaptors", "rmm-core"];

/// Tests that are run together.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Scope<'a> {
    /// What explores every interleaving of a few threads, in a build for it alone.
    Models,
    /// The tests of a package.
    Package(&'a str),
}

/// Runs tests in a copy of the workspace, on mutants and without.
#[derive(Debug)]
pub(super) struct Judge<'a> {
    workspace: &'a Workspace,
    target: PathBuf,
    /// The tests that have passed without a mutant: a failure says nothing of a mutant before that.
    passed: BTreeSet<Scope<'a>>,
}

impl<'a> Judge<'a> {
    pub(super) fn new(workspace: &'a Workspace, target: PathBuf) -> Self {
        Self { workspace, target, passed: BTreeSet::new() }
    }

    /// The tests that killed earlier have to pass while nothing is broken.
    pub(super) fn check_hints(&self, mutants: &[&Mutant], hints: &Killers) -> Result<()> {
        let mut tests: BTreeMap<Scope<'_>, BTreeSet<&Killer>> = BTreeMap::new();
        for mutant in mutants {
            if let Some(killer) = hints.of(mutant) {
                tests.entry(scope_of(mutant, killer)).or_default().insert(killer);
            }
        }
        for (scope, killers) in tests {
            let killers: Vec<&Killer> = killers.into_iter().collect();
            match ask(self.some(scope, &killers))? {
                Verdict::Survived => {
                    println!("{}: {} tests pass without mutants", name(scope), killers.len());
                }
                verdict => {
                    return Err(format!("{}, without any mutant: {verdict}", name(scope)).into());
                }
            }
        }
        Ok(())
    }

    /// Asks, until one fails:
    ///
    /// 1. the test that killed it last,
    /// 2. the models, if the mutant is in what they are about,
    /// 3. the tests of its own package, without a known killer those first that are named like its
    ///    file,
    /// 4. those of all resources.
    pub(super) fn judge(&mut self, mutant: &Mutant, hint: Option<&Killer>) -> Result<Verdict> {
        if let Some(killer) = hint {
            let _broken = self.workspace.apply(mutant)?;
            match ask(self.some(scope_of(mutant, killer), &[killer]))? {
                Verdict::Survived => println!("{}: passes {}", mutant.name, killer.test),
                verdict => return Ok(verdict),
            }
        }
        let models = is_modelled(mutant).then_some(Scope::Models);
        for scope in models.into_iter().chain([mutant.package(), SLOW].map(Scope::Package)) {
            self.check_without_mutant(scope)?;
            let _broken = self.workspace.apply(mutant)?;
            if hint.is_none() && scope == Scope::Package(mutant.package()) {
                let mut command = self.all(scope);
                command.args(["-E", &named_like(mutant.file)]);
                match ask(command)? {
                    Verdict::Survived => {}
                    verdict => return Ok(verdict),
                }
            }
            match ask(self.all(scope))? {
                Verdict::Survived => {}
                verdict => return Ok(verdict),
            }
        }
        Ok(Verdict::Survived)
    }

    /// All tests of a scope have to pass while nothing is broken.
    fn check_without_mutant(&mut self, scope: Scope<'static>) -> Result<()> {
        if self.passed.contains(&scope) {
            return Ok(());
        }
        match ask(self.all(scope))? {
            Verdict::Survived => {
                println!("{}: all tests pass without mutants", name(scope));
                self.passed.insert(scope);
                Ok(())
            }
            verdict => Err(format!("{}, without any mutant: {verdict}", name(scope)).into()),
        }
    }

    fn all(&self, scope: Scope<'_>) -> Command {
        let mut command = self.nextest(scope);
        match scope {
            Scope::Models => command.args(["--lib", "-E", "test(models::)"]),
            Scope::Package(package) if RUN_EXAMPLES.contains(&package) => &mut command,
            // It has no unit tests: its library is linked to no program.
            Scope::Package(python::PACKAGE) => command.arg("--tests"),
            Scope::Package(_) => command.args(["--lib", "--tests"]),
        };
        command
    }

    /// Builds no more than the programs that these tests are in.
    fn some(&self, scope: Scope<'_>, tests: &[&Killer]) -> Command {
        let mut command = self.nextest(scope);
        if matches!(scope, Scope::Package(package) if RUN_EXAMPLES.contains(&package)) {
            command.arg("--examples");
        }
        let programs: BTreeSet<_> = tests.iter().map(|killer| killer.program()).collect();
        for program in programs {
            match program {
                Some(program) => command.args(["--test", program]),
                None => command.arg("--lib"),
            };
        }
        command.args(["-E", &expression(tests)]);
        command
    }

    fn nextest(&self, scope: Scope<'_>) -> Command {
        // Most of a mutant's time goes into compiling, and debug information would be much of that.
        // Tests of the software device's reports look for lines of the program.
        let needs_lines = matches!(scope, Scope::Package("rmm-sim" | "rmm-interop-cudarc"));
        let debug = if needs_lines { "line-tables-only" } else { "0" };
        let mut command = cargo();
        command
            .current_dir(self.workspace.root())
            .args(["nextest", "run", "--profile", "mutants", "--no-tests", "pass"])
            .args(["--max-fail", "1:immediate", "--color", "never"])
            .env("RMM_DRIVER", "sim")
            // The same programs each time; which of them shows the fault is of no interest, and
            // looking for the smallest takes long.
            .env("PROPTEST_RNG_SEED", "1")
            .env("PROPTEST_MAX_SHRINK_ITERS", "0")
            .env("CARGO_PROFILE_DEV_DEBUG", debug)
            .env("CARGO_PROFILE_TEST_DEBUG", debug)
            // One line changes little of a crate.
            .env("CARGO_INCREMENTAL", "1");
        match scope {
            Scope::Models => command
                .args(MODELLED.map(|package| ["-p", package]).as_flattened())
                .env("CARGO_TARGET_DIR", self.target.join("models"))
                .env("RUSTFLAGS", "--cfg rmm_loom"),
            Scope::Package(package) => command
                .args(["-p", package])
                .args((package == ALONE).then_some("--features=checked-alone"))
                .env("CARGO_TARGET_DIR", &self.target)
                // A mutant leaves things unused.
                .env_remove("RUSTFLAGS"),
        };
        command
    }
}

/// Where a test has to run to kill the mutant again.
fn scope_of<'a>(mutant: &Mutant, killer: &'a Killer) -> Scope<'a> {
    if is_modelled(mutant) && killer.test.contains("models::") {
        Scope::Models
    } else {
        Scope::Package(killer.package())
    }
}

/// nextest's expression for these tests.
fn expression(tests: &[&Killer]) -> String {
    let terms = tests.iter();
    let terms =
        terms.map(|killer| format!("(binary_id(={}) & test(={}))", killer.binary, killer.test));
    terms.collect::<Vec<_>>().join(" | ")
}

/// nextest's expression for the tests whose names contain that of a file or of the module above it.
fn named_like(file: &str) -> String {
    let path = Path::new(file).with_extension("");
    // Most tests have to do with a pool.
    let modules =
        path.iter().rev().take_while(|name| *name != "src").filter(|name| *name != "pool");
    let terms: Vec<String> =
        modules.take(2).map(|name| format!("test({})", name.display())).collect();
    if terms.is_empty() { "none()".to_owned() } else { terms.join(" | ") }
}

fn name(scope: Scope<'_>) -> String {
    match scope {
        Scope::Models => "models of locks".to_owned(),
        Scope::Package(package) => package.to_owned(),
    }
}

fn ask(mut command: Command) -> Result<Verdict> {
    let output = command.stdin(Stdio::null()).output().with_command(&command)?;
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    Verdict::of(output.status.code(), &text)
}

#[cfg(test)]
mod tests {
    //! Which tests are chosen.

    use std::path::Path;

    use super::*;
    use crate::cargo::describe;

    #[test]
    fn tests_named_like_a_file_come_first() {
        assert_eq!(named_like("crates/rmm-adaptors/src/pool/order.rs"), "test(order)");
        assert_eq!(
            named_like("crates/rmm-adaptors/src/pool/heap/bins.rs"),
            "test(bins) | test(heap)"
        );
        assert_eq!(named_like("crates/rmm-adaptors/src/pool.rs"), "none()");
    }

    #[test]
    fn a_known_killer_builds_its_program_alone() {
        let folder = tempfile::tempdir().unwrap();
        let workspace =
            Workspace::copy(&folder.path().join("from"), &folder.path().join("to"), Path::new(""));
        assert!(workspace.is_err(), "there is nothing to copy");
        std::fs::create_dir(folder.path().join("from")).unwrap();
        let workspace =
            Workspace::copy(&folder.path().join("from"), &folder.path().join("to"), Path::new(""))
                .unwrap();
        let judge = Judge::new(&workspace, "t".into());
        let killers = ["p::suite a::b", "p c"].map(|text| Killer::parse(text).unwrap());
        let line = describe(&judge.some(Scope::Package("p"), &[&killers[0]]));
        assert!(
            line.ends_with("-p p --test suite -E '(binary_id(=p::suite) & test(=a::b))'"),
            "{line}"
        );
        let line = describe(&judge.some(Scope::Package("p"), &[&killers[0], &killers[1]]));
        assert!(line.contains("-p p --lib --test suite -E"), "{line}");
        assert!(line.ends_with(" | (binary_id(=p) & test(=c))'"), "{line}");

        let scope = Scope::Package("rmm-interop-cudarc");
        let killer = Killer::parse("rmm-interop-cudarc::sim owned::a").unwrap();
        let line = describe(&judge.some(scope, &[&killer]));
        assert!(line.contains(" --features=checked-alone --examples --test sim -E "), "{line}");
        let line = describe(&judge.all(scope));
        assert!(line.ends_with("-p rmm-interop-cudarc --features=checked-alone"), "{line}");
    }
}
