//! The `rmm` program.

use std::io::{self, Write};
use std::process::ExitCode;

use anstream::{AutoStream, ColorChoice};
use clap::{CommandFactory as _, FromArgMatches as _};
use rmm_cli::args::{Cli, color_choice};
use rmm_cli::commands::{self, BAD_INPUT, Ended};

fn main() -> ExitCode {
    let color = color_choice(std::env::args_os());
    let matches = Cli::command().color(color).get_matches();
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let color = match color {
        clap::ColorChoice::Auto => ColorChoice::Auto,
        clap::ColorChoice::Always => ColorChoice::Always,
        clap::ColorChoice::Never => ColorChoice::Never,
    };
    let Ended { text, messages, status } = commands::run(&cli.command);
    let mut stderr = AutoStream::new(io::stderr(), color);
    for message in messages {
        // Where even this cannot be written, the exit status still says it.
        writeln!(stderr, "{}", commands::message(&message, status)).ok();
    }
    ExitCode::from(print(&text, color).unwrap_or(status))
}

/// Writes to standard output; returns an exit status if that failed. A reader that has had enough
/// (`rmm replay ... | head`) is no failure.
fn print(text: &str, color: ColorChoice) -> Option<u8> {
    let mut stdout = AutoStream::new(io::stdout(), color).lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            writeln!(io::stderr(), "rmm: cannot write to standard output: {error}").ok();
            Some(BAD_INPUT)
        }
        _ => None,
    }
}
