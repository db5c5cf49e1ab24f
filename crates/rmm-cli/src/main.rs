//! The `rmm` program.

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::Parser as _;
use rmm_cli::args::Cli;
use rmm_cli::commands::{self, BAD_INPUT, Ended};

fn main() -> ExitCode {
    let Ended { text, messages, status } = commands::run(&Cli::parse().command);
    for message in messages {
        // Where even this cannot be written, the exit status still says it.
        writeln!(io::stderr(), "rmm: {message}").ok();
    }
    ExitCode::from(print(&text).unwrap_or(status))
}

/// Writes to standard output; returns an exit status if that failed. A reader that has had enough
/// (`rmm replay ... | head`) is no failure.
fn print(text: &str) -> Option<u8> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            writeln!(io::stderr(), "rmm: cannot write to standard output: {error}").ok();
            Some(BAD_INPUT)
        }
        _ => None,
    }
}
