//! The command line. Each subcommand has a file of its own, with its help and its exit statuses.

use clap::{ColorChoice, Parser, Subcommand};

mod check;
mod color;
mod completions;
mod convert;
mod device_choice;
mod doctor;
mod man;
mod memory_size;
mod outputs;
mod replay;
mod report;
mod resource;
mod serve;
mod tune;
mod watch;

pub use check::CheckArgs;
pub use color::color_choice;
pub use completions::CompletionsArgs;
pub use convert::{ConvertArgs, Target};
pub use device_choice::DeviceChoice;
pub use doctor::DoctorArgs;
pub use man::ManArgs;
pub use memory_size::MemorySize;
pub use outputs::{OutputArgs, is_standard};
pub use replay::ReplayArgs;
pub use report::ReportArgs;
pub use resource::ResourceList;
pub use rmm_report::replay::ThreadMode;
pub use rmm_report::resource::ReplayResource;
pub use serve::ServeArgs;
pub use tune::TuneArgs;
pub use watch::WatchArgs;

/// GPU memory: inspect the machine, check programs, replay allocation logs, and find out how much
/// memory they need.
#[derive(Clone, Debug, PartialEq, Eq, Parser)]
#[command(name = "rmm", version, about, max_term_width = 80, after_help = AFTER)]
pub struct Cli {
    /// When to colour: where it goes to a terminal that has colours and `NO_COLOR` is not set
    /// (auto), always, or never
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        display_order = 990,
        hide_possible_values = true
    )]
    pub color: ColorChoice,

    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const AFTER: &str = "\
Each command's help has its options, examples and exit statuses: rmm replay --help";

/// The subcommands.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub enum Command {
    /// Report the GPUs, the driver and their features
    #[command(after_help = doctor::HELP)]
    Doctor(DoctorArgs),
    /// Run a program on the software device, and report uses of memory that are not ordered, leaks
    /// and misuse
    #[command(override_usage = check::USAGE, long_about = check::ABOUT, after_long_help = check::HELP)]
    Check(CheckArgs),
    /// Replay allocation logs against one or more memory resources
    #[command(long_about = replay::ABOUT, after_long_help = replay::HELP)]
    Replay(ReplayArgs),
    /// Answer questions about the memory of a program from its allocation logs
    #[command(long_about = report::ABOUT, after_long_help = report::HELP)]
    Report(ReportArgs),
    /// Find the smallest memory in which recorded programs run, and the resource to use there
    #[command(long_about = tune::ABOUT, after_long_help = tune::HELP)]
    Tune(TuneArgs),
    /// Write a log in the format of another viewer: Perfetto, pprof, or a log
    #[command(long_about = convert::ABOUT, after_long_help = convert::HELP)]
    Convert(ConvertArgs),
    /// Show the memory of a running program
    #[command(long_about = watch::ABOUT, after_long_help = watch::HELP)]
    Watch(WatchArgs),
    /// Own memory of a GPU outside the programs that use it, so that it outlives them
    #[command(long_about = serve::ABOUT, after_long_help = serve::HELP)]
    Serve(ServeArgs),
    /// Print completions for a shell
    #[command(after_help = completions::HELP)]
    Completions(CompletionsArgs),
    /// Write the man pages
    #[command(after_help = man::HELP)]
    Man(ManArgs),
}

#[cfg(test)]
#[path = "args/tests.rs"]
mod tests;
