//! `rmm replay`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use rmm_spec::RESOURCE_VARIABLE;

use super::{DeviceChoice, MemorySize, OutputArgs, ReplayResource, ResourceList, ThreadMode};

pub(super) const ABOUT: &str = "\
Replay allocation logs against one or more memory resources

Reads logs that RMM's logging adaptor wrote (CSV with the header Thread,Time,Action,Pointer,Size,Stream; plain, gzip or \
zstd), makes the same calls in the same order, and prints for each resource the time of a call, the memory reserved \
and in use, and the failures.";

pub(super) const HELP: &str = "\
Examples:
  rmm replay train.csv.gz
  zcat train.csv.gz | rmm replay - --json
  rmm replay train.csv.gz etl.csv --resource pool,cuda-async --html out.html
  rmm replay train.csv --device sim --repeat 1 --json=result.json
  rmm replay train.csv --resource pool,cuda-async --check
  rmm replay train.csv --check --memory 24GiB
  rmm replay train.csv --resource pool --perfetto train.pftrace
  rmm replay train.csv --resource 'limiting(pool(cuda), limit=8GiB),arena(cuda)'

Exit statuses:
  0  every event succeeded
  1  some event failed, such as an allocation for which there was no memory
  2  bad input or usage; nothing was replayed
  3  --check found uses of memory that are not ordered";

/// Options of `rmm replay`.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct ReplayArgs {
    /// Logs to replay, each on its own; `-` is standard input
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
    #[arg(long)]
    pub check: bool,

    /// With --check: the memory of the software device, such as 24GiB (GiB is 2^30 bytes, GB 10^9)
    /// or a number of bytes. With little more than the log needs, a resource has to reuse memory
    /// across streams, and wait
    #[arg(long, value_name = "SIZE", requires = "check")]
    pub memory: Option<MemorySize>,

    /// Also write the log for Perfetto, with what each resource held, and its growth, waits and
    /// failures, to this file
    #[arg(long, value_name = "FILE", conflicts_with = "check")]
    pub perfetto: Option<PathBuf>,

    /// Where the results go.
    #[command(flatten)]
    pub outputs: OutputArgs,
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
