//! Programs that must not compile, and the compiler's messages for them.

use std::process::Command;

#[path = "../compile/allowed.rs"]
mod allowed;

/// The compiler's wording changes, so messages are compared for one version of it.
const TOOLCHAIN: &str = "rustc 1.95.";

#[test]
fn compiler_messages_name_what_is_missing() {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(rustc).arg("--version").output().expect("the compiler is there");
    let version = String::from_utf8_lossy(&version.stdout).into_owned();
    if !version.starts_with(TOOLCHAIN) || version.contains("nightly") {
        println!("skipped: the messages are those of {TOOLCHAIN}x, this is {version}");
        return;
    }
    let cases = trybuild::TestCases::new();
    // After an intended change, `TRYBUILD=overwrite` writes the new messages.
    cases.compile_fail("tests/compile/refused/*.rs");
}

#[test]
fn their_sound_counterparts_compile() {
    allowed::program();
}
