//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use clap::{Args, Parser, Subcommand};
use rmm_spec::RESOURCE_VARIABLE;

mod memory_size;
mod resource;

pub use memory_size::MemorySize;
pub use resource::ResourceList;
pub use rmm_report::replay::ThreadMode;
pub use rmm_report::resource::ReplayResource;

/// GPU memory: inspect the machine, and replay allocation logs against memory resources.
#[derive(Clone, Debug, PartialEq, Eq, Parser)]
#[command(name = "rmm", version, about, max_term_width = 100, after_help = EXIT_STATUSES)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const EXIT_STATUSES: &str = "\
Exit statuses:
  0  every event succeeded
  1  some event failed, such as an allocation for which there was no memory
  2  bad input or usage; nothing was replayed
  3  --check found uses of memory that are not ordered";

/// The subcommands.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub enum Command {
    /// Report the GPUs, the driver and their features
    #[command(after_help = DOCTOR_HELP)]
    Doctor(DoctorArgs),
    /// Run a program on the software device, and report uses of memory that are not ordered, leaks
    /// and misuse
    #[command(long_about = CHECK_ABOUT, after_long_help = CHECK_HELP)]
    Check(CheckArgs),
    /// Replay allocation logs against one or more memory resources
    #[command(long_about = REPLAY_ABOUT, after_long_help = REPLAY_HELP)]
    Replay(ReplayArgs),
}

const DOCTOR_HELP: &str = "\
It needs no GPU: on a machine without one, the report says why there is none.

Exit statuses:
  0  the report was printed, whatever it says
  2  bad usage";

const REPLAY_ABOUT: &str = "\
Replay allocation logs against one or more memory resources

Reads logs that RMM's logging adaptor wrote (CSV with the header Thread,Time,Action,Pointer,Size,Stream; plain, gzip or \
zstd), makes the same calls in the same order, and prints for each resource the time of a call, the memory reserved \
and in use, and the failures.";

const REPLAY_HELP: &str = "\
Examples:
  rmm replay train.csv.gz
  rmm replay train.csv.gz etl.csv.zst --resource pool,cuda-async --html report.html
  rmm replay train.csv --device sim --repeat 1 --json result.json
  rmm replay train.csv --resource pool,cuda-async --check
  rmm replay train.csv --check --memory 24GiB
  rmm replay train.csv --resource 'limiting(pool(cuda, initial=1GiB), limit=8GiB),arena(cuda)'

Exit statuses:
  0  every event succeeded
  1  some event failed, such as an allocation for which there was no memory
  2  bad input or usage; nothing was replayed
  3  --check found uses of memory that are not ordered";

const CHECK_ABOUT: &str = "\
Run a program on the software device, and report uses of memory that are not ordered, leaks and misuse

The program loads the driver (libcuda) by name or is linked with it; it needs no GPU and no change. What \
compute-sanitizer is for the inside of kernels, this is for the order of streams: every copy, fill, launch, allocation \
and free is judged by the order that the program's own calls establish, whatever happened to run first.";

const CHECK_HELP: &str = "\
Examples:
  rmm check -- ./train --steps 2
  rmm check --report order.html -- python3 pipeline.py
  rmm check --kernel 'saxpy(float y[n], const float x[n], float a, size_t n)' -- ./saxpy
  rmm check --runtime stand-in/libcudart.so.13 -- ./program-in-cuda-c++

What it is not: the CUDA runtime (programs that use libcudart need private tables of the driver, which --runtime does \
without where they are linked with it dynamically; PyTorch and CuPy need more), and no device code runs: a kernel has to be declared by --kernel, is checked for the memory that its arguments \
name, and writes nothing.

