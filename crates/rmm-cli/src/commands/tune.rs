//! `rmm tune`.

use rmm_report::replay::ReplayOptions;
use rmm_report::trace::Trace;
use rmm_report::tune::{self, Laboratory, MEMORY_PLACEHOLDER, Tuning};
use serde::Serialize;

use super::{BAD_INPUT, Ended, FAILURE, SUCCESS};
use crate::args::{DeviceChoice, MemorySize, TuneArgs};
use crate::device::OpenDevice;
use crate::laboratory::{GpuLaboratory, SoftwareLaboratory};
use crate::progress::bar_of_steps;
use crate::{advice, deliver, input};

/// The answers as data; `logs` has one for each log or device.
#[derive(Debug, Serialize)]
struct Tunings<'a> {
    rmm_version: &'static str,
    device: &'a str,
    /// Of the log that needs most.
    memory_bytes: Option<u64>,
    resource: Option<&'a str>,
    logs: &'a [Tuning],
}

/// `rmm tune`. All logs are read first, so that a bad one is known before anything is replayed.
pub fn tune(args: &TuneArgs) -> Ended {
    let prepared = input::read_all(&args.files, &args.outputs)
        .and_then(|traces| deliver::check(&args.outputs).map(|()| traces));
    let traces = match prepared {
        Ok(traces) => traces,
        Err(error) => return Ended::failed(BAD_INPUT, error),
    };
    let (tunings, device) = match tune_all(args, &traces) {
        Ok(tuned) => tuned,
        Err(error) => return Ended::failed(BAD_INPUT, error),
    };
    let has_all = tunings.iter().all(|tuning| tuning.answer.is_some());
    let written = deliver::write(
        &args.outputs,
        advice::render(&tunings),
        || deliver::to_json(&Tunings::of(&tunings, &device)),
        || tune::render(&tunings, &device, env!("CARGO_PKG_VERSION")),
    );
    let status = if has_all { SUCCESS } else { FAILURE };
    Ended { text: String::new(), messages: Vec::new(), status }.delivered(written)
}

impl<'a> Tunings<'a> {
    fn of(tunings: &'a [Tuning], device: &'a str) -> Self {
        let answers = tunings.iter().map(|tuning| tuning.answer.as_ref());
        let answers: Option<Vec<_>> = answers.collect();
        let largest = answers.into_iter().flatten().max_by_key(|answer| answer.memory_bytes);
        Self {
            rmm_version: env!("CARGO_PKG_VERSION"),
            device,
            memory_bytes: largest.map(|answer| answer.memory_bytes),
            resource: largest.map(|answer| answer.resource.as_str()),
            logs: tunings,
        }
    }
}

/// The tunings, and the device that they were made on.
fn tune_all(args: &TuneArgs, traces: &[Trace]) -> Result<(Vec<Tuning>, String), String> {
    let &TuneArgs { repeat, legacy_stream, .. } = args;
    let options = ReplayOptions { repeat, legacy_stream, threads: None };
    if args.device == DeviceChoice::Software {
        let laboratory = SoftwareLaboratory::new(options)?;
        return Ok((tune_each(args, traces, &laboratory)?, "the software device".to_owned()));
    }
    let device = OpenDevice::open(args.device)?;
    if device.is_software() {
        let laboratory = SoftwareLaboratory::new(options)?;
        return Ok((tune_each(args, traces, &laboratory)?, "the software device".to_owned()));
    }
    let open_ended =
        args.configurations.iter().find(|tried| !tried.template().contains(MEMORY_PLACEHOLDER));
    if let Some(open_ended) = open_ended {
        let name = open_ended.name();
        return Err(format!(
            "--resource {name}: the memory of a GPU is what it is: say where the memory to try goes, such as max={MEMORY_PLACEHOLDER}"
        ));
    }
    let laboratory = GpuLaboratory::new(&device, options);
    Ok((tune_each(args, traces, &laboratory)?, device.name.clone()))
}

fn tune_each(
    args: &TuneArgs,
    traces: &[Trace],
    laboratory: &impl Laboratory,
) -> Result<Vec<Tuning>, String> {
    let configurations = args.configurations();
    let memory = args.memory.map(MemorySize::bytes);
    let mut tunings = Vec::new();
    for trace in traces {
        let by_device = tune::by_device(trace);
        let mut parts: Vec<_> = by_device.iter().map(|(device, part)| (*device, part)).collect();
        if parts.is_empty() {
            parts.push((None, trace));
        }
        for (device, part) in parts {
            let bar = bar_of_steps(&trace.path.display().to_string());
            let progress = |progress: tune::Progress| {
                bar.set_length(progress.of);
                bar.set_position(progress.done);
                bar.set_message(progress.what);
            };
            let tuning = tune::tune(laboratory, part, &configurations, memory, &progress);
            bar.finish_and_clear();
            let failed = |error| format!("{}: {error}", trace.path.display());
            let mut tuning = tuning.map_err(failed)?;
            tuning.recorded_device = device;
            tunings.push(tuning);
        }
    }
    Ok(tunings)
}
