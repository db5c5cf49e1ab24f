//! Fixture logs.

use std::fs;
use std::io::Write as _;
use std::process::{Command, Output};

use rmm_report::trace::{self, Trace, TraceError};

/// The first line of every log.
pub(crate) const HEADER: &str = "Thread,Time,Action,Pointer,Size,Stream\n";

/// Reads a log that has these bytes.
pub(crate) fn read(bytes: &[u8]) -> Result<Trace, TraceError> {
    trace::read_from("log.csv", bytes)
}

/// Reads a log with these rows below the header.
pub(crate) fn rows(rows: &str) -> Result<Trace, TraceError> {
    read(format!("{HEADER}{rows}").as_bytes())
}

/// `bytes` as a gzip file.
pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).expect("writing to memory");
    encoder.finish().expect("writing to memory")
}

/// `bytes` as a zstd file.
pub(crate) fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).expect("writing to memory")
}

/// The program, with nothing in its environment that chooses a device.
pub(crate) fn program(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rmm"));
    command.args(args).env_remove("RMM_RESOURCE");
    command.env_remove("RMM_DRIVER").env_remove("RMM_CUDA_LIBRARY");
    command
}

/// Runs the program.
pub(crate) fn rmm(args: &[&str]) -> Output {
    program(args).output().expect("the program runs")
}

/// What a program wrote.
pub(crate) fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8")
}

/// A folder for one test, with files to name on a command line.
pub(crate) struct Folder(tempfile::TempDir);

impl Folder {
    /// An empty folder.
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    /// The path of a file in it, which need not exist.
    pub(crate) fn path(&self, name: &str) -> String {
        self.0.path().join(name).into_os_string().into_string().expect("UTF-8")
    }

    /// A log with these rows below the header; its path.
    pub(crate) fn log(&self, name: &str, rows: &str) -> String {
        let path = self.path(name);
        fs::write(&path, format!("{HEADER}{rows}")).expect("written");
        path
    }

    /// The names of the files in it, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path()).expect("there");
        let name = |entry: std::io::Result<fs::DirEntry>| {
            entry.expect("readable").file_name().into_string().expect("UTF-8")
        };
        let mut names: Vec<String> = entries.map(name).collect();
        names.sort();
        names
    }
}

/// The names in an object of JSON, sorted.
pub(crate) fn keys(value: &serde_json::Value) -> Vec<&str> {
    let mut keys: Vec<&str> =
        value.as_object().expect("an object").keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}

/// The names in the result of a resource.
pub(crate) const OF_A_RESOURCE: [&str; 16] = [
    "cold_ns_per_op",
    "driver_calls",
    "events",
    "failures",
    "first_failure",
    "has_driver_pool",
    "leaked_blocks",
    "leaked_bytes",
    "peak_live_bytes",
    "peak_reserved_bytes",
    "pool_peak_live_bytes",
    "repeats",
    "reserved_over_live",
    "resource",
    "stream_waits",
    "warm_ns_per_op",
];
