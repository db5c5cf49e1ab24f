//! The folder that carries a run to a machine with no Rust.
//!
//! ```text
//! DIR/run.sh         runs it
//! DIR/commit.txt     what it was built from
//! DIR/bin/rmm        the command-line tool, as released
//! DIR/bin/...        what is to be run there
//! DIR/lib/...        libraries that the peers need
//! DIR/traces/*.gz    what `rmm replay` and the benchmarks replay
//! ```

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{run, stdout_of};
use crate::error::{Context as _, Result};

/// The script that runs an archive.
pub(crate) const SCRIPT: &str = "run.sh";
const COMMIT: &str = "commit.txt";
const PARTS: [&str; 3] = ["bin", "lib", "traces"];

/// What is easy to carry to another machine, in MiB.
const COMFORTABLE: u64 = 60;

/// Writes an archive of files, each with the name that it has there, in place of an older one, as
/// small as it can be, and says how large it is.
///
/// # Errors
///
/// If the folder holds something else, or a file cannot be copied.
pub(crate) fn save(root: &Path, folder: &Path, files: &[(String, PathBuf)]) -> Result<()> {
    write(folder, files)?;
    // With a mark if something is not committed.
    let describe = ["describe", "--always", "--dirty", "--abbrev=40"];
    let commit = stdout_of(Command::new("git").args(describe).current_dir(root));
    let commit = commit.as_deref().map_or("unknown", str::trim);
    fs::write(folder.join(COMMIT), commit)?;
    let all = files.iter().map(|(name, _)| folder.join(name));
    // Names of functions stay, for backtraces.
    let programs = all.clone().filter(|file| file.starts_with(folder.join("bin")));
    if let Err(error) = run(Command::new("strip").arg("--strip-debug").args(programs)) {
        eprintln!("warning: the archive is larger than it need be: `strip`: {error}");
    }
    let bytes = |file: PathBuf| fs::metadata(file).map_or(0, |metadata| metadata.len());
    let size = all.map(bytes).sum::<u64>() >> 20;
    println!("{}: {} files, {size} MiB", folder.display(), files.len());
    if size > COMFORTABLE {
        eprintln!("warning: that is more than {COMFORTABLE} MiB");
    }
    println!("run it on a GPU machine: {}", folder.join(SCRIPT).display());
    Ok(())
}

/// Copies the files in place of an older archive's; refuses to touch a folder that holds anything
/// else.
pub(crate) fn write(folder: &Path, files: &[(String, PathBuf)]) -> Result<()> {
    let holds_something = fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some());
    if holds_something && !folder.join(COMMIT).is_file() {
        let folder = folder.display();
        return Err(format!("{folder} is not empty and is no archive: not written to").into());
    }
    for part in PARTS.map(|part| folder.join(part)) {
        if part.exists() {
            fs::remove_dir_all(&part).context(part.display())?;
        }
        fs::create_dir_all(&part).context(part.display())?;
    }
    for (name, from) in files {
        // A copy keeps the permission to run it.
        fs::copy(from, folder.join(name)).context(from.display())?;
    }
    Ok(())
}

/// The files of a folder, with their names in a part of the archive.
///
/// # Errors
///
/// If the folder cannot be read.
pub(crate) fn files_of(folder: &Path, part: &str) -> Result<Vec<(String, PathBuf)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).context(folder.display())? {
        let entry = entry?;
        files.push((format!("{part}/{}", entry.file_name().display()), entry.path()));
    }
    files.sort();
    Ok(files)
}

/// The recorded programs of the repository.
///
/// # Errors
///
/// If their folder cannot be read.
pub(crate) fn traces(root: &Path) -> Result<Vec<(String, PathBuf)>> {
    let mut traces = files_of(&root.join("benches/traces"), "traces")?;
    traces.retain(|(_, path)| path.extension().is_some_and(|extension| extension == "gz"));
    Ok(traces)
}

/// A program of an archive.
pub(crate) fn program(name: &str, path: PathBuf) -> (String, PathBuf) {
    (format!("bin/{name}"), path)
}

#[cfg(unix)]
#[cfg(test)]
pub(crate) mod tests {
    //! What is written, and scripts that run archives in which others stand for the real programs.

    use std::os::unix::fs::PermissionsExt as _;
    use std::process::Output;
    use std::sync::{Mutex, PoisonError};

    use super::*;

    /// Starting a process copies the descriptors of this one, and a script that any process holds
    /// open for writing cannot be run: so one test at a time writes and runs scripts.
    static TURN: Mutex<()> = Mutex::new(());

    /// A doctor that finds a GPU. Asked about any other driver, it would not answer.
    pub(crate) const ONE_GPU: &str = r#"[ "$RMM_DRIVER" = cuda ] || exit 3; echo '{"driver":{},"devices":[{"ordinal":0,"name":"Test GPU"}]}'"#;
    pub(crate) const NO_DRIVER: &str = r#"echo '{"driver":null,"devices":[]}'"#;

    /// Runs the script of an archive with these files, of which those in `bin` are scripts. `check`
    /// sees the folder, what was printed, and whether it passed.
    pub(crate) fn run_script<T>(
        script: &str,
        files: &[(&str, &str)],
        arguments: &[&str],
        variables: &[(&str, &str)],
        check: impl FnOnce(&Path, String, bool) -> T,
    ) -> T {
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let dir = tempfile::tempdir().unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(script);
        write(dir.path(), &[(SCRIPT.to_owned(), script)]).unwrap();
        fs::write(dir.path().join(COMMIT), "abc").unwrap();
        for (name, body) in files {
            let path = dir.path().join(name);
            let head = if name.starts_with("bin/") { "#!/bin/sh\n" } else { "" };
            fs::write(&path, format!("{head}{body}")).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let mut command = Command::new(dir.path().join(SCRIPT));
        command.args(arguments).envs(variables.iter().copied()).env_remove("RMM_DRIVER");
        let Output { status, stdout, stderr } = command.output().unwrap();
        let text = [stdout, stderr].concat();
        check(dir.path(), String::from_utf8_lossy(&text).into_owned(), status.success())
    }

    #[test]
    fn an_archive_replaces_an_older_one_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let (from, folder) = (dir.path().join("from"), dir.path().join("archive"));
        fs::write(&from, "content").unwrap();
        let save = |name| save(dir.path(), &folder, &[program(name, from.clone())]);
        save("old").unwrap();
        save("new").unwrap();
        assert_eq!(fs::read_to_string(folder.join("bin/new")).unwrap(), "content");
        assert!(!folder.join("bin/old").exists());
        fs::remove_file(folder.join(COMMIT)).unwrap();
        assert!(save("third").unwrap_err().to_string().contains("is no archive"));
        assert!(folder.join("bin/new").exists());
    }
}
