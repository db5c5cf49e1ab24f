//! `cargo xtask ci`: all that continuous integration runs for every change, at a desk; with `--all`
//! also what it runs once a week.
//!
//! Everything but the models of locks shares one target folder, and no other step changes a profile
//! or the flags of the whole build: what one step compiled, the next finds.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::cargo::{cargo, workspace_root};
use crate::error::{Context as _, Result};
use crate::metadata::{self, Workspace as _};
use crate::steps::Steps;
use crate::test::Extent;
use crate::{deny, readme, test, tidy};

/// Packages outside the default members, and the command that is enough for each: the first cannot
/// be linked where there is no CUDA, the second consists of assertions that the compiler checks,
/// and the third is a library for PyTorch.
const APART: [(&str, &str); 3] =
    [("rmm-interop-cuda-sys", "check"), ("rmm-sys-oracle", "test"), ("rmm-benches-torch", "test")];

/// Options of `cargo xtask ci`.
// The flattened options bring a group of the same name.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    #[command(flatten)]
    test: test::Args,
}

/// Runs all steps.
///
/// # Errors
///
/// If any step failed.
pub(crate) fn run(args: &Args) -> Result<()> {
    let root = workspace_root()?;
    let metadata = metadata::read()?;
    let mut steps = Steps::default();
    steps.run("formatting", cargo().args(["fmt", "--all", "--", "--check"]));
    steps.check("tidy", || tidy::check(&root));
    steps.run(
        "clippy",
        cargo().args(["clippy", "--all-targets", "--all-features", "--", "-D", "warnings"]),
    );
    steps.check("dependencies", || deny::check(&root));
    for (package, command) in APART {
        let name = format!("{command} {package}");
        match metadata.member(package) {
            Some(_) => steps.run(name, cargo().args([command, "-p", package])),
            None => steps.skip(name, "there is no such package"),
        }
    }
    let extent = if args.test.all { Extent::All } else { Extent::Ci };
    test::add_steps(&args.test, extent, &mut steps)?;
    // Every interleaving of a few threads, which a build for it alone explores.
    steps.run(
        "models of locks",
        cargo()
            .args(["test", "-p", "rmm-adaptors", "--lib", "models"])
            .env("RUSTFLAGS", "--cfg rmm_loom")
            .env("CARGO_TARGET_DIR", root.join("target/loom")),
    );
    steps.run(
        "documentation",
        cargo().args(["doc", "--no-deps", "--all-features"]).env("RUSTDOCFLAGS", "-Dwarnings"),
    );
    add_readme_steps(&root, &mut steps);
    if args.test.all {
        // Builds each package from what a registry would get. Needs the registry's index.
        let publish = ["publish", "--workspace", "--dry-run", "--allow-dirty"];
        steps.run("publish, dry run", cargo().args(publish));
    }
    steps.finish()
}

/// Runs the commands of README.md, other than the tests, which have run by now.
fn add_readme_steps(root: &Path, steps: &mut Steps) {
    let mut commands = Vec::new();
    steps.check("README.md names the commands that it should", || {
        let text = fs::read_to_string(root.join("README.md")).context("README.md")?;
        commands = readme::commands(&text);
        match readme::missing(&text).as_slice() {
            [] => Ok(()),
            missing => {
                Err(format!("no ```sh block of README.md has `{}`", missing.join("` or `")).into())
            }
        }
    });
    for command in commands.iter().filter(|command| command.text.starts_with("cargo run")) {
        // Exactly as a person types it, by a shell, from the top folder.
        let mut shell = Command::new("sh");
        shell.args(["-c", &command.text]).current_dir(root);
        steps.run(format!("README.md:{}", command.line), &mut shell);
    }
}
