//! `rmm replay`.

use std::path::PathBuf;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use rmm_report::results::Report;
use rmm_report::trace::{self, Trace};
use rmm_report::{columns, html};

use super::{BAD_INPUT, Ended, FAILURE, SUCCESS};
use crate::args::{DeviceChoice, ReplayArgs};
use crate::device::OpenDevice;
use crate::replay::{self, Checked, ReplayOptions};
use crate::{findings, output, table};

/// `rmm replay`. All logs are read first, so that a bad one is known before anything is replayed or
/// written.
pub fn replay(args: &ReplayArgs) -> Ended {
    let traces: Result<Vec<Trace>, _> =
        args.files.iter().map(PathBuf::as_path).map(trace::read).collect();
    let traces = match traces {
        Ok(traces) => traces,
        Err(error) => return Ended::failed(BAD_INPUT, error.to_string()),
    };
    if args.check {
        return checked(args, &traces);
    }
    for path in args.json.iter().chain(&args.html) {
        // A replay may take minutes.
        if let Err(error) = output::check(path) {
            return Ended::failed(BAD_INPUT, error.to_string());
        }
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
            return Ended {
                messages: [messages, vec![error]].concat(),
                ..Ended::failed(FAILURE, String::new())
            };
        }
    };
    if let Err(error) = write_files(args, &report) {
        messages.push(error);
        return Ended { text: tables(&report), messages, status: FAILURE };
    }
    let failed = report
        .traces
        .iter()
        .flat_map(|trace| &trace.resources)
        .any(|resource| resource.failures > 0);
    Ended { text: tables(&report), messages, status: if failed { FAILURE } else { SUCCESS } }
}

/// `rmm replay --check`.
fn checked(args: &ReplayArgs, traces: &[Trace]) -> Ended {
    if let DeviceChoice::Gpu(_) = args.device {
        let message =
            "--check needs the software device: a GPU does not report the order of uses".to_owned();
        return Ended::failed(BAD_INPUT, message);
    }
    let mut ended = Ended { text: String::new(), messages: Vec::new(), status: SUCCESS };
    match check_all(args, traces) {
        Ok(found) => {
            for (name, checked) in &found {
                ended.text += &findings::render(name, checked, args.repeat);
                ended.status = ended.status.max(findings::status(checked));
            }
        }
        Err(error) => ended = Ended::failed(FAILURE, error),
    }
    ended
}

/// Each trace with each resource, on a device of its own.
fn check_all(args: &ReplayArgs, traces: &[Trace]) -> Result<Vec<(String, Checked)>, String> {
    let options = options(args);
    let resources = args.distinct_resources();
    let events: u64 = traces.iter().map(|trace| trace.events.len() as u64).sum();
    let bar = progress_bar(events * resources.len() as u64 * u64::from(args.repeat));
    let mut found = Vec::new();
    for trace in traces {
        for resource in &resources {
            let name = format!("{}: {resource}", trace.path.display());
            bar.set_message(name.clone());
            let device = OpenDevice::checked(args.memory)?;
            let checked =
                replay::check(&device, trace, resource, options, &|events| bar.inc(events))
                    .map_err(|error| format!("{name}: {error}"))?;
            found.push((name, checked));
        }
    }
    bar.finish_and_clear();
    Ok(found)
}

fn options(args: &ReplayArgs) -> ReplayOptions {
    let &ReplayArgs { repeat, threads, legacy_stream, .. } = args;
    ReplayOptions { repeat, threads, legacy_stream }
}

fn progress_bar(steps: u64) -> ProgressBar {
    let bar = ProgressBar::new(steps);
    let template = "{msg:32} [{bar:32}] {human_pos}/{human_len} events, {eta} left";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> "));
    }
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

fn replay_all(args: &ReplayArgs, traces: &[Trace], device: &OpenDevice) -> Result<Report, String> {
    let options = options(args);
    let resources = args.distinct_resources();
    let events: u64 = traces.iter().map(|trace| trace.events.len() as u64).sum();
    let bar = progress_bar(events * resources.len() as u64 * replay::passes(options));
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
    let tables: Vec<String> = report.traces.iter().map(table::render).collect();
    let note = columns::modelled(report).map(|text| text + "\n").unwrap_or_default();
    tables.join("\n") + &note
}

fn write_files(args: &ReplayArgs, report: &Report) -> Result<(), String> {
    if let Some(path) = &args.json {
        let json = report.to_json().map_err(|error| error.to_string())?;
        output::write_atomically(path, json.as_bytes()).map_err(|error| error.to_string())?;
    }
    if let Some(path) = &args.html {
        output::write_atomically(path, html::render(report).as_bytes())
            .map_err(|error| error.to_string())?;
    }
    Ok(())
}
