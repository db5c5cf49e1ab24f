//! `rmm convert`.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use rmm_report::convert::{self, Moment, Usage};
use rmm_report::format;
use rmm_report::trace::Trace;

use super::{BAD_INPUT, Ended, FAILURE};
use crate::args::{ConvertArgs, OutputArgs, Target, is_standard};
use crate::{input, output};

/// `rmm convert`.
pub fn convert(args: &ConvertArgs) -> Ended {
    let Some(target) = args.target() else {
        let output = args.output.display();
        let mut message = format!("{output}: no known ending: say --to perfetto, pprof or csv");
        if args.output.extension().is_some_and(|ending| ending == "html") {
            message += "; rmm report --html writes a page";
        }
        return Ended::failed(BAD_INPUT, message);
    };
    let to = &args.output;
    if !is_standard(to)
        && let Err(error) = output::check(to)
    {
        return Ended::failed(BAD_INPUT, error.to_string());
    }
    let read = input::read_all(std::slice::from_ref(&args.file), &OutputArgs::default());
    let trace = match read.map(|mut traces| traces.pop()) {
        Ok(Some(trace)) => trace,
        Ok(None) => return Ended::failed(BAD_INPUT, "there is no log".to_owned()),
        Err(error) => return Ended::failed(BAD_INPUT, error),
    };
    if is_standard(to) {
        let mut stdout = BufWriter::new(io::stdout().lock());
        let written = write(&trace, target, args.at, &mut stdout).and_then(|()| stdout.flush());
        return match written {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Ended::failed(FAILURE, format!("cannot write to standard output: {error}"))
            }
            _ => Ended::succeeded(String::new()),
        };
    }
    let mut bytes = Vec::new();
    let written = write(&trace, target, args.at, &mut bytes).map_err(|error| error.to_string());
    let written = written
        .and_then(|()| output::write_atomically(to, &bytes).map_err(|error| error.to_string()));
    match written {
        Ok(()) => Ended::succeeded(summary(&trace, target, args.at, to)),
        Err(error) => Ended::failed(FAILURE, error),
    }
}

fn write(trace: &Trace, target: Target, at: Moment, to: &mut dyn Write) -> io::Result<()> {
    match target {
        Target::Perfetto => convert::perfetto(trace, to),
        Target::Pprof => convert::pprof(trace, at, to),
        Target::Csv => convert::csv(trace, to),
    }
}

/// What was written, and of pprof what is in use in it.
fn summary(trace: &Trace, target: Target, at: Moment, to: &Path) -> String {
    let events = format::count(trace.events.len() as u64, "event");
    let to = to.display();
    if target != Target::Pprof {
        return format!("{to}: {events}\n");
    }
    let Usage { events: after, blocks, bytes } = convert::usage(trace, at);
    let blocks = format::count(blocks, "block");
    format!("{to}: after {after} of {events}: {bytes} bytes in {blocks} in use\n")
}
