//! `rmm watch`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

pub(super) const ABOUT: &str = "\
Show the memory of a running program: what its pools hold now and at the peak,
and who has it

The program lets itself be watched: start it with RMM_WATCH=1 in its environment
(Python, C, C++), or let it call rmm_rs.watch(), rmm_rs_watch() or, in Rust,
rmm_report::watch::serve(). It shows the pools of its current device resources,
and those that it registers under a name. Its allocations never wait for this.";

pub(super) const HELP: &str = "\
Examples:
  rmm watch                             which programs can be watched
  rmm watch 4711                        a table each second
  rmm watch 4711 --count 1 --json       one reading
  rmm watch 4711 --html heap.html       a page of the heaps

Exit statuses:
  0  it was watched as long as was asked for, or until it ended
  1  a file could not be written
  2  there is no such program, it does not let itself be watched, or bad usage";

/// Options of `rmm watch`.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct WatchArgs {
    /// The process; without it, those that can be watched are listed
    #[arg(value_name = "PID")]
    pub pid: Option<u32>,

    /// Seconds between two readings
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds, requires = "pid")]
    pub interval: Duration,

    /// Readings; without it, until the program ends
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), requires = "pid")]
    pub count: Option<u64>,

    /// Print each reading as a line of JSON
    #[arg(long)]
    pub json: bool,

    /// Write a page of the heaps to this file, and end; `-` prints it
    #[arg(long, value_name = "FILE", requires = "pid", conflicts_with_all = ["json", "count"])]
    pub html: Option<PathBuf>,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let long_enough = seconds.filter(|seconds| *seconds >= Duration::from_millis(10));
    long_enough.ok_or_else(|| "seconds, at least 0.01".to_owned())
}
