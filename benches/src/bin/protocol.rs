//! Times the allocators of this repository on the work of `benches/README.md`, and prints one row
//! of CSV a figure.

#![forbid(unsafe_code)]

use std::error::Error;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use clap::builder::PossibleValuesParser;
use indicatif::{ProgressBar, ProgressStyle};
use rmm_benches::allocators::{KINDS, Kind};
use rmm_benches::pin;
use rmm_benches::rows::{Row, Writer};
use rmm_benches::setup::{open, rows_to, status};
use rmm_benches::workloads::{Bench, Extent, Recorded, WORKLOADS, Workload};
use rmm_cli::args::DeviceChoice;

/// Time memory resources on the same work as the allocators of others.
#[derive(Debug, Parser)]
#[command(name = "protocol", version)]
struct Args {
    /// The allocators, separated by commas; all of them if left out
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = allocator_names())]
    allocator: Vec<String>,
    /// The workloads, separated by commas; all of them if left out
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = workload_names())]
    workload: Vec<String>,
    /// Just enough of everything to see that it runs; the figures say nothing
    #[arg(long)]
    quick: bool,
    /// Where the rows go instead of standard output
    #[arg(long, value_name = "FILE.csv")]
    output: Option<PathBuf>,
    /// The folder of the recorded programs
    #[arg(long, value_name = "DIR")]
    traces: Option<PathBuf>,
    /// Measure nothing, but write the calls of the recorded programs into this folder, for runners
    /// of other allocators
    #[arg(long, value_name = "DIR")]
    write_ops: Option<PathBuf>,
    /// Print the names of the allocators, one a line, and measure nothing
    #[arg(long)]
    list: bool,
    /// Where to run: a GPU if there is one, else the software device (auto); the software device
    /// (sim); the GPU with this number
    #[arg(long, value_name = "auto|sim|N", default_value = "auto")]
    device: DeviceChoice,
}

fn allocator_names() -> PossibleValuesParser {
    KINDS.iter().map(|kind| kind.name).collect::<Vec<_>>().into()
}

fn workload_names() -> PossibleValuesParser {
    WORKLOADS.iter().map(|workload| workload.name).collect::<Vec<_>>().into()
}

fn main() -> ExitCode {
    status("protocol", run(&Args::parse()))
}

fn run(args: &Args) -> Result<(), Box<dyn Error>> {
    if args.list {
        for kind in KINDS {
            writeln!(io::stdout(), "{}", kind.name)?;
        }
        return Ok(());
    }
    let extent = if args.quick { Extent::Quick } else { Extent::Full };
    let traces = args.traces.clone().unwrap_or_else(traces_folder);
    if let Some(folder) = &args.write_ops {
        for recorded in Recorded::read_all(&traces, extent)? {
            recorded.write_ops(folder)?;
        }
        return Ok(());
    }
    let work = chosen(args);
    let replays = work.iter().any(|(_, workload)| workload.name == "replay");
    let recorded = if replays { Recorded::read_all(&traces, extent)? } else { Vec::new() };

    let device = open(args.device)?;
    if !device.is_software() {
        pin::enable();
    }
    let to = rows_to(args.output.as_deref())?;
    let mut writer = Writer::new(to);
    // It draws only when a workload ends, so that nothing else runs while the clock does.
    let bar = progress_bar(work.len() as u64);
    for (kind, workload) in work {
        bar.set_message(format!("{}: {}", kind.name, workload.name));
        let mut write =
            |row: &Row| bar.suspend(|| writer.write(row)).map_err(Box::<dyn Error>::from);
        let mut bench =
            Bench { device: &device, kind, extent, recorded: &recorded, write: &mut write };
        workload
            .run(&mut bench)
            .map_err(|error| format!("{}: {}: {error}", kind.name, workload.name))?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(())
}

/// The allocators asked for, each with those of the workloads asked for that suit it.
fn chosen(args: &Args) -> Vec<(&'static Kind, &'static Workload)> {
    let wanted =
        |list: &[String], name: &str| list.is_empty() || list.iter().any(|one| one == name);
    let kinds = KINDS.iter().filter(|kind| wanted(&args.allocator, kind.name));
    let of_kind = |kind: &'static Kind| {
        let workloads = WORKLOADS.iter().filter(|workload| workload.suits(kind));
        let workloads = workloads.filter(|workload| wanted(&args.workload, workload.name));
        workloads.map(move |workload| (kind, workload))
    };
    kinds.flat_map(of_kind).collect()
}

/// Beside the program in an archive, else where they are in the repository.
fn traces_folder() -> PathBuf {
    let program = std::env::current_exe().unwrap_or_default();
    let in_archive = program.parent().and_then(Path::parent).map(|folder| folder.join("traces"));
    in_archive
        .filter(|folder| folder.is_dir())
        .unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("traces"))
}

fn progress_bar(steps: u64) -> ProgressBar {
    let bar = ProgressBar::new(steps);
    if let Ok(style) = ProgressStyle::with_template("{msg:24} [{bar:32}] {pos}/{len}, {elapsed}") {
        bar.set_style(style.progress_chars("=> "));
    }
    bar
}
