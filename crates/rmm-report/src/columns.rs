//! The columns of the table of results, in the terminal and on the page.

use std::collections::BTreeSet;

use crate::format::{count, float, mib, thousands};
use crate::results::{Report, ResourceResult, TraceResult};

/// The columns, here and in the HTML report.
pub const COLUMNS: [&str; 11] = [
    "resource",
    "events",
    "cold ns/op",
    "warm ns/op",
    "peak live MiB",
    "peak reserved MiB",
    "reserved/live",
    "waits",
    "driver calls",
    "failures",
    "leaks",
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

/// Which figures of a report are those of a model: of pools of the driver, on the software device.
pub fn modelled(report: &Report) -> Option<String> {
    let resources = report.traces.iter().flat_map(|trace| &trace.resources);
    let models: BTreeSet<&str> = resources
        .filter(|resource| report.software_device && resource.has_driver_pool)
        .map(|resource| resource.resource.as_str())
        .collect();
    let names = models.into_iter().collect::<Vec<_>>().join(", ");
    (!names.is_empty()).then(|| {
        format!(
            "{names}: the software device models pools of the driver: their bytes and failures are not those of a GPU."
        )
    })
}

/// The values of one row, in the order of [`COLUMNS`].
pub fn values(resource: &ResourceResult) -> [String; COLUMNS.len()] {
    [
        resource.resource.clone(),
        thousands(resource.events),
        float(resource.cold_ns_per_op, 1),
        resource.warm_ns_per_op.map_or_else(|| "-".to_owned(), |ns| float(ns, 1)),
        mib(resource.peak_live_bytes),
        mib(resource.peak_reserved_bytes),
        float(resource.reserved_over_live, 3),
        resource.stream_waits.map_or_else(|| "-".to_owned(), thousands),
        resource.driver_calls.map_or_else(|| "-".to_owned(), thousands),
        thousands(resource.failures),
        thousands(resource.leaked_blocks),
    ]
}
