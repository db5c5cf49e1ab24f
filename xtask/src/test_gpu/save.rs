//! Filling an archive: building each program, and leaving out what only a debugger reads.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::archive::{self, Contents};
use super::build;
use crate::cargo::{describe, workspace_root};
use crate::error::{Context as _, Result};
use crate::metadata::Metadata;

/// What is easy to carry to another machine.
const COMFORTABLE: u64 = 60 << 20;

/// Builds everything into `folder`.
///
/// # Errors
///
/// If something does not build, or the folder cannot be written.
pub(super) fn save(folder: &Path) -> Result<()> {
    let root = workspace_root()?;
    let mut programs = vec![
        ("xtask".to_owned(), env::current_exe()?),
        ("gpu".to_owned(), build::gpu_tests()?.path),
        ("rmm-checked".to_owned(), build::rmm("gpu")?.path),
        ("rmm".to_owned(), build::rmm("release")?.path),
    ];
    if Metadata::of_workspace()?.member("rmm-benches").is_some() {
        programs.extend(build::benches()?.into_iter().map(|program| (program.name, program.path)));
    } else {
        println!("there is no package rmm-benches: the archive has no benchmarks");
    }
    let contents =
        Contents { commit: commit(&root), programs, traces: traces(&root.join("benches/traces"))? };
    let written = archive::write(folder, &contents)?;
    strip(&written);
    let size = archive::size(folder)?;
    #[expect(clippy::cast_precision_loss, reason = "one decimal is shown")]
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    println!(
        "{}: {} programs, {} traces, {:.1} MiB",
        folder.display(),
        written.len(),
        contents.traces.len(),
        mib(size)
    );
    if size > COMFORTABLE {
        eprintln!("warning: that is more than {:.0} MiB", mib(COMFORTABLE));
    }
    println!("run it on a GPU machine: {0}/bin/xtask test-gpu --archive {0}", folder.display());
    Ok(())
}

/// Takes the debug information out of the copies; names of functions stay, for backtraces.
fn strip(programs: &[PathBuf]) {
    let mut command = Command::new("strip");
    command.arg("--strip-debug").args(programs).stdin(Stdio::null());
    println!("$ {}", describe(&command));
    if !command.status().is_ok_and(|status| status.success()) {
        eprintln!(
            "warning: `strip` failed or is not installed: the archive is larger than it need be"
        );
    }
}

/// The commit of the working tree, with a mark if something is not committed; nothing outside git.
fn commit(root: &Path) -> Option<String> {
    let mut git = Command::new("git");
    git.args(["describe", "--always", "--dirty", "--abbrev=40"]).current_dir(root);
    let output = git.stdin(Stdio::null()).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn traces(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut traces = Vec::new();
    for entry in fs::read_dir(folder).context(folder.display())? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "gz") {
            traces.push(path);
        }
    }
    traces.sort();
    Ok(traces)
}
