//! Our log of a program, and the log of the same program that RMM wrote.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rmm_benches::call_log;
use rmm_benches::call_log::Matched;
use rmm_cli::args::{DeviceChoice, ResourceKind};
use rmm_cli::device::OpenDevice;
use rmm_cli::replay::{self, Options};
use rmm_cli::trace;

type Outcome = Result<(), Box<dyn Error + Send + Sync>>;

/// `call-log/README.md` says what wrote it.
fn rmm_log() -> PathBuf {
    let folder = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default();
    Path::new(&folder).join("tests/call-log/rmm.csv")
}

fn call_log(arguments: &[&str]) -> Result<Output, std::io::Error> {
    Command::new(env!("CARGO_BIN_EXE_call-log")).args(arguments).output()
}

#[test]
fn our_log_of_the_program_is_rmm_s() -> Outcome {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("ours.csv");
    call_log::write(&OpenDevice::open(DeviceChoice::Software)?, &path)?;
    let matched = call_log::compare(&fs::read_to_string(rmm_log())?, &fs::read_to_string(path)?)?;
    assert_eq!(matched, Matched { rows: 26, threads: 3, streams: 5, blocks: 10 });
    Ok(())
}

#[test]
fn rmm_s_log_replays_here() -> Outcome {
    let trace = trace::read(&rmm_log())?;
    assert_eq!((trace.threads.len(), trace.streams.len(), trace.events.len()), (3, 5, 26));
    let device = OpenDevice::open(DeviceChoice::Software)?;
    let options = Options { repeat: 2, threads: None };
    let result = replay::replay(&device, &trace, ResourceKind::Pool, options, &|_| ())?;
    assert_eq!((result.failures, result.first_failure), (0, None));
    assert_eq!((result.leaked_blocks, result.events), (0, 26));
    assert_eq!(result.peak_live_bytes, trace.peak_live_aligned);
    Ok(())
}

#[test]
fn the_program_writes_and_compares() -> Outcome {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("ours.csv");
    let (ours, theirs) = (path.display().to_string(), rmm_log().display().to_string());
    let written = call_log(&["write", &ours, "--device", "sim"])?;
    assert!(written.status.success(), "{}", String::from_utf8_lossy(&written.stderr));
    let compared = call_log(&["compare", &theirs, &ours])?;
    let text = String::from_utf8(compared.stdout)?;
    assert_eq!(text, "the same 26 rows: 3 threads, 5 streams, 10 blocks\n");

    fs::write(&path, fs::read_to_string(&path)?.replace(",5000,", ",5001,"))?;
    let compared = call_log(&["compare", &theirs, &ours])?;
    assert_eq!(compared.status.code(), Some(1));
    assert!(String::from_utf8(compared.stderr)?.starts_with("call-log: 2 of 27 lines differ"));
    Ok(())
}
