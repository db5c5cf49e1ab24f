//! The subcommands: their output and exit status.

mod check;
mod doctor;
mod replay;

use crate::args::Command;
pub use crate::exit::{BAD_INPUT, FAILURE, PROGRAM_FAILED, SUCCESS, VIOLATIONS};
pub use check::check;
pub use doctor::doctor;
pub use replay::replay;

/// How a command ended.
#[derive(Debug)]
pub struct Ended {
    /// What to print on standard output.
    pub text: String,
    /// What to print on standard error, one message each.
    pub messages: Vec<String>,
    /// The exit status.
    pub status: u8,
}

impl Ended {
    /// It ended with this message, and printed nothing.
    pub(crate) fn failed(status: u8, message: String) -> Self {
        Self { text: String::new(), messages: vec![message], status }
    }
}

/// Does what the command line asks for.
pub fn run(command: &Command) -> Ended {
    match command {
        Command::Check(args) => check(args),
        Command::Doctor(args) => doctor(args),
        Command::Replay(args) => replay(args),
    }
}
