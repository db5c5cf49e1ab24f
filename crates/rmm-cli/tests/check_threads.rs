//! `rmm check` on several threads: alone in its process, since it waits for all children of that.
#![cfg(target_os = "linux")]

use std::thread;

use clap::Parser as _;
use rmm_cli::args::{Cli, Command};
use rmm_cli::commands;

#[test]
fn checks_on_several_threads_wait_for_their_own_programs() {
    let check = || {
        let cli = Cli::try_parse_from(["rmm", "check", "--", "true"]).expect("it is valid");
        let Command::Check(args) = cli.command else { panic!("it is a check") };
        for _ in 0..20 {
            let ended = commands::check(&args);
            let messages = ended.messages.join("\n");
            assert!(!messages.contains("cannot run"), "{messages}");
        }
    };
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(check);
        }
    });
}
