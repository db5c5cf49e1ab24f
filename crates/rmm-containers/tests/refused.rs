//! What would race, or dangle, does not compile, and the compiler says why.

use std::process::Command;

/// Messages are worded by the compiler, so they are compared for one version of it.
const TOOLCHAIN: &str = "rustc 1.95.";

#[test]
fn what_would_race_or_dangle_does_not_compile() {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(rustc).arg("--version").output().expect("the compiler is there");
    let version = String::from_utf8_lossy(&version.stdout).into_owned();
    if !version.starts_with(TOOLCHAIN) || version.contains("nightly") {
        println!("skipped: the messages are those of {TOOLCHAIN}x, this is {version}");
        return;
    }
    let cases = trybuild::TestCases::new();
    // Where a message is meant to change, `TRYBUILD=overwrite` writes the new one.
    cases.pass("tests/compile/allowed.rs");
    cases.compile_fail("tests/compile/refused/*.rs");
}
