//! `rmm completions`.

use clap::CommandFactory as _;

use super::Ended;
use crate::args::{Cli, CompletionsArgs};

/// `rmm completions`.
pub fn completions(args: &CompletionsArgs) -> Ended {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "rmm", &mut script);
    Ended::succeeded(String::from_utf8_lossy(&script).into_owned())
}
