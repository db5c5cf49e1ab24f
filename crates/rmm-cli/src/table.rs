//! The terminal table of a replayed trace.

use rmm_report::columns::{COLUMNS, describe, values};
use rmm_report::format::{bytes, count, mib};
use rmm_report::results::{ResourceResult, TraceResult};

use crate::style::{BAD, paint, plain};
use crate::text::{self, Row};

/// A paragraph about the trace, the table of its resources, and the first failure of each resource
/// that had one.
///
/// No line is longer than 80 columns, whatever the terminal has, so that output can be compared and
/// searched. Ends with a line feed.
pub fn render(trace: &TraceResult) -> String {
    plain(&painted(trace))
}

/// The same with the colours of a terminal.
pub(crate) fn painted(trace: &TraceResult) -> String {
    let header = COLUMNS.map(two_lines);
    let rows: Vec<Row> = trace.resources.iter().map(row).collect();
    let mut text = text::wrap(&format!("{}: {}", trace.file, describe(trace)), 2);
    text.push_str(&text::table(&header, &rows));
    for resource in &trace.resources {
        if let Some(failure) = &resource.first_failure {
            let failure =
                text::wrap(&format!("{}: first failure: {failure}", resource.resource), 2);
            text.push_str(&paint(BAD, failure.trim_end()));
            text.push('\n');
        }
    }
    text.push_str(&notes(trace));
    text
}

fn row(resource: &ResourceResult) -> Row {
    let style = (resource.failures > 0).then_some(BAD);
    Row { cells: values(resource).into(), style }
}

/// A header in two lines: `driver calls`, `reserved/live`.
fn two_lines(header: &str) -> String {
    match (header.split_once(' '), header.split_once('/')) {
        (Some((above, below)), _) => format!("{above}\n{below}"),
        (None, Some((above, below))) => format!("{above}\n/{below}"),
        (None, None) => header.to_owned(),
    }
}

/// What the figures do not say.
fn notes(trace: &TraceResult) -> String {
    let mut text = String::new();
    let mut note = |line: &str| text.push_str(&text::wrap(line, 2));
    if trace.ends_early {
        note(
            "the log ends before its program: that was killed or still runs, and what is live at the log's end is not counted as leaks",
        );
    }
    let leaks =
        trace.resources.iter().map(|resource| (resource.leaked_blocks, resource.leaked_bytes));
    if let Some((blocks @ 1.., leaked)) = leaks.max() {
        note(&format!(
            "{} ({}) still live at the end: leaks, unless the log ends before its program did",
            count(blocks, "block"),
            bytes(leaked),
        ));
    }
    for resource in &trace.resources {
        let taken = resource.initial_reserved_bytes;
        if taken > resource.peak_live_bytes.saturating_mul(2) {
            note(&format!(
                "{}: reserved {} MiB when it was created, before the first allocation: set `initial=` of a pool or `size=` of an arena (by default half of the free memory)",
                resource.resource,
                mib(taken),
            ));
        }
    }
    text
}
