//! `rmm tune`.

use std::path::PathBuf;

use clap::Args;
use rmm_report::tune::Configuration;

use super::{DeviceChoice, MemorySize, OutputArgs};

pub(super) const ABOUT: &str = "\
Find the smallest memory in which recorded programs run, and the resource to use there

Replays each log on the software device with more and less memory, against pools with several settings, and prints the \
resource that needs the least, as a line to copy. The memory is proven: the log was replayed in exactly so much, with \
the device's work done at once, done only when it is waited for, and in between; in 2 % less, some of these replays \
fails.";

pub(super) const HELP: &str = "\
The memory is what the resource takes from the device. A CUDA context, the code of kernels and other libraries need \
more beside it.

Examples:
  rmm tune train.csv.gz
  rmm tune train.csv.gz --html tune.html
  rmm tune train.csv.gz --memory 24GiB
  rmm tune train.csv.gz --json | jq -r '.logs[].resource'
  rmm tune train.csv.gz --resource 'pool(cuda, max={memory})' --memory 8GiB

Exit statuses:
  0  each log has a resource, which fits into --memory if that is given
  1  some log has none, or an output could not be written
  2  bad input or usage; nothing was replayed";

/// Options of `rmm tune`.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct TuneArgs {
    /// Logs, each of which is a program of its own; `-` is standard input
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,

    /// Ask what fits into this much, such as 24GiB (GiB is 2^30 bytes, GB 10^9) or a number of
    /// bytes: the answer is what fits with the fewest waits and driver calls
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<MemorySize>,

    /// Try this resource in place of the usual ones; `{memory}` stands for the memory. May be
    /// repeated
    #[arg(long = "resource", value_name = "RESOURCE", value_parser = configuration)]
    pub configurations: Vec<Configuration>,

    /// Where to replay: the software device (sim); the GPU with this number, where work ends when
    /// it does; or a GPU if there is one (auto)
    #[arg(long, value_name = "sim|N|auto", default_value = "sim")]
    pub device: DeviceChoice,

    /// How often the program runs, one time after the other, with the same resource
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub repeat: u32,

    /// Replay what was recorded on the default stream (0x0, 0x1) on the legacy default stream,
    /// where programs such as PyTorch run
    #[arg(long)]
    pub legacy_stream: bool,

    /// Where the answer goes.
    #[command(flatten)]
    pub outputs: OutputArgs,
}

fn configuration(text: &str) -> Result<Configuration, rmm_spec::SpecError> {
    Configuration::new(text, text)
}

impl TuneArgs {
    /// What is tried.
    pub fn configurations(&self) -> Vec<Configuration> {
        if self.configurations.is_empty() {
            Configuration::ours()
        } else {
            self.configurations.clone()
        }
    }
}
