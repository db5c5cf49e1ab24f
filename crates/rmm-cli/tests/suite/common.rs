//! Logs to read.

use std::io::Write as _;

use rmm_cli::trace::{self, Trace, TraceError};

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
