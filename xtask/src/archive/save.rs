//! Saving an archive: copies programs and strips debug information.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::folder::{Contents, size, write};
use crate::cargo::describe;
use crate::error::{Context as _, Result};

/// What is easy to carry to another machine.
const COMFORTABLE: u64 = 60 << 20;

/// Writes an archive, in place of an older one, as small as it can be, and says how large it is.
///
/// # Errors
///
/// As [`write()`].
pub(crate) fn save(folder: &Path, contents: &Contents) -> Result<()> {
    let written = write(folder, contents)?;
    strip(&written);
    let size = size(folder)?;
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
pub(crate) fn commit(root: &Path) -> Option<String> {
    let mut git = Command::new("git");
    git.args(["describe", "--always", "--dirty", "--abbrev=40"]).current_dir(root);
    let output = git.stdin(Stdio::null()).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The recorded programs of the repository.
///
/// # Errors
///
/// If their folder cannot be read.
pub(crate) fn traces(root: &Path) -> Result<Vec<PathBuf>> {
    let folder = root.join("benches/traces");
    let mut traces = Vec::new();
    for entry in fs::read_dir(&folder).context(folder.display())? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "gz") {
            traces.push(path);
        }
    }
    traces.sort();
    Ok(traces)
}
