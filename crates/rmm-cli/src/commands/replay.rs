//! `rmm replay`.

mod checked;

use rmm_report::page::View;
use rmm_report::results::Report;
use rmm_report::trace::Trace;
use rmm_report::{columns, convert, page};

use super::{BAD_INPUT, Ended, FAILURE, SUCCESS};
use crate::args::{ReplayArgs, is_standard};
use crate::device::OpenDevice;
use crate::progress::bar_of_events;
use crate::replay::{self, ReplayOptions};
use crate::style::{NOTICE, paint};
use crate::{deliver, input, output, table, text};

/// `rmm replay`. All logs are read first, so that a bad one is known before anything is replayed or
/// written.
pub fn replay(args: &ReplayArgs) -> Ended {
    let prepared = input::read_all(&args.files, &args.outputs)
        .and_then(|traces| deliver::check(&args.outputs).map(|()| traces))
        .and_then(|traces| check_perfetto(args).map(|()| traces));
    let traces = match prepared {
        Ok(traces) => traces,
        Err(error) => return Ended::failed(BAD_INPUT, error),
    };
    if args.check {
        return checked::check(args, &traces);
    }
    let device = match OpenDevice::open(args.device) {
        Ok(device) => device,
        Err(message) => return Ended::failed(BAD_INPUT, message),
    };
    let mut messages = Vec::new();
    if device.is_software() {
        let reason =
            device.notice.as_deref().map(|notice| format!(" ({notice})")).unwrap_or_default();
        messages
            .push(format!("on the software device{reason}: its times say nothing about a GPU's"));
    }
    let report = match replay_all(args, &traces, &device) {
        Ok(report) => report,
        Err(error) => {
            messages.push(error);
            return Ended { text: String::new(), messages, status: FAILURE };
        }
    };
    let mut resources = report.traces.iter().flat_map(|trace| &trace.resources);
    let failed = resources.any(|resource| resource.failures > 0);
    let written = deliver::write(
        &args.outputs,
        tables(&report),
        || report.to_json(),
        || page::render(&report),
    );
    let status = if failed { FAILURE } else { SUCCESS };
    let written = written.and_then(|text| match write_perfetto(args, &traces, &report) {
        Ok(()) => Ok(text),
        Err(error) => Err((text, error)),
    });
    Ended { text: String::new(), messages, status }.delivered(written)
}

/// Whether the file for Perfetto can be written.
fn check_perfetto(args: &ReplayArgs) -> Result<(), String> {
    match &args.perfetto {
        Some(_) if args.files.len() > 1 => Err("--perfetto takes one log".to_owned()),
        Some(path) if is_standard(path) => Err("--perfetto takes a file".to_owned()),
        Some(path) => output::check(path).map_err(|error| error.to_string()),
        None => Ok(()),
    }
}

fn write_perfetto(args: &ReplayArgs, traces: &[Trace], report: &Report) -> Result<(), String> {
    let (Some(path), Some(trace)) = (&args.perfetto, traces.first()) else { return Ok(()) };
    let resources = report.traces.iter().flat_map(|trace| &trace.resources);
    let views: Vec<View> = resources.filter_map(|resource| resource.view.clone()).collect();
    let mut bytes = Vec::new();
    convert::perfetto_of_replay(trace, &views, &mut bytes).map_err(|error| error.to_string())?;
    output::write_atomically(path, &bytes).map_err(|error| error.to_string())
}

fn options(args: &ReplayArgs) -> ReplayOptions {
    let &ReplayArgs { repeat, threads, legacy_stream, .. } = args;
    ReplayOptions { repeat, threads, legacy_stream }
}

fn replay_all(args: &ReplayArgs, traces: &[Trace], device: &OpenDevice) -> Result<Report, String> {
    let options = options(args);
    let resources = args.distinct_resources();
    let events: u64 = traces.iter().map(|trace| trace.events.len() as u64).sum();
    let bar = bar_of_events(events * resources.len() as u64 * replay::passes(options));
    let mut report = Report {
        rmm_version: env!("CARGO_PKG_VERSION").to_owned(),
        device: device.name.clone(),
        software_device: device.is_software(),
        traces: Vec::new(),
    };
    for trace in traces {
        let mut result = replay::trace_result(trace);
        for resource in &resources {
            let name = trace.path.file_name().unwrap_or_default().to_string_lossy();
            bar.set_message(format!("{name} on {resource}"));
            let replayed =
                replay::replay(device, trace, resource, options, &|events| bar.inc(events))
                    .map_err(|error| format!("{}: {resource}: {error}", trace.path.display()))?;
            result.resources.push(replayed);
        }
        report.traces.push(result);
    }
    bar.finish_and_clear();
    Ok(report)
}

fn tables(report: &Report) -> String {
    let tables: Vec<String> = report.traces.iter().map(table::painted).collect();
    let note = columns::modelled(report).map(|note| text::wrap(&note, 2)).unwrap_or_default();
    tables.join("\n") + &paint(NOTICE, &note)
}
