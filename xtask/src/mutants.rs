//! `cargo xtask mutants`: applies each patch of `xtask/mutants`, one at a time, to a copy of the
//! workspace, and asks whether a test notices.
//!
//! A patch breaks one line that keeps order between streams or owns something. Its head says what
//! is wrong then, and which test fails: that test is asked first, then the others of its package.

mod judge;
mod patch;
mod tree;

use std::env;
use std::time::Instant;

use crate::command::workspace_root;
use crate::error::Result;
use crate::steps::{new_table, seconds};
use judge::Verdict;
use patch::Patch;
use tree::{Tree, changed_since};

/// Options of `cargo xtask mutants`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only the patches with one of these in their names, as `heap/` or `torch`
    #[arg(value_name = "PART")]
    names: Vec<String>,
    /// Only the patches of files that differ from the merge base with a branch (`main` if none is
    /// named), and those that differ themselves
    #[arg(long, value_name = "BASE", num_args = 0..=1, require_equals = true, default_missing_value = "main")]
    changed: Option<String>,
}

/// Runs the tests on each mutant.
///
/// # Errors
///
/// If a mutant survives or does not compile, or a test fails without any.
pub(crate) fn run(args: &Args) -> Result<()> {
    let root = workspace_root()?;
    let mut patches = Patch::read_all(&root)?;
    if !args.names.is_empty() {
        patches.retain(|patch| args.names.iter().any(|part| patch.name.contains(part)));
        if patches.is_empty() {
            return Err("no patch in xtask/mutants has such a name".into());
        }
    }
    if let Some(base) = &args.changed {
        let changed = changed_since(&root, base)?;
        patches.retain(|patch| changed.contains(&patch.changes) || changed.contains(&patch.path));
    }
    if env::var_os("RMM_PYTHON").is_none() {
        let is_python = |patch: &mut Patch| patch.package().iter().any(|word| word == "rmm-py");
        for skipped in patches.extract_if(.., is_python) {
            println!("{}: skipped, RMM_PYTHON names no Python with pytest", skipped.name);
        }
    }
    // One package after the other, so that little is built twice.
    patches.sort_by(|a, b| a.killed_by.cmp(&b.killed_by));
    let tree = Tree::check_out(&root)?;
    tree.check_unbroken(&patches)?;

    let mut table = new_table(&["mutant", "verdict", "time"]);
    let mut alive = Vec::new();
    for (number, patch) in (1..).zip(&patches) {
        let start = Instant::now();
        let verdict = tree.judge(patch)?;
        let took = seconds(start.elapsed());
        println!("{number}/{} {}: {verdict}, {took}", patches.len(), patch.name);
        table.add_row([patch.name.clone(), verdict.to_string(), took]);
        if !matches!(verdict, Verdict::Killed(_)) {
            alive.push(patch.name.as_str());
        }
    }
    println!("\n{table}\n{} of {} were killed", patches.len() - alive.len(), patches.len());
    match alive.join(", ") {
        none if none.is_empty() => Ok(()),
        alive => Err(format!("not killed: {alive}").into()),
    }
}
