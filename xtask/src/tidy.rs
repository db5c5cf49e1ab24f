//! `cargo xtask tidy`: what no lint checks.
//!
//! Each check is a function from plain data to findings, so that its tests can show it failing.

mod circles;
mod figures;
mod files;
mod finding;
mod layers;
mod licence_files;
mod paths;
mod prose;
mod sources;

use std::fs;
use std::path::Path;

use self::finding::Finding;
use crate::command::workspace_root;
use crate::error::Result;
use crate::metadata;
use crate::readme;

/// The page that says where things are.
const ARCHITECTURE: &str = "docs/architecture.md";

/// What its paths are relative to.
const PARENTS: [&str; 8] = [
    "",
    "crates",
    "crates/rmm-adaptors/src",
    "crates/rmm-adaptors/src/adaptors",
    "crates/rmm-adaptors/src/suballocators",
    "crates/rmm-adaptors/src/suballocators/pool",
    "crates/rmm-adaptors/tests",
    "python/rmm_rs",
];

/// Options of `cargo xtask tidy`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Write the licences of what is linked into the Python package
    #[arg(long)]
    fix: bool,
}

/// Runs the command.
///
/// # Errors
///
/// If something is not tidy.
pub(crate) fn run(args: &Args) -> Result<()> {
    let root = workspace_root()?;
    if args.fix {
        licence_files::write(&root)?;
    }
    check(&root)?;
    println!("tidy");
    Ok(())
}

/// Runs all checks on a workspace and prints what they find.
///
/// # Errors
///
/// If they found something, or a file cannot be read.
pub(crate) fn check(root: &Path) -> Result<()> {
    let mut findings = Vec::new();
    let sources = files::sources(root)?;
    for source in sources.iter().filter(|source| source.is_rust()) {
        findings.extend(sources::check(source));
    }
    findings.extend(prose::check(&sources)?);
    findings.extend(sources::check_policy_module(&sources));
    findings.extend(sources::check_type_names(&sources));
    findings.extend(circles::check(&sources));

    let metadata = metadata::read()?;
    findings.extend(layers::check(root, &metadata));
    findings.extend(licence_files::check(root, &metadata)?);

    // No README.md is one that names no command.
    let text = fs::read_to_string(root.join("README.md")).unwrap_or_default();
    findings.extend(readme::missing(&text).into_iter().map(|command| {
        Finding::new("README.md", 1, format!("no ```sh block has the line `{command}`"))
    }));

    for page in readme::PAGES {
        let here = fs::read_to_string(root.join(page)).unwrap_or_default();
        findings.extend(readme::missing_of_page(&text, &here).into_iter().map(|command| {
            let what = format!("README.md has no line `{}`", command.text);
            Finding::new(page, command.line, what)
        }));
    }
    findings.extend(figures::check(&text, |path| fs::read_to_string(root.join(path)).ok()));

    let text = fs::read_to_string(root.join(ARCHITECTURE)).unwrap_or_default();
    let is_there = |path: &str| PARENTS.iter().any(|parent| root.join(parent).join(path).exists());
    findings.extend(paths::check(ARCHITECTURE, &text, is_there));

    let summary = fs::read_to_string(root.join("docs/SUMMARY.md")).unwrap_or_default();
    let pages = sources.iter().filter(|file| paths::is_left_out(&file.path, &summary));
    let text = "docs/SUMMARY.md, mdBook's list of pages, does not name it";
    findings.extend(pages.map(|file| Finding::new(&file.path, 1, text)));

    for finding in &findings {
        eprintln!("{finding}");
    }
    match findings.len() {
        0 => Ok(()),
        count => Err(format!("{count} things are not tidy").into()),
    }
}
