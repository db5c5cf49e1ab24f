//! The columns of the table of results, in the terminal and on the page.

use std::collections::BTreeSet;

use crate::format::{count, float, mib, thousands};
use crate::results::{Report, ResourceResult, TraceResult};

/// The columns, here and in the HTML report. What all resources have in common is in
/// [`describe`]'s line.
pub const COLUMNS: [&str; 8] = [
    "resource",
    "reserved MiB",
    "reserved/live",
    "cold ns/call",
    "warm ns/call",
    "waits",
    "driver calls",
    "failures",
];

/// What is in the trace, without its name.
pub fn describe(trace: &TraceResult) -> String {
    format!(
        "{}, {}, {}, peak live {} MiB",
        count(trace.events, "event"),
        count(trace.threads, "thread"),
        count(trace.streams, "stream"),
        mib(trace.peak_live_bytes),
    )
}

/// Why some resources of a report have no figure for reserved bytes, if there are such.
pub fn modelled(report: &Report) -> Option<String> {
    let resources = report.traces.iter().flat_map(|trace| &trace.resources);
    let models: BTreeSet<&str> = resources
        .filter(|resource| resource.peak_reserved_bytes.is_none())
        .map(|resource| resource.resource.as_str())
        .collect();
    let names = models.into_iter().collect::<Vec<_>>().join(", ");
    (!names.is_empty()).then(|| {
        format!(
            "{names}: no reserved bytes, since the software device only models pools of the driver; failures are not those of a GPU either."
        )
    })
}

/// The values of one row, in the order of [`COLUMNS`].
pub fn values(resource: &ResourceResult) -> [String; COLUMNS.len()] {
    let ratio = resource.reserved_over_live.filter(|_| resource.failures == 0);
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    [
        resource.resource.clone(),
        or_dash(resource.peak_reserved_bytes.map(mib)),
        // What is live at most is not reached where a request fails.
        or_dash(ratio.map(|ratio| float(ratio, 3))),
        float(resource.cold_ns_per_op, 1),
        or_dash(resource.warm_ns_per_op.map(|nanos| float(nanos, 1))),
        or_dash(resource.stream_waits.map(thousands)),
        or_dash(resource.driver_calls.map(thousands)),
        thousands(resource.failures),
    ]
}