What is not checked is said, and the status is then not 0: kernels that are not declared, functions that the device \
does not serve, and processes that do not end by their exit handlers (_exit, as workers of Python's multiprocessing do \
that it forks, exec, a signal, a crash) or live on when the program has ended.

Exit statuses:
  0  nothing was found, everything was checked, and the program's own status is 0
  1  nothing was found, but not everything was checked, or the program was killed
  2  bad usage, or the program could not be run
  3  something was found
  4  nothing was found; the program's own status is 1 to 4, and is printed
  a greater one: nothing was found, and it is the program's own";

/// Options of `rmm check`.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct CheckArgs {
    /// Also write the findings to this file, as an HTML page
    #[arg(long, value_name = "OUT.html")]
    pub report: Option<PathBuf>,

    /// A kernel that the program launches, as C declares it. `float y[n]` is memory that it writes,
    /// `const float x[n]` memory that it reads, and n another parameter. May be repeated
    #[arg(long = "kernel", value_name = "PROTOTYPE")]
    pub kernels: Vec<String>,

    /// How many devices there are
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=16))]
    pub devices: u32,

    /// Report no leaks
    #[arg(long)]
    pub no_leaks: bool,

    /// Report no call stacks, which take some microseconds at each access
    #[arg(long)]
    pub no_call_sites: bool,

    /// The stand-alone library of the software device; without this, `librmm_sim_driver.so` beside
    /// this program
    #[arg(long, value_name = "FILE", env = "RMM_SIM_LIBRARY")]
    pub library: Option<PathBuf>,

    /// A library that takes the place of libcudart, over the driver's functions, for programs that
    /// are linked with it dynamically. `cargo xtask rmm-tests --runtime DIR` in the repository of
    /// rmm builds one for CUDA 13
    #[arg(long, value_name = "FILE")]
    pub runtime: Option<PathBuf>,

    /// The program and its arguments
    #[arg(value_name = "PROGRAM", required = true, trailing_var_arg = true)]
    pub program: Vec<OsString>,
}

/// Options of `rmm doctor`.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct DoctorArgs {
    /// Print JSON instead of text
    #[arg(long)]
    pub json: bool,
}

/// Options of `rmm replay`.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct ReplayArgs {
    /// Logs to replay, each on its own
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,

    /// Resources to replay against, separated by commas: pool (over virtual memory where the device
    /// has it, else over cudaMalloc), pool-virtual, pool-cuda, pool-compact, cuda-async or cuda, or
    /// a stack of resources such as "statistics(pool(initial=1GiB, max=8GiB))". An arena without
    /// `size=` takes half of the device's free memory
    #[arg(long = "resource", value_name = "RESOURCE", env = RESOURCE_VARIABLE, default_value = "pool")]
    pub resources: Vec<ResourceList>,

    /// Where to replay: a GPU if there is one, otherwise the software device, which is reported
    /// (auto); the software device, on which times say nothing about a GPU (sim); or the GPU with
    /// this number
    #[arg(long, value_name = "auto|sim|N", default_value = "auto")]
    pub device: DeviceChoice,

    /// Replay each recorded thread on a thread of its own, in the recorded order; without this, one
    /// thread makes all the calls
    #[arg(long, value_name = "MODE", value_parser = PossibleValuesParser::new(["as-recorded"]).map(|_| ThreadMode::AsRecorded))]
    pub threads: Option<ThreadMode>,

    /// Replay what was recorded on the default stream (0x0, 0x1) on the legacy default stream,
    /// where programs such as PyTorch run; without this, every recorded stream becomes a
    /// non-blocking stream
    #[arg(long)]
    pub legacy_stream: bool,

    /// How often to replay each log: the first time on a fresh resource (cold), then on the same
    /// one (warm)
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub repeat: u32,

    /// Check stream order instead of measuring: use every block on the software device, and report
    /// uses of the same memory that are not ordered. A block is used on the stream that allocates
    /// it, and on the stream that frees it, which waits for the other first
    #[arg(long, conflicts_with_all = ["json", "html"])]
    pub check: bool,

    /// With --check: the memory of the software device, such as 24GiB (GiB is 2^30 bytes, GB 10^9)
    /// or a number of bytes. With little more than the log needs, a resource has to reuse memory
    /// across streams, and wait
    #[arg(long, value_name = "SIZE", requires = "check")]
    pub memory: Option<MemorySize>,

    /// Also write the results to this file as JSON
    #[arg(long, value_name = "OUT")]
    pub json: Option<PathBuf>,

    /// Also write a report with charts and heap maps to this file, one HTML page that needs nothing
    /// else
    #[arg(long, alias = "report", value_name = "OUT.html")]
    pub html: Option<PathBuf>,
}

impl ReplayArgs {
    /// The resources to replay against, each once, in the order in which they were first named.
    pub fn distinct_resources(&self) -> Vec<ReplayResource> {
        let mut distinct = Vec::new();
        for resource in self.resources.iter().flat_map(|list| &list.0) {
            if !distinct.contains(resource) {
                distinct.push(resource.clone());
            }
        }
        distinct
    }
}

/// Where to replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceChoice {
    /// A GPU if there is one, otherwise the software device.
    Auto,
    /// The software device.
    Software,
    /// The GPU with this number.
    Gpu(u32),
}

impl FromStr for DeviceChoice {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "auto" => Ok(Self::Auto),
            "sim" => Ok(Self::Software),
            _ => {
                text.parse().map(Self::Gpu).map_err(|_| "expected auto, sim or the number of a GPU")
            }
        }
    }
}

#[cfg(test)]
#[path = "args/tests.rs"]
mod tests;
