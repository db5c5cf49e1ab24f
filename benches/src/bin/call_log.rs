//! Writes the log of a fixed list of calls, and compares it with the log that RMM writes of the same.

#![forbid(unsafe_code)]

use std::error::Error;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use rmm_benches::call_log;
use rmm_cli::args::DeviceChoice;
use rmm_cli::device::OpenDevice;

/// Compare our log of a program with RMM's.
#[derive(Debug, Parser)]
#[command(name = "call-log", version)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make the calls and write their log
    Write {
        /// Where it goes
        log: PathBuf,
        /// Where to run: a GPU if there is one, else the software device (auto); the software device (sim); the GPU with this number
        #[arg(long, value_name = "auto|sim|N", default_value = "auto")]
        device: DeviceChoice,
    },
    /// Say whether two logs are of the same calls, but for addresses, times, threads and streams' handles
    Compare {
        /// The log that RMM wrote
        theirs: PathBuf,
        /// The log that this program wrote
        ours: PathBuf,
    },
}

fn main() -> ExitCode {
    match run(&Args::parse().command) {
        Ok(text) => {
            // A reader that has gone away has read enough.
            writeln!(io::stdout(), "{text}").ok();
            ExitCode::SUCCESS
        }
        Err(error) => {
            writeln!(io::stderr(), "call-log: {error}").ok();
            ExitCode::FAILURE
        }
    }
}

fn run(command: &Command) -> Result<String, Box<dyn Error + Send + Sync>> {
    match command {
        Command::Write { log, device } => {
            let device = OpenDevice::open(*device)?;
            call_log::write(&device, log)?;
            Ok(format!("wrote {} on: {}", log.display(), device.name))
        }
        Command::Compare { theirs, ours } => {
            let matched = call_log::compare(&read(theirs)?, &read(ours)?)?;
            Ok(matched.to_string())
        }
    }
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}
