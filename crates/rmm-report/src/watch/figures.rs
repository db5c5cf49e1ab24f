//! The figures of a program, as they are sent.

use std::ffi::OsString;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use rmm_adaptors::monitor::{PoolReading, Reading, TagReading};
use serde::{Deserialize, Serialize};

/// The figures of a program at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ProgramFigures {
    /// The process.
    pub pid: u32,
    /// Its program: the name of its file, and of the file that it runs.
    pub program: String,
    /// Milliseconds since 1970.
    pub time_ms: u64,
    /// Its pools.
    pub pools: Vec<WatchedPool>,
    /// The tags of each stack.
    pub tags: Vec<WatchedTag>,
}

/// The figures of a pool: those of [`PoolStatistics`](rmm_adaptors::PoolStatistics).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
#[expect(missing_docs, reason = "they are those of the pool's statistics")]
pub struct WatchedPool {
    /// The name under which it is read.
    pub pool: String,
    /// The ordinal of its device.
    pub device: Option<usize>,
    /// What the resource calls itself.
    pub resource: String,
    pub live_bytes: u64,
    pub peak_live_bytes: u64,
    pub reserved_bytes: u64,
    pub peak_reserved_bytes: u64,
    pub cached_bytes: u64,
    pub largest_free_bytes: u64,
    pub graph_bytes: u64,
    pub asleep_bytes: u64,
    pub allocations: u64,
    pub cached_allocations: u64,
    pub failed_allocations: u64,
    pub frees: u64,
    pub upstream_allocations: u64,
    pub upstream_frees: u64,
    pub stream_waits: u64,
    pub host_waits: u64,
}

/// The figures of a tag.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct WatchedTag {
    /// The name of the stack.
    pub pool: String,
    /// The ordinal of its device.
    pub device: Option<usize>,
    /// The tag.
    pub tag: String,
    /// Bytes of live blocks.
    pub live_bytes: u64,
    /// The most bytes at once.
    pub peak_bytes: u64,
}

impl ProgramFigures {
    /// What this process has now.
    pub(super) fn of_this_process(reading: &Reading) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            pid: std::process::id(),
            program: program(),
            time_ms: u64::try_from(now.as_millis()).unwrap_or(u64::MAX),
            pools: reading.pools.iter().map(WatchedPool::of).collect(),
            tags: reading.tags.iter().map(WatchedTag::of).collect(),
        }
    }
}

impl WatchedPool {
    fn of(reading: &PoolReading) -> Self {
        let counted = &reading.statistics;
        Self {
            pool: reading.pool.to_string(),
            device: reading.device,
            resource: reading.resource.to_owned(),
            live_bytes: counted.live_bytes,
            peak_live_bytes: counted.peak_live_bytes,
            reserved_bytes: counted.reserved_bytes,
            peak_reserved_bytes: counted.peak_reserved_bytes,
            cached_bytes: counted.cached_bytes,
            largest_free_bytes: counted.largest_free_bytes,
            graph_bytes: counted.graph_bytes,
            asleep_bytes: counted.asleep_bytes,
            allocations: counted.allocations,
            cached_allocations: counted.cached_allocations,
            failed_allocations: counted.failed_allocations,
            frees: counted.frees,
            upstream_allocations: counted.upstream_allocations,
            upstream_frees: counted.upstream_frees,
            stream_waits: counted.stream_waits,
            host_waits: counted.host_waits,
        }
    }
}

impl WatchedTag {
    fn of(reading: &TagReading) -> Self {
        Self {
            pool: reading.pool.to_string(),
            device: reading.device,
            tag: reading.usage.tag.name().to_owned(),
            live_bytes: reading.usage.live_bytes,
            peak_bytes: reading.usage.peak_bytes,
        }
    }
}

/// The name of the program's file, and of that which it is told to run or to open, if the first
/// argument is one: `python train.py`.
pub(super) fn program() -> String {
    of_arguments(std::env::args_os().take(2))
}

fn of_arguments(arguments: impl Iterator<Item = OsString>) -> String {
    let name = |argument: &OsString| {
        let name = Path::new(argument).file_name().unwrap_or(argument);
        name.to_string_lossy().into_owned()
    };
    let is_option = |argument: &OsString| argument.as_encoded_bytes().starts_with(b"-");
    let is_name = |argument: &OsString| !argument.is_empty() && !is_option(argument);
    arguments.filter(is_name).map(|argument| name(&argument)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_named_with_what_it_runs() {
        let of = |arguments: &[&str]| of_arguments(arguments.iter().map(OsString::from));
        assert_eq!(of(&["/usr/bin/python3", "jobs/train.py"]), "python3 train.py");
        assert_eq!(of(&["./solver", "--steps=3"]), "solver");
        assert_eq!(of(&["python", ""]), "python");
        assert_eq!(of(&[]), "");
    }
}
