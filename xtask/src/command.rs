//! Commands: how they are run and shown, cargo's among them, and what those built.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cargo_metadata::{Artifact, Message};

use crate::error::{Context, Result};

/// The cargo that started this program, or the one on the path.
pub(crate) fn cargo() -> Command {
    Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Whether `cargo nextest` can be called.
pub(crate) fn has_nextest() -> bool {
    cargo()
        .args(["nextest", "--version"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// The folder of the workspace that the current folder belongs to.
pub(crate) fn workspace_root() -> Result<PathBuf> {
    let text =
        stdout_of(cargo().args(["locate-project", "--workspace", "--message-format", "plain"]))?;
    let manifest = Path::new(text.trim());
    manifest.parent().map(Path::to_path_buf).context("cargo locate-project printed no path")
}

/// Runs a command quietly and returns what it printed; its errors go to the terminal.
pub(crate) fn stdout_of(command: &mut Command) -> Result<String> {
    let output =
        command.stdin(Stdio::null()).stderr(Stdio::inherit()).output().with_command(command)?;
    if !output.status.success() {
        return Err(format!("`{}` failed: {}", describe(command), output.status).into());
    }
    String::from_utf8(output.stdout).context("output that is not UTF-8")
}

/// Runs git in a folder, and returns what it printed, without the last line's end.
pub(crate) fn git(folder: &Path, args: &[&str]) -> Result<String> {
    Ok(stdout_of(Command::new("git").current_dir(folder).args(args))?.trim_end().to_owned())
}

/// Prints and runs a command that reads nothing.
///
/// # Errors
///
/// If it fails: the error is its status.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    println!("$ {}", describe(command));
    let status = command.stdin(Stdio::null()).status().with_command(command)?;
    if status.success() { Ok(()) } else { Err(status.to_string().into()) }
}

/// Names the command in the error of starting it.
pub(crate) trait WithCommand<T> {
    /// Puts the command line before the error.
    fn with_command(self, command: &Command) -> Result<T>;
}

impl<T> WithCommand<T> for std::io::Result<T> {
    fn with_command(self, command: &Command) -> Result<T> {
        self.context(format_args!("starting `{}`", describe(command)))
    }
}

/// The command as a person would type it: the variables that it sets, then the program and its
/// arguments.
pub(crate) fn describe(command: &Command) -> String {
    let mut words: Vec<String> = command
        .get_envs()
        .filter_map(|(name, value)| Some(format!("{}={}", name.display(), quoted(value?))))
        .collect();
    let program = Path::new(command.get_program());
    // The full path of the toolchain's cargo says nothing; that of a test binary does.
    match program.file_name() {
        Some(name) if name == "cargo" => words.push("cargo".to_owned()),
        _ => words.push(quoted(program.as_os_str())),
    }
    words.extend(command.get_args().map(quoted));
    words.join(" ")
}

fn quoted(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let plain = |c: char| c.is_alphanumeric() || "-_=./:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.into_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Runs a cargo command that builds, and returns what it built.
pub(crate) fn artifacts(command: &mut Command) -> Result<Vec<Artifact>> {
    // `render-diagnostics` keeps the compiler's messages readable: they go to the terminal, the
    // JSON comes to us.
    command.arg("--message-format=json-render-diagnostics");
    println!("$ {}", describe(command));
    let messages = stdout_of(command)?;
    let artifact = |message| match message {
        Message::CompilerArtifact(artifact) => Some(artifact),
        _ => None,
    };
    let messages = Message::parse_stream(messages.as_bytes()).map_while(std::io::Result::ok);
    Ok(messages.filter_map(artifact).collect())
}

#[cfg(test)]
mod tests {
    //! How commands are shown, and those that fail.

    use super::*;

    #[test]
    fn a_command_is_shown_as_it_would_be_typed() {
        let mut command = Command::new("/opt/toolchain/bin/cargo");
        command.env("RMM_SIM_SEED", "3").env_remove("RUSTFLAGS").args([
            "test",
            "-E",
            "package(a) | package(b)",
            "",
        ]);
        assert_eq!(describe(&command), "RMM_SIM_SEED=3 cargo test -E 'package(a) | package(b)' ''");
    }

    #[test]
    fn a_failing_command_is_an_error_that_names_it() {
        let error = stdout_of(cargo().arg("no-such-subcommand-of-ours")).unwrap_err().to_string();
        assert!(error.contains("`cargo no-such-subcommand-of-ours` failed"), "{error}");
    }
}
