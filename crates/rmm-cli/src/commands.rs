//! The subcommands: their output and exit status.

mod check;
mod completions;
mod convert;
mod doctor;
mod man;
mod replay;
mod report;
mod serve;
mod tune;
mod watch;

use crate::args::Command;
pub use crate::exit::{BAD_INPUT, FAILURE, PROGRAM_FAILED, SUCCESS, VIOLATIONS};
use crate::style::{BAD, NOTICE, paint};
pub use check::check;
pub use completions::completions;
pub use convert::convert;
pub use doctor::doctor;
pub use man::man;
pub use replay::replay;
pub use report::report;
pub use serve::serve;
pub use tune::tune;
pub use watch::watch;

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
    /// It ended well, with this output.
    pub(crate) fn succeeded(text: String) -> Self {
        Self { text, messages: Vec::new(), status: SUCCESS }
    }

    /// It ended with this message, and printed nothing.
    pub(crate) fn failed(status: u8, message: String) -> Self {
        Self { text: String::new(), messages: vec![message], status }
    }

    /// With what [`deliver::write`](crate::deliver::write) returned: what is printed, and what
    /// could not be written.
    pub(crate) fn delivered(mut self, written: Result<String, (String, String)>) -> Self {
        match written {
            Ok(text) => self.text = text,
            Err((text, error)) => {
                self.text = text;
                self.messages.push(error);
                self.status = FAILURE;
            }
        }
        self
    }
}

/// A message as it is printed: the name of the program, and what there is to say.
pub fn message(text: &str, status: u8) -> String {
    let style = if status == SUCCESS { NOTICE } else { BAD };
    format!("{} {text}", paint(style, "rmm:"))
}

/// Does what the command line asks for.
pub fn run(command: &Command) -> Ended {
    match command {
        Command::Check(args) => check(args),
        Command::Completions(args) => completions(args),
        Command::Convert(args) => convert(args),
        Command::Doctor(args) => doctor(args),
        Command::Man(args) => man(args),
        Command::Replay(args) => replay(args),
        Command::Report(args) => report(args),
        Command::Serve(args) => serve(args),
        Command::Tune(args) => tune(args),
        Command::Watch(args) => watch(args),
    }
}
