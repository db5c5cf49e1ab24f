//! `cargo xtask mutants`: breaks the pool, the base resources, the adaptors and the containers one line at a time, and asks whether a test notices.
//!
//! The shipping code knows nothing of it: each mutant is made in a copy of the workspace below the target folder.

mod copy;
mod list;
mod verdict;

use std::env;
use std::path::{self, Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::cargo::{WithCommand as _, cargo, has_nextest, workspace_root};
use crate::error::{Context as _, Result};
use crate::steps::{new_table, seconds};
use copy::Workspace;
use list::{Mutant, mutants};
use verdict::Verdict;

/// The packages whose tests are asked last, because they take longest.
const SLOW: &str = "rmm-conformance";

/// Options of `cargo xtask mutants`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only the mutants with one of these in their names
    #[arg(value_name = "PART")]
    names: Vec<String>,
    /// List the mutants and what each breaks, and run nothing
    #[arg(long)]
    list: bool,
}

/// Runs the tests on each mutant.
///
/// # Errors
///
/// If a mutant survives, or the tests fail without any.
pub(crate) fn run(args: &Args) -> Result<()> {
    let is_chosen = |mutant: &&Mutant| {
        args.names.is_empty() || args.names.iter().any(|part| mutant.name.contains(part))
    };
    let mutants: Vec<&Mutant> = mutants().filter(is_chosen).collect();
    if args.list {
        let mut table = new_table(&["mutant", "what it breaks"]);
        table.add_rows(mutants.iter().map(|mutant| [mutant.name, mutant.breaks]));
        println!("{table}");
        return Ok(());
    }
    if mutants.is_empty() {
        return Err("no mutant has such a name: see --list".into());
    }
    if !has_nextest() {
        return Err(
            "a broken pool may wait for ever, and only cargo-nextest ends such a test: install it"
                .into(),
        );
    }
    let root = workspace_root()?;
    let built = target_folder(&root)?;
    let folder = built.join("mutants");
    let workspace = Workspace::copy(&root, &folder.join("workspace"), &built)?;
    let tests = Tests { workspace: &workspace, target: folder.join("target") };
    tests.check_without_mutant(&mutants)?;
    let mut table = new_table(&["mutant", "killed by", "seen by", "time"]);
    let mut alive = Vec::new();
    for (number, mutant) in (1..).zip(&mutants) {
        let start = Instant::now();
        let verdict = tests.judge(mutant)?;
        let took = seconds(start.elapsed());
        println!("{number}/{} {}: {verdict}", mutants.len(), mutant.name);
        if !verdict.is_killed() {
            alive.push(mutant.name);
        }
        let [by, seen] = verdict.cells();
        table.add_row([mutant.name.to_owned(), by, seen, took]);
    }
    println!("\n{table}");
    match alive.as_slice() {
        [] => {
            println!("all {} mutants were killed", mutants.len());
            Ok(())
        }
        _ => Err(format!(
            "{} of {} mutants were not killed: {}",
            alive.len(),
            mutants.len(),
            alive.join(", ")
        )
        .into()),
    }
}

/// Where cargo puts what it makes.
fn target_folder(root: &Path) -> Result<PathBuf> {
    let folder = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    path::absolute(folder).context("the target folder")
}

/// The tests of the copy.
struct Tests<'a> {
    workspace: &'a Workspace,
    target: PathBuf,
}

impl Tests<'_> {
    /// All tests that are about to be asked have to pass while nothing is broken.
    fn check_without_mutant(&self, mutants: &[&Mutant]) -> Result<()> {
        let mut packages: Vec<&str> = mutants.iter().map(|mutant| mutant.package()).collect();
        packages.sort_unstable();
        packages.dedup();
        for package in packages.into_iter().chain([SLOW]) {
            match Self::ask(self.nextest(package))? {
                Verdict::Survived => println!("{package}: its tests pass without mutants"),
                verdict => return Err(format!("{package}, without any mutant: {verdict}").into()),
            }
        }
        if mutants.iter().any(|mutant| mutant.is_modelled()) {
            match Self::ask(self.models())? {
                Verdict::Survived => println!("the models of locks pass without mutants"),
                verdict => return Err(format!("models, without any mutant: {verdict}").into()),
            }
        }
        Ok(())
    }

    /// Asks the models, if the mutant is in what they are about, then the tests of its own package, and where they see nothing those
    /// of all resources.
    fn judge(&self, mutant: &Mutant) -> Result<Verdict> {
        let _broken = self.workspace.apply(mutant)?;
        if mutant.is_modelled() {
            match Self::ask(self.models())? {
                Verdict::Survived => {}
                verdict => return Ok(verdict),
            }
        }
        match Self::ask(self.nextest(mutant.package()))? {
            Verdict::Survived => Self::ask(self.nextest(SLOW)),
            verdict => Ok(verdict),
        }
    }

    fn ask(mut command: Command) -> Result<Verdict> {
        let output = command.stdin(Stdio::null()).output().with_command(&command)?;
        let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.push_str(&String::from_utf8_lossy(&output.stderr));
        Verdict::of(output.status.code(), &text)
    }

    /// What explores every interleaving of a few threads, in a build for it alone.
    fn models(&self) -> Command {
        let mut command = self.nextest("rmm-adaptors");
        command
            .args(["--lib", "models"])
            .env("CARGO_TARGET_DIR", self.target.join("models"))
            .env("RUSTFLAGS", "--cfg rmm_loom");
        command
    }

    fn nextest(&self, package: &str) -> Command {
        let mut command = cargo();
        command
            .current_dir(self.workspace.root())
            .args(["nextest", "run", "-p", package, "--profile", "mutants"])
            .args(["--max-fail", "1:immediate", "--color", "never"])
            .env("CARGO_TARGET_DIR", &self.target)
            .env("RMM_DRIVER", "sim")
            // The same programs each time; which of them shows the fault is of no interest, and looking for the smallest takes long.
            .env("PROPTEST_RNG_SEED", "1")
            .env("PROPTEST_MAX_SHRINK_ITERS", "0")
            // A mutant leaves things unused.
            .env_remove("RUSTFLAGS");
        command
    }
}
