//! The terminal table of a replayed trace.

use std::fmt::Write as _;

use comfy_table::{CellAlignment, ContentArrangement, Row, Table, TableStyle, presets};

use rmm_report::columns::{COLUMNS, describe, values};
use rmm_report::format::{bytes, count, mib};
use rmm_report::results::TraceResult;

/// An empty table as wide as its content, with figures in all but the first columns.
pub fn of_figures(style: TableStyle, header: impl Into<Row>, first_figure: usize) -> Table {
    let mut table = Table::new();
    table.load_style(style).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header);
    for column in table.column_iter_mut().skip(first_figure) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// One line about the trace, the table of its resources, and the first failure of each resource
/// that had one.
///
/// The width does not depend on the terminal, so that output can be compared and grepped. Ends with
/// a line feed.
pub fn render(trace: &TraceResult) -> String {
    let mut table = of_figures(presets::UTF8_HORIZONTAL_ONLY, COLUMNS, 1);
    table.add_rows(trace.resources.iter().map(values));
    let mut text = format!("{}: {}\n", trace.file, describe(trace));
    for line in table.lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    for resource in &trace.resources {
        if let Some(failure) = &resource.first_failure {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{}: first failure: {failure}", resource.resource);
        }
    }
    text.push_str(&notes(trace));
    text
}

/// What the figures do not say, a line each.
fn notes(trace: &TraceResult) -> String {
    let mut text = String::new();
    if trace.ends_early {
        text.push_str(
            "the log ends in the middle of a line: its program was killed or still runs, and what is live at its end is not counted as leaks\n",
        );
    }
    let leaks =
        trace.resources.iter().map(|resource| (resource.leaked_blocks, resource.leaked_bytes));
    if let Some((blocks @ 1.., leaked)) = leaks.max() {
        let _ = writeln!(
            text,
            "{} ({}) still live at the end: leaks, unless the log ends before its program did",
            count(blocks, "block"),
            bytes(leaked),
        );
    }
    for resource in &trace.resources {
        let taken = resource.initial_reserved_bytes;
        if taken > resource.peak_live_bytes.saturating_mul(2) {
            let _ = writeln!(
                text,
                "{}: reserved {} MiB when it was created, before the first allocation: set `initial=` of a pool or `size=` of an arena (by default half of the free memory)",
                resource.resource,
                mib(taken),
            );
        }
    }
    text
}
