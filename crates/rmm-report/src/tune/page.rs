//! The page of a tuning: what to copy, the table, and the pictures.

use std::fmt::Write as _;

use super::answer::{Answer, ConfigurationResult, Tuning};
use super::markup::escape;
use super::picture::{Figure, svg};
use crate::format::{count, mib, thousands};

const STYLE: &str = include_str!("page.css");

/// Renders tunings as HTML that needs nothing else. `device` names where replays were made.
pub fn render(tunings: &[Tuning], device: &str, version: &str) -> String {
    let files: Vec<&str> = tunings.iter().map(|tuning| tuning.file.as_str()).collect();
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>rmm tune: {}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <h1>Memory that the program needs</h1>\n<p>Replayed on {} by rmm {}.</p>\n",
        escape(&files.join(", ")),
        escape(device),
        escape(version)
    );
    for tuning in tunings {
        section(&mut page, tuning);
    }
    page.push_str("</body>\n</html>\n");
    page
}

/// The file, and the device of which it is, if the log has several.
pub(super) fn title(tuning: &Tuning) -> String {
    match tuning.recorded_device {
        Some(device) => format!("{}, device {device}", tuning.file),
        None => tuning.file.clone(),
    }
}

fn section(page: &mut String, tuning: &Tuning) {
    // Writing to a string does not fail.
    let _ = writeln!(
        page,
        "<section>\n<h2>{}</h2>\n<p>{}, {}, {}, peak live {} MiB.</p>",
        escape(&title(tuning)),
        count(tuning.events, "event"),
        count(tuning.threads, "thread"),
        count(tuning.streams, "stream"),
        mib(tuning.peak_live_bytes)
    );
    if tuning.failed_when_recorded > 0 {
        let failed = count(tuning.failed_when_recorded, "failed request");
        let _ = writeln!(
            page,
            "<p class=\"notice\">{failed} when the log was recorded, not repeated here: a program that was to have \
             that memory needs more.</p>"
        );
    }
    match (&tuning.answer, tuning.given_memory_bytes) {
        (Some(found), None) => answer(page, "It runs in", found),
        (Some(found), Some(_)) => answer(page, "It fits into", found),
        (None, Some(given)) => {
            let _ = writeln!(page, "<p class=\"notice\">Nothing fits into {} MiB.</p>", mib(given));
        }
        (None, None) => {
            page.push_str("<p class=\"notice\">It runs in no memory that was tried.</p>\n");
        }
    }
    if let Some(least) = &tuning.least {
        answer(page, "It would run in", least);
    }
    let memory = tuning.answer.as_ref().or(tuning.least.as_ref()).map(|found| found.memory_bytes);
    if let Some(found) = tuning.at_once.as_ref()
        && memory.is_some_and(|memory| found.memory_bytes < memory)
    {
        let (memory, resource) = (mib(found.memory_bytes), escape(&found.resource));
        let _ = writeln!(
            page,
            "<p>How much it needs depends on when the device's work is done. If it were always done at once, {memory} MiB would do, with <code>{resource}</code></p>"
        );
    }
    table(page, tuning);
    let figures = [
        Figure { title: "Driver calls", value: |point| point.driver_calls },
        Figure { title: "Waits", value: |point| Some(point.waits) },
    ];
    for figure in figures {
        if let Some(svg) = svg(tuning, &figure) {
            let _ = writeln!(
                page,
                "<figure>\n<figcaption>{} over memory: what more memory saves</figcaption>\n{svg}</figure>",
                figure.title
            );
        }
    }
    page.push_str("</section>\n");
}

fn answer(page: &mut String, runs: &str, answer: &Answer) {
    let _ = writeln!(
        page,
        "<p class=\"answer\">{runs} <b>{} MiB</b> with this resource:</p>\n<pre>{}</pre>",
        mib(answer.memory_bytes),
        escape(&answer.resource)
    );
    if let Some(less) = &answer.less {
        let _ = writeln!(
            page,
            "<p>In {} MiB, 2 % less, it fails: {}</p>",
            mib(less.memory_bytes),
            escape(&less.failure)
        );
    }
}

fn table(page: &mut String, tuning: &Tuning) {
    page.push_str(
        "<div class=\"wide\"><table>\n<thead><tr><th>configuration</th><th>MiB</th><th>if work is done at once</th>\
         <th>if it is done when waited for</th><th>waits</th><th>driver calls</th></tr></thead>\n<tbody>\n",
    );
    for (index, result) in tuning.configurations.iter().enumerate() {
        row(page, index, result);
    }
    page.push_str(
        "</tbody>\n</table></div>\n<p class=\"note\">The smallest memory in which all requests succeed. Waits are counted if work \
         is done when waited for, driver calls if it is done at once. More memory does not always fit better.</p>\n",
    );
}

fn row(page: &mut String, index: usize, result: &ConfigurationResult) {
    let memory = |bytes: Option<u64>| bytes.map_or_else(|| "-".to_owned(), mib);
    let number = |number: Option<u64>| number.map_or_else(|| "-".to_owned(), thousands);
    let _ = writeln!(
        page,
        "<tr><th scope=\"row\"><svg class=\"key c{index}\" viewBox=\"0 0 8 8\" aria-hidden=\"true\"><circle cx=\"4\" cy=\"4\" \
         r=\"4\"/></svg>{}<br><code>{}</code></th><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
        escape(&result.configuration),
        escape(&result.template),
        memory(result.memory_bytes),
        memory(result.at_once_memory_bytes),
        memory(result.when_waited_for_memory_bytes),
        number(result.waits),
        number(result.driver_calls)
    );
}
