//! `cargo xtask bench-gpu`: our allocators and their peers, on the same work in the same run,
//! on a machine that has a GPU and no Rust.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::archive::{self, SCRIPT, program};
use crate::build;
use crate::command::{self, workspace_root};
use crate::error::{Context as _, Result};

/// Options of `cargo xtask bench-gpu`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Build everything that a GPU machine needs into this folder, with a script `run.sh`, and run
    /// nothing
    #[arg(long, value_name = "DIR")]
    save: PathBuf,
    /// Leave out the peers, which need g++, python3 and a network to build
    #[arg(long)]
    without_peers: bool,
}

/// Builds everything.
///
/// # Errors
///
/// If something does not build, or the folder cannot be written.
pub(crate) fn run(args: &Args) -> Result<()> {
    let root = workspace_root()?;
    let mut files = vec![
        (SCRIPT.to_owned(), root.join("xtask/src/bench_gpu/run.sh")),
        program("rmm", build::rmm("release")?),
    ];
    for name in ["protocol", "report", "round-trip"] {
        files.push(program(name, build::bench_program(name)?));
    }
    files.extend(archive::traces(&root)?);
    if args.without_peers {
        println!("without the peers: there will be nothing to compare with");
    } else {
        let built = build_peers(&root)
            .context("the peers did not build; --without-peers leaves them out")?;
        files.push(program("peers", built.join("bin/peers")));
        files.extend(archive::files_of(&built.join("lib"), "lib")?);
    }
    archive::save(&root, &args.save, &files)
}

/// Runs the script that fetches and compiles; returns the folder of what it built.
fn build_peers(root: &Path) -> Result<PathBuf> {
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let (cache, built) = (target.join("peers"), target.join("peers/built"));
    // What an older version of the script made has no place in the archive.
    if built.exists() {
        fs::remove_dir_all(&built).context(built.display())?;
    }
    let script = root.join("benches/peers/build.sh");
    command::run(Command::new("sh").arg(script).args([&cache, &built]))?;
    Ok(built)
}

#[cfg(unix)]
#[cfg(test)]
#[path = "bench_gpu/tests.rs"]
mod tests;
