//! `rmm convert`.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use rmm_report::convert::Moment;

pub(super) const ABOUT: &str = "\
Write a log or a snapshot of PyTorch in the format of another viewer

Perfetto shows live bytes, for each tag too, beside traces of kernels. pprof's tools draw flame graphs of what is in use \
and of what was allocated. As CSV, a snapshot of PyTorch becomes a log with all columns.";

pub(super) const HELP: &str = "\
Examples:
  rmm convert train.csv.gz -o train.pftrace        open at https://ui.perfetto.dev
  rmm convert snapshot.pickle -o peak.pb.gz        go tool pprof -http=: peak.pb.gz
  rmm convert snapshot.pickle -o end.pb.gz --at end
  rmm convert snapshot.pickle -o snapshot.csv      rmm replay snapshot.csv

Bytes are those that were asked for. A log does not say when a pool grew or waited (rmm replay --perfetto \
shows it for resources of ours); of a snapshot the growth of PyTorch's allocator is shown.

Exit statuses:
  0  written
  1  the output could not be written
  2  bad input or usage; nothing was written";

/// Options of `rmm convert`.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct ConvertArgs {
    /// The log or snapshot; `-` is standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// Where to write; `-` is standard output
    #[arg(long, short, value_name = "FILE")]
    pub output: PathBuf,

    /// The format; without it the output's name says it: .pftrace or .perfetto-trace, .pb.gz or
    /// .pprof, .csv
    #[arg(long, value_name = "FORMAT")]
    pub to: Option<Target>,

    /// What is in use in a pprof profile: at the peak, at the end, or after the event with this
    /// number, from 0
    #[arg(long, value_name = "peak|end|EVENT", default_value = "peak", value_parser = moment)]
    pub at: Moment,
}

/// A format to convert to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Target {
    /// Perfetto's protobuf trace
    Perfetto,
    /// pprof's profile, compressed with gzip
    Pprof,
    /// RMM's log, with all columns
    Csv,
}

impl ConvertArgs {
    /// The format, said or named by the output.
    pub fn target(&self) -> Option<Target> {
        self.to.or_else(|| by_name(&self.output))
    }
}

fn by_name(output: &Path) -> Option<Target> {
    let name = output.file_name()?.to_str()?;
    let ends = |endings: &[&str]| endings.iter().any(|ending| name.ends_with(ending));
    match () {
        () if ends(&[".pftrace", ".perfetto-trace"]) => Some(Target::Perfetto),
        () if ends(&[".pb.gz", ".pprof"]) => Some(Target::Pprof),
        () if ends(&[".csv"]) => Some(Target::Csv),
        () => None,
    }
}

fn moment(text: &str) -> Result<Moment, String> {
    match text {
        "peak" => Ok(Moment::Peak),
        "end" => Ok(Moment::End),
        _ => text
            .parse()
            .map(Moment::Event)
            .map_err(|_| "expected peak, end or the number of an event".to_owned()),
    }
}
