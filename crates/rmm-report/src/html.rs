//! The HTML report: one page that needs no network, no script and no other file.
//!
//! It shows, for each trace, the table that the terminal shows and, for each resource, live and
//! reserved bytes over the events and a map of the heap at its fullest.

mod checked;
mod downsample;
mod draw;
mod escape;
mod figure;
mod heap;
mod layout;
mod live;
mod timeline;

pub use checked::render_check;
pub use live::render_live;

use std::fmt::Write as _;

use escape::escape;
use figure::Figure;

use crate::columns::{COLUMNS, describe, modelled, values};
use crate::format::{bytes, count, thousands};
use crate::results::{Report, ResourceResult, TraceResult};

const STYLE: &str = include_str!("html/report.css");

/// What the columns mean, for readers who did not run the program.
const NOTES: &str = "\
Live: bytes in use, each block rounded up to 256. Reserved: bytes held from the driver. Cold: the first replay, on a fresh \
resource; warm: the later ones. Times are host time for one event. Waits: how often a stream was made to wait for another \
so that memory could change hands. Leaks: blocks still live at the end of the trace.";

/// Renders a report as HTML. Deterministic: the same report gives the same bytes.
pub fn render(report: &Report) -> String {
    let mut page = Page::default();
    page.begin(&format!("rmm replay: {}", title(report)));
    header(&mut page, report);
    for trace in &report.traces {
        trace_section(&mut page, trace);
    }
    page.end()
}

/// HTML under construction.
#[derive(Default)]
struct Page {
    html: String,
}

impl Page {
    /// Begins the page: everything above its content.
    fn begin(&mut self, title: &str) {
        self.push(&format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n",
            escape(title)
        ));
    }

    /// Ends the page, and returns its text.
    fn end(mut self) -> String {
        self.push("</body>\n</html>\n");
        self.html
    }

    /// Appends markup; text in it must be escaped already.
    fn push(&mut self, markup: &str) {
        self.html.push_str(markup);
    }

    /// Appends an element with text in it.
    fn element(&mut self, tag: &str, text: &str) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.html, "<{tag}>{}</{tag}>", escape(text));
    }

    /// Appends a picture, with a heading and markup above it, and a caption below.
    fn figure(&mut self, heading: &str, figure: &Figure) {
        self.push("<figure>\n");
        self.element("h4", heading);
        self.push(&figure.legend);
        let _ = writeln!(self.html, "<div class=\"wide\">\n{}</div>", figure.svg);
        self.element("figcaption", &figure.caption);
        self.push("</figure>\n");
    }
}

fn title(report: &Report) -> String {
    report.traces.iter().map(|trace| trace.file.as_str()).collect::<Vec<_>>().join(", ")
}

fn header(page: &mut Page, report: &Report) {
    page.push("<header>\n");
    page.element("h1", "Memory replay");
    let device =
        if report.software_device { "the software device" } else { report.device.as_str() };
    page.element("p", &format!("Replayed on {device} by rmm {}.", report.rmm_version));
    if report.software_device {
        page.push("<p class=\"notice\">There was no GPU in this: times are those of the software device and say nothing \
                   about a GPU. Bytes, waits and failures of this library's allocators are those on a GPU.</p>\n");
    }
    if let Some(text) = modelled(report) {
        page.push(&format!("<p class=\"notice\">{}</p>\n", escape(&text)));
    }
    page.push("</header>\n");
    page.push("<section>\n");
    for trace in &report.traces {
        summary_table(page, trace);
    }
    page.push("<p class=\"note\">");
    page.push(&escape(NOTES));
    page.push("</p>\n</section>\n");
}

fn summary_table(page: &mut Page, trace: &TraceResult) {
    page.push("<div class=\"wide\">\n<table>\n<caption>");
    page.push(&format!("<b>{}</b> {}", escape(&trace.file), escape(&describe(trace))));
    page.push("</caption>\n<thead><tr>");
    for column in COLUMNS {
        page.push(&format!("<th scope=\"col\">{}</th>", escape(column)));
    }
    page.push("</tr></thead>\n<tbody>\n");
    for resource in &trace.resources {
        let [name, cells @ ..] = values(resource);
        page.push(if resource.failures > 0 { "<tr class=\"failed\">" } else { "<tr>" });
        page.push(&format!("<th scope=\"row\">{}</th>", escape(&name)));
        for cell in cells {
            page.push(&format!("<td>{}</td>", escape(&cell)));
        }
        page.push("</tr>\n");
    }
    page.push("</tbody>\n</table>\n</div>\n");
}

fn trace_section(page: &mut Page, trace: &TraceResult) {
    page.push("<section>\n");
    page.element("h2", &trace.file);
    for resource in &trace.resources {
        resource_section(page, resource);
    }
    page.push("</section>\n");
}

fn resource_section(page: &mut Page, resource: &ResourceResult) {
    page.element("h3", &resource.resource);
    page.element("p", &sentence(resource));
    if let Some(failure) = &resource.first_failure {
        page.push(&format!("<p class=\"notice\">First failure: {}</p>\n", escape(failure)));
    }
    match timeline::figure(resource) {
        Some(figure) => page.figure("Memory over the replay", &figure),
        None => page.element("p", "No timeline was recorded."),
    }
    match heap::figure(&resource.resource, &resource.heap_map, heap::Moment::Peak) {
        Some(figure) => page.figure("Heap at the peak", &figure),
        None => page.element("p", "No heap map was recorded."),
    }
}

fn sentence(resource: &ResourceResult) -> String {
    let reserved = match resource.peak_reserved_bytes {
        Some(reserved) => format!(" and {} reserved", bytes(reserved)),
        None => String::new(),
    };
    let mut text = format!(
        "{} replayed, {}. At most {} were live{reserved}.",
        count(resource.events, "event"),
        match resource.failures {
            0 => "none failed".to_owned(),
            failures => format!("{} failed", thousands(failures)),
        },
        bytes(resource.peak_live_bytes),
    );
    if let Some(counted) = resource.pool_peak_live_bytes {
        let _ = write!(text, " The pool counted at most {} live or cached.", bytes(counted));
    }
    if resource.leaked_blocks > 0 {
        let _ = write!(
            text,
            " {} ({}) still live at the end.",
            count(resource.leaked_blocks, "block"),
            bytes(resource.leaked_bytes)
        );
    }
    text
}
