//! Programs that would race or dangle do not compile, with an error that says why.

use std::process::Command;

#[path = "compile/allowed.rs"]
mod allowed;

/// The messages are the compiler's, so they are compared for one version of it.
const TOOLCHAIN: &str = "rustc 1.95.";

#[test]
fn programs_that_would_race_or_dangle_do_not_compile() {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(rustc).arg("--version").output().expect("the compiler is there");
    let version = String::from_utf8_lossy(&version.stdout).into_owned();
    if !version.starts_with(TOOLCHAIN) || version.contains("nightly") {
        println!("skipped: the messages are those of {TOOLCHAIN}x, this is {version}");
        return;
    }
    let cases = trybuild::TestCases::new();
    // `TRYBUILD=overwrite` accepts new messages.
    cases.compile_fail("tests/compile/refused/*.rs");
}

#[test]
fn their_sound_counterparts_compile() {
    allowed::program();
}
