//! `rmm replay --check`.

use rmm_report::page;
use rmm_report::trace::Trace;

use super::options;
use crate::args::{DeviceChoice, ReplayArgs};
use crate::commands::{BAD_INPUT, Ended, FAILURE, SUCCESS, VIOLATIONS};
use crate::device::OpenDevice;
use crate::findings::{self, Finding};
use crate::progress::bar_of_events;
use crate::style::plain;
use crate::{deliver, replay};

/// `rmm replay --check`.
pub(super) fn check(args: &ReplayArgs, traces: &[Trace]) -> Ended {
    if let DeviceChoice::Gpu(_) = args.device {
        let message =
            "--check needs the software device: a GPU does not report the order of uses".to_owned();
        return Ended::failed(BAD_INPUT, message);
    }
    let found = match check_all(args, traces) {
        Ok(found) => found,
        Err(error) => return Ended::failed(FAILURE, error),
    };
    let render = |finding: &Finding| findings::render(finding, args.repeat);
    let text: String = found.iter().map(render).collect();
    let status = found.iter().map(findings::status).max().unwrap_or(SUCCESS);
    let verdict = match status {
        SUCCESS => "nothing is out of order",
        VIOLATIONS => "uses of memory are not ordered",
        _ => "not everything was checked",
    };
    let title = traces.iter().map(|trace| trace.path.display().to_string());
    let title = title.collect::<Vec<_>>().join(" ");
    let page = text.clone();
    let written = deliver::write(
        &args.outputs,
        text,
        || deliver::to_json(&found),
        || page::render_check(&title, verdict, &plain(&page)),
    );
    Ended { text: String::new(), messages: Vec::new(), status }.delivered(written)
}

/// Each trace with each resource, on a device of its own.
fn check_all(args: &ReplayArgs, traces: &[Trace]) -> Result<Vec<Finding>, String> {
    let options = options(args);
    let resources = args.distinct_resources();
    let events: u64 = traces.iter().map(|trace| trace.events.len() as u64).sum();
    let bar = bar_of_events(events * resources.len() as u64 * u64::from(args.repeat));
    let mut found = Vec::new();
    for trace in traces {
        for resource in &resources {
            let file = trace.path.display();
            bar.set_message(format!("{file}: {resource}"));
            let device = OpenDevice::checked(args.memory)?;
            let checked =
                replay::check(&device, trace, resource, options, &|events| bar.inc(events))
                    .map_err(|error| format!("{file}: {resource}: {error}"))?;
            found.push(Finding::new(file.to_string(), resource.to_string(), &checked));
        }
    }
    bar.finish_and_clear();
    Ok(found)
}
