//! Set-up of every benchmark: Criterion's settings, a device, where rows go.

#![forbid(unsafe_code)]

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use criterion::Criterion;
use rmm_cli::args::DeviceChoice;
use rmm_cli::device::OpenDevice;

use crate::outcome::Outcome;

/// Bytes that a pool starts with, so that it does not grow while it is timed.
pub(crate) const POOL_BYTES: u64 = 16 << 30;

/// Runs benchmarks on the device that is chosen by `RMM_DRIVER`, and says which that is.
///
/// The settings make a run short; the command line changes them.
pub fn run(benchmarks: impl FnOnce(&mut Criterion, &OpenDevice) -> Outcome) -> ExitCode {
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(500))
        .configure_from_args();
    let outcome = open(DeviceChoice::Auto).and_then(|device| benchmarks(&mut criterion, &device));
    criterion.final_summary();
    status("the benchmarks stopped", outcome)
}

/// The exit status of a program, whose error is printed after `what`.
pub fn status(what: &str, outcome: Outcome) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("{what}: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Opens a device, and says which it is.
///
/// # Errors
/// If there is no such device.
pub fn open(choice: DeviceChoice) -> Outcome<OpenDevice> {
    let device = OpenDevice::open(choice)?;
    say(&format!("on: {}", device.name));
    if device.is_software() {
        say("this is the software device: its times say nothing about a GPU's");
    }
    Ok(device)
}

/// Where a program's rows go: into a file, or to the standard output.
///
/// # Errors
/// If there can be no such file.
pub fn rows_to(path: Option<&Path>) -> Outcome<Box<dyn Write>> {
    let Some(path) = path else { return Ok(Box::new(io::stdout())) };
    Ok(Box::new(File::create(path).map_err(|error| format!("{}: {error}", path.display()))?))
}

/// Prints a message for the person who runs the program, beside the rows.
pub fn say(line: &str) {
    // Where even this cannot be written, the exit status still says it.
    writeln!(io::stderr(), "{line}").ok();
}
