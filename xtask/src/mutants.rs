//! `cargo xtask mutants`: breaks the pool, the base resources, the adaptors and the containers one
//! line at a time, and asks whether a test notices.
//!
//! Each mutant is made in a copy of the workspace below the target folder, so the shipping code
//! contains nothing for it. A mutant costs one incremental build of one test program and one test,
//! if a test that kills it is known (`list/killers.txt`); otherwise all tests of its package, and
//! then the conformance suite. Verdicts are kept in the target folder, and `--resume` skips mutants
//! whose sources have not changed since they were killed.

mod all;
mod changed;
mod copy;
mod digest;
mod judge;
mod killer;
mod list;
mod mutant;
mod results;
mod verdict;

use std::env;
use std::path::{self, Path, PathBuf};
use std::time::{Duration, Instant};

use crate::cargo::{has_nextest, workspace_root};
use crate::error::{Context as _, Result};
use crate::metadata;
use crate::steps::{new_table, seconds};
use all::mutants;
use changed::Changes;
use copy::Workspace;
use digest::Digests;
use judge::Judge;
use killer::Killers;
use list::python;
use mutant::Mutant;
use results::Results;

/// The interpreter for the tests of the Python package.
const PYTHON: &str = "RMM_PYTHON";

/// Options of `cargo xtask mutants`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only the mutants with one of these in their names
    #[arg(value_name = "PART")]
    names: Vec<String>,
    /// List the mutants and what each breaks, and run nothing
    #[arg(long)]
    list: bool,
    /// Skip the mutants that an earlier run killed, if neither they nor the sources and tests of
    /// that time have changed
    #[arg(long)]
    resume: bool,
    /// Only the mutants of files that differ from the merge base with a branch (`main` if none is
    /// named), and those that are new
    #[arg(long, value_name = "BASE", num_args = 0..=1, require_equals = true, default_missing_value = "main")]
    changed: Option<String>,
    /// Write the tests that killed into xtask/src/mutants/list/killers.txt, from which later runs
    /// try them first
    #[arg(long)]
    record: bool,
}

/// Runs the tests on each mutant.
///
/// # Errors
///
/// If a mutant survives, or the tests fail without any.
pub(crate) fn run(args: &Args) -> Result<()> {
    let root = workspace_root()?;
    let chosen = choose(args, &root)?;
    if args.list {
        let mut table = new_table(&["mutant", "what it breaks"]);
        table.add_rows(chosen.iter().map(|mutant| [mutant.name, mutant.breaks]));
        println!("{table}");
        return Ok(());
    }
    if chosen.is_empty() {
        return match args.changed {
            Some(_) => {
                println!("no mutant is in a file that has changed");
                Ok(())
            }
            None => Err("no mutant has such a name: see --list".into()),
        };
    }
    if !has_nextest() {
        return Err(
            "a broken pool may wait forever, and only cargo-nextest ends such a test: install it"
                .into(),
        );
    }
    let built = target_folder(&root)?;
    let folder = built.join("mutants");
    let workspace = Workspace::copy(&root, &folder.join("workspace"), &built)?;
    let mut digests = Digests::new(workspace.root(), metadata::read()?)?;
    let mut results = Results::open(&folder.join("results.txt"))?;
    let known = known(args, &chosen, &results, &mut digests)?;
    let asked: Vec<&Mutant> =
        chosen.iter().filter(|mutant| !known.contains(&mutant.name)).copied().collect();

    let mut killers = Killers::read(&root)?;
    let hints = killers.or(results.killers());
    let mut judge = Judge::new(&workspace, folder.join("target"));
    judge.check_hints(&asked, &hints)?;
    let mut table = new_table(&["mutant", "killed by", "seen by", "time"]);
    let mut alive = Vec::new();
    let begin = Instant::now();
    for (number, mutant) in (1..).zip(&asked) {
        let start = Instant::now();
        let verdict = judge.judge(mutant, hints.of(mutant))?;
        let took = start.elapsed();
        let left = left(begin.elapsed(), number, asked.len());
        println!("{number}/{} {}: {verdict}, {}; {left}", asked.len(), mutant.name, seconds(took));
        if !verdict.is_killed() {
            alive.push(mutant.name);
        }
        if let Some(killer) = verdict.killer() {
            results.add(mutant, &killer, digests.of(mutant, &killer)?)?;
            killers.set(mutant, killer);
        }
        let [by, seen] = verdict.cells();
        table.add_row([mutant.name.to_owned(), by, seen, seconds(took)]);
    }
    if args.record {
        killers.write(&root)?;
    }
    println!("\n{table}");
    if alive.is_empty() {
        match known.len() {
            0 => println!("all {} mutants were killed", asked.len()),
            skipped => println!("{} mutants were killed, {skipped} earlier", asked.len()),
        }
        return Ok(());
    }
    let names = alive.join(", ");
    Err(format!("{} of {} mutants were not killed: {names}", alive.len(), asked.len()).into())
}

/// The mutants that the command line asks for, those of a package next to each other.
fn choose(args: &Args, root: &Path) -> Result<Vec<&'static Mutant>> {
    let changes = match &args.changed {
        Some(base) => Some(Changes::since(root, base)?),
        None => None,
    };
    let is_chosen = |mutant: &&Mutant| {
        let is_named =
            args.names.is_empty() || args.names.iter().any(|part| mutant.name.contains(part));
        is_named && changes.as_ref().is_none_or(|changes| changes.touch(mutant))
    };
    let mut chosen: Vec<&Mutant> = mutants().filter(is_chosen).collect();
    if env::var_os(PYTHON).is_none() && !args.list {
        let all = chosen.len();
        chosen.retain(|mutant| mutant.package() != python::PACKAGE);
        if chosen.len() < all {
            println!(
                "skipped: {} mutants of {}: {PYTHON} names no interpreter with pytest and NumPy",
                all - chosen.len(),
                python::PACKAGE
            );
        }
    }
    chosen.sort_by_key(|mutant| mutant.package());
    Ok(chosen)
}

/// The names of those that need not be asked again; says which they are.
fn known(
    args: &Args,
    chosen: &[&Mutant],
    results: &Results,
    digests: &mut Digests,
) -> Result<Vec<&'static str>> {
    let mut known = Vec::new();
    if args.resume {
        for mutant in chosen {
            if let Some((killer, digest)) = results.of(mutant)
                && digests.of(mutant, killer)? == digest
            {
                known.push(mutant.name);
            }
        }
        println!("skipped, killed earlier ({}): {}", known.len(), known.join(", "));
    }
    Ok(known)
}

/// How long the rest may take.
fn left(elapsed: Duration, done: u32, all: usize) -> String {
    let all = u32::try_from(all).unwrap_or(u32::MAX);
    let rest = elapsed / done * all.saturating_sub(done);
    format!("about {} min left", rest.as_secs().div_ceil(60))
}

/// Where cargo puts what it makes.
fn target_folder(root: &Path) -> Result<PathBuf> {
    let folder = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    path::absolute(folder).context("the target folder")
}

#[cfg(test)]
mod tests {
    //! What is printed while it runs.

    use super::*;

    #[test]
    fn the_rest_is_estimated_from_what_is_done() {
        assert_eq!(left(Duration::from_secs(60), 2, 10), "about 4 min left");
        assert_eq!(left(Duration::from_secs(60), 10, 10), "about 0 min left");
    }
}
