//! The command line. Each subcommand has a file of its own, with its help and its exit statuses.

use clap::{Parser, Subcommand};

mod check;
mod device_choice;
mod doctor;
mod memory_size;
mod replay;
mod resource;

pub use check::CheckArgs;
pub use device_choice::DeviceChoice;
pub use doctor::DoctorArgs;
pub use memory_size::MemorySize;
pub use replay::ReplayArgs;
pub use resource::ResourceList;
pub use rmm_report::replay::ThreadMode;
pub use rmm_report::resource::ReplayResource;

/// GPU memory: inspect the machine, and replay allocation logs against memory resources.
#[derive(Clone, Debug, PartialEq, Eq, Parser)]
#[command(name = "rmm", version, about, max_term_width = 80, after_help = EXIT_STATUSES)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const EXIT_STATUSES: &str = "\
Exit statuses are in the help of each command, such as `rmm replay --help`.";

/// The subcommands.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub enum Command {
    /// Report the GPUs, the driver and their features
    #[command(after_help = doctor::HELP)]
    Doctor(DoctorArgs),
    /// Run a program on the software device, and report uses of memory that are not ordered, leaks
    /// and misuse
    #[command(long_about = check::ABOUT, after_long_help = check::HELP)]
    Check(CheckArgs),
    /// Replay allocation logs against one or more memory resources
    #[command(long_about = replay::ABOUT, after_long_help = replay::HELP)]
    Replay(ReplayArgs),
}

#[cfg(test)]
#[path = "args/tests.rs"]
mod tests;
