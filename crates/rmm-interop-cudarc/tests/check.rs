//! `rmm check` on a program of cudarc's, with a bug and without.
#![cfg(target_os = "linux")]

use std::path::PathBuf;

use clap::Parser as _;
use rmm_cli::args::{Cli, Command};
use rmm_cli::commands::{self, Ended, SUCCESS, VIOLATIONS};

/// The example, which cargo builds with the tests (but not for `--test check` alone).
fn example() -> PathBuf {
    let test = std::env::current_exe().expect("it runs");
    let folder = test.ancestors().nth(2).expect("it is in target/PROFILE/deps");
    folder.join("examples/two_streams")
}

fn checked(arguments: &[&str]) -> Ended {
    let program = example();
    let line = ["rmm", "check", "--", program.to_str().expect("UTF-8")];
    let cli = Cli::try_parse_from(line.iter().chain(arguments)).expect("it is valid");
    let Command::Check(args) = cli.command else { panic!("it is a check") };
    commands::check(&args)
}

#[test]
fn a_copy_that_waits_for_nothing_is_found() {
    let Ended { text, status, messages } = checked(&[]);
    assert_eq!(status, VIOLATIONS, "{text} {messages:?}");
    assert!(text.contains("race: 4000 bytes"), "{text}");
    assert!(text.contains("two_streams.rs:"), "call sites: {text}");
}

#[test]
fn the_fixed_program_is_clean() {
    let Ended { text, status, messages } = checked(&["fixed"]);
    assert_eq!(status, SUCCESS, "{text} {messages:?}");
}
