//! Cargo invocations, and the programs that they built.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cargo_metadata::Message;

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

/// A program that cargo built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Program {
    /// The target's name, without the hash that cargo puts into file names.
    pub(crate) name: String,
    /// `bin`, `test`, `bench`, `example` or `lib`.
    pub(crate) kind: String,
    /// Where it lies.
    pub(crate) path: PathBuf,
}

/// Runs a cargo command that builds with `--message-format=json`, and returns the programs it made.
pub(crate) fn build_programs(command: &mut Command) -> Result<Vec<Program>> {
    // `render-diagnostics` keeps the compiler's messages readable: they go to the terminal, the
    // JSON comes to us.
    command.arg("--message-format=json-render-diagnostics");
    println!("$ {}", describe(command));
    Ok(programs_in(&stdout_of(command)?))
}

/// The programs that cargo's JSON messages name.
pub(crate) fn programs_in(messages: &str) -> Vec<Program> {
    let messages = Message::parse_stream(messages.as_bytes());
    let program = |message| match message {
        Message::CompilerArtifact(artifact) => Some(Program {
            kind: artifact.target.kind.first()?.to_string(),
            path: artifact.executable?.into_std_path_buf(),
            name: artifact.target.name,
        }),
        _ => None,
    };
    messages.map_while(std::io::Result::ok).filter_map(program).collect()
}

#[cfg(test)]
mod tests {
    //! How commands are shown, and what is read from cargo's messages.

    use serde_json::json;

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
    fn only_artifacts_with_an_executable_are_programs() {
        let artifact = |name: &str, kind: &str, executable: Option<&str>| {
            let target = json!({"name": name, "kind": [kind], "src_path": ""});
            let profile = json!({"opt_level": "0", "debug_assertions": true, "test": false,
                                 "overflow_checks": true});
            json!({"reason": "compiler-artifact", "package_id": "x", "manifest_path": "",
                   "target": target, "profile": profile, "features": [], "filenames": [],
                   "executable": executable, "fresh": true})
        };
        let library = artifact("rmm_core", "lib", None);
        let test = artifact("gpu", "test", Some("/t/gpu-1f"));
        let messages = format!(
            "{library}\nwarning: text that a build script printed\n{test}\n\
             {{\"reason\":\"build-finished\",\"success\":true}}\n"
        );
        let gpu = Program { name: "gpu".into(), kind: "test".into(), path: "/t/gpu-1f".into() };
        assert_eq!(programs_in(&messages), [gpu]);
    }

    #[test]
    fn a_failing_command_is_an_error_that_names_it() {
        let error = stdout_of(cargo().arg("no-such-subcommand-of-ours")).unwrap_err().to_string();
        assert!(error.contains("`cargo no-such-subcommand-of-ours` failed"), "{error}");
    }
}
