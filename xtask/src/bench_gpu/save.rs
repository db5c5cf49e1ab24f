//! Saving the archive of the benchmarks.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::archive::{self, Contents};
use crate::build;
use crate::cargo::{self, workspace_root};
use crate::error::{Context as _, Result};

/// Builds everything into `folder`.
///
/// # Errors
///
/// If something does not build, or the folder cannot be written.
pub(super) fn save(folder: &Path, without_peers: bool) -> Result<()> {
    let root = workspace_root()?;
    let mut contents = Contents {
        commit: archive::commit(&root),
        programs: vec![
            ("xtask".to_owned(), env::current_exe()?),
            ("rmm".to_owned(), build::rmm("release")?),
            ("protocol".to_owned(), build::bench_program("protocol")?),
            ("report".to_owned(), build::bench_program("report")?),
            ("round-trip".to_owned(), build::bench_program("round-trip")?),
        ],
        libraries: Vec::new(),
        traces: archive::traces(&root)?,
    };
    if without_peers {
        println!("without the peers: there will be nothing to compare with");
    } else {
        let built = build_peers(&root)?;
        contents.programs.push(("peers".to_owned(), built.join("bin/peers")));
        contents.libraries = files_in(&built.join("lib"))?;
    }
    archive::save(folder, &contents)?;
    println!("run it on a GPU machine: {0}/bin/xtask bench-gpu --archive {0}", folder.display());
    Ok(())
}

/// Runs the script that fetches and compiles; returns the folder of what it built.
fn build_peers(root: &Path) -> Result<PathBuf> {
    let cache = target_folder(root).join("peers");
    let built = cache.join("built");
    // What an older version of the script made has no place in the archive.
    if built.exists() {
        fs::remove_dir_all(&built).context(built.display())?;
    }
    let mut command = Command::new("sh");
    command.arg(root.join("benches/peers/build.sh")).arg(&cache).arg(&built);
    cargo::run(&mut command).context("the peers did not build; --without-peers leaves them out")?;
    Ok(built)
}

fn target_folder(root: &Path) -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

fn files_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).context(folder.display())?;
    let mut files: Vec<PathBuf> =
        entries.map(|entry| entry.map(|entry| entry.path())).collect::<std::io::Result<_>>()?;
    files.sort();
    Ok(files)
}
