//! Times a vector's way to the device, through a kernel and back: by the containers, beside the
//! driver's own calls.

#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use rmm_benches::outcome::Outcome;
use rmm_benches::report;
use rmm_benches::round_trip::{Allocation, measure};
use rmm_benches::setup::{open, rows_to, say, status};
use rmm_cli::args::DeviceChoice;

/// Bytes that go each way.
const SIZES: [u32; 7] = [4 << 10, 16 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20, 256 << 20];

/// Bytes that all trips of one size and kind carry together, within these numbers of trips.
const BYTES: u32 = 3 << 30;
const TRIPS: std::ops::RangeInclusive<u32> = 40..=10_000;

/// Time upload, kernel and download by the containers, beside the driver's own calls.
#[derive(Debug, Parser)]
#[command(name = "round-trip", version)]
struct Args {
    /// Just enough to see that it runs; the figures say nothing
    #[arg(long)]
    quick: bool,
    /// Where the rows go instead of standard output
    #[arg(long, value_name = "FILE.csv")]
    output: Option<PathBuf>,
    /// Where to run: a GPU if there is one, else the software device (auto); the software device
    /// (sim); the GPU with this number
    #[arg(long, value_name = "auto|sim|N", default_value = "auto")]
    device: DeviceChoice,
}

fn main() -> ExitCode {
    status("round-trip", run(&Args::parse()))
}

fn run(args: &Args) -> Outcome {
    let device = open(args.device)?;
    let to = rows_to(args.output.as_deref())?;
    let mut rows = csv::Writer::from_writer(to);
    let mut figures = Vec::new();
    for bytes in SIZES {
        if args.quick && bytes > 1 << 20 {
            break;
        }
        let trips = (BYTES / bytes).clamp(*TRIPS.start(), *TRIPS.end());
        let trips = if args.quick { 3 } else { usize::try_from(trips)? };
        for allocation in [Allocation::Once, Allocation::EachTrip] {
            let figure = measure(&device, bytes / 4, allocation, trips)?;
            rows.serialize(&figure)?;
            // So that a run that is cut short leaves what it has measured.
            rows.flush()?;
            figures.push(figure);
        }
    }
    say(report::round_trips(&figures).trim_end());
    Ok(())
}
