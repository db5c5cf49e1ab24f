//! The logging adaptor writes the same log as RMM's for the same program.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use rmm_cli::args::DeviceChoice;
use rmm_cli::device::OpenDevice;
use rmm_cli::replay::{self, ReplayOptions};
use rmm_report::trace;

mod canonical;
mod program;

use canonical::canonical;

type Outcome = Result<(), Box<dyn Error + Send + Sync>>;

/// `README.md` says what wrote it.
fn rmm_log() -> PathBuf {
    let folder = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default();
    Path::new(&folder).join("tests/call_log/rmm.csv")
}

/// RMM logs requests of zero bytes. Here they reach no adaptor; the mark at the end has none.
fn without_zero_bytes(log: &str) -> String {
    let is_zero = |line: &&str| line.split(',').nth(4) == Some("0");
    log.split_inclusive('\n').filter(|line| !is_zero(line)).collect()
}

#[test]
fn our_log_of_the_program_is_rmm_s() -> Outcome {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("ours.csv");
    program::write(&OpenDevice::open(DeviceChoice::Software)?, &path)?;
    let theirs = canonical(&without_zero_bytes(&fs::read_to_string(rmm_log())?))?;
    assert_eq!(canonical(&without_zero_bytes(&fs::read_to_string(path)?))?, theirs);
    let counts = (theirs.lines.len(), theirs.threads, theirs.streams, theirs.blocks);
    assert_eq!(counts, (23, 3, 5, 10));
    Ok(())
}

#[test]
fn rmm_s_log_replays_here() -> Outcome {
    let trace = trace::read(&rmm_log())?;
    assert_eq!((trace.threads.len(), trace.streams.len(), trace.events.len()), (3, 5, 26));
    let device = OpenDevice::open(DeviceChoice::Software)?;
    let options = ReplayOptions { repeat: 2, ..ReplayOptions::default() };
    let result = replay::replay(&device, &trace, &"pool".parse()?, options, &|_| ())?;
    assert_eq!((result.failures, result.first_failure), (0, None));
    assert_eq!((result.leaked_blocks, result.events), (0, 26));
    assert_eq!(result.peak_live_bytes, trace.peak_live_aligned);
    Ok(())
}
