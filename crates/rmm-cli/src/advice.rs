//! The answers of `rmm tune` as text.

use std::fmt::Write as _;

use rmm_report::format::{MIB, count, float, mib, thousands};
use rmm_report::tune::{Answer, ConfigurationResult, Tuning};

use crate::style::{ANSWER, BAD, NOTICE, paint};
use crate::text::{Row, table, wrap};

/// How the line is used, once for all logs.
const USE: &str = "
Use the line as the text of a resource:
  Rust     text.parse::<rmm::ResourceSpec>()?.build()?
  Python   rmm_rs.mr.SpecMemoryResource(text)
  PyTorch  rmm_rs.torch.install(text)
  shell    rmm replay --repeat 1 --resource 'text' LOG
";

/// What the columns mean.
const NOTES: &str = "\
Memory in MiB. It is enough if work is done at once, and if it is done only when waited for. \
Waits are counted in the second case, driver calls in the first.";

/// The answer for each log, with a table. Ends with a line feed.
pub(crate) fn render(tunings: &[Tuning]) -> String {
    let mut parts: Vec<String> = tunings.iter().map(section).collect();
    let answers = |tuning: &Tuning| tuning.answer.is_some() || tuning.least.is_some();
    let has_answer = tunings.iter().any(answers);
    if let (true, Some(last)) = (has_answer, parts.last_mut()) {
        last.push_str(USE);
    }
    parts.join("\n")
}

fn section(tuning: &Tuning) -> String {
    let mut file = tuning.file.clone();
    if let Some(device) = tuning.recorded_device {
        file = format!("{file}, device {device}");
    }
    let heading = format!(
        "{file}: {}, {}, {}, peak live {} MiB",
        count(tuning.events, "event"),
        count(tuning.threads, "thread"),
        count(tuning.streams, "stream"),
        mib(tuning.peak_live_bytes)
    );
    let mut text = wrap(&heading, 2);
    match (&tuning.answer, tuning.given_memory_bytes) {
        (Some(answer), None) => text.push_str(&answered("It runs in", answer, tuning)),
        (Some(answer), Some(_)) => text.push_str(&answered("It fits into", answer, tuning)),
        (None, Some(given)) => {
            text.push_str(&bad(&format!("Nothing that was tried fits into {} MiB.", mib(given))));
        }
        (None, None) => {
            text.push_str(&bad("It runs in no memory that was tried."));
            let failures = tuning.configurations.iter().filter_map(|result| {
                Some(format!("{}: {}", result.configuration, result.failure.as_ref()?))
            });
            text.extend(failures.take(1).map(|failure| wrap(&failure, 2)));
        }
    }
    if let Some(least) = &tuning.least {
        text.push_str(&answered("It would run in", least, tuning));
    }
    let memory = tuning.answer.as_ref().or(tuning.least.as_ref()).map(|found| found.memory_bytes);
    if let Some(found) = tuning.at_once.as_ref()
        && memory.is_some_and(|memory| found.memory_bytes < memory)
    {
        let memory = mib(found.memory_bytes);
        text.push_str(&wrap(
            &format!("If its work were always done at once, {memory} MiB would do:"),
            2,
        ));
        // Writing to a string does not fail.
        let _ = writeln!(text, "  {}", found.resource);
    }
    text.push('\n');
    text.push_str(&configurations(tuning));
    text.push_str(&wrap(NOTES, 0));
    for note in notes(tuning) {
        text.push_str(&paint(NOTICE, wrap(&note, 2).trim_end()));
        text.push('\n');
    }
    text
}

fn bad(text: &str) -> String {
    format!("{}\n", paint(BAD, wrap(text, 0).trim_end()))
}

fn answered(runs: &str, answer: &Answer, tuning: &Tuning) -> String {
    let share = match tuning.peak_live_bytes {
        peak @ MIB.. => format!(", {} times its peak", ratio(answer.memory_bytes, peak)),
        _ => String::new(),
    };
    let memory = mib(answer.memory_bytes);
    let mut text = wrap(&format!("{runs} {memory} MiB{share}, with this resource:"), 0);
    // Writing to a string does not fail.
    let _ = writeln!(text, "\n  {}", paint(ANSWER, &answer.resource));
    if let Some(less) = &answer.less {
        // What follows is about that moment of the pool.
        let failure = less.failure.split("; ").next().unwrap_or_default();
        text.push('\n');
        let line = format!("In {} MiB, 2 % less, it does not: {failure}", mib(less.memory_bytes));
        text.push_str(&wrap(&line, 2));
    }
    text
}

#[expect(clippy::cast_precision_loss, reason = "a ratio for people")]
fn ratio(bytes: u64, of: u64) -> String {
    float(bytes as f64 / of.max(1) as f64, 2)
}

fn configurations(tuning: &Tuning) -> String {
    let is_fit = tuning.given_memory_bytes.is_some() && tuning.answer.is_some();
    let has_paces =
        tuning.configurations.iter().any(|result| result.at_once_memory_bytes.is_some());
    let mut header = vec!["configuration", if is_fit { "holds" } else { "memory" }];
    if has_paces {
        header.extend(["done\nat once", "done when\nwaited for"]);
    }
    header.extend(["waits", "driver\ncalls"]);
    let header: Vec<String> = header.into_iter().map(str::to_owned).collect();
    let chosen = tuning.answer.as_ref().or(tuning.least.as_ref());
    let row = |result: &ConfigurationResult| {
        let number = |number: Option<u64>| number.map_or_else(dash, thousands);
        let at_pace = |bytes: Option<u64>| match (is_fit, bytes) {
            (true, Some(_)) => "fits".to_owned(),
            (_, bytes) => memory(bytes),
        };
        let own = if is_fit { result.reserved_bytes } else { result.memory_bytes };
        let mut cells = vec![result.configuration.clone(), memory(own)];
        if has_paces {
            cells.push(at_pace(result.at_once_memory_bytes));
            cells.push(at_pace(result.when_waited_for_memory_bytes));
        }
        cells.extend([number(result.waits), number(result.driver_calls)]);
        let is_chosen = chosen.is_some_and(|answer| answer.configuration == result.configuration);
        Row { cells, style: is_chosen.then_some(ANSWER) }
    };
    let rows: Vec<Row> = tuning.configurations.iter().map(row).collect();
    table(&header, &rows)
}

fn memory(bytes: Option<u64>) -> String {
    bytes.map_or_else(dash, mib)
}

fn dash() -> String {
    "-".to_owned()
}

/// What the figures do not say.
fn notes(tuning: &Tuning) -> Vec<String> {
    let mut notes = Vec::new();
    if tuning.failed_when_recorded > 0 {
        notes.push(format!(
            "{} when the log was recorded, not repeated here: a program that was to have that memory needs more",
            count(tuning.failed_when_recorded, "failed request")
        ));
    }
    let is_left_out =
        |result: &ConfigurationResult| result.memory_bytes.is_none() && result.failure.is_none();
    if tuning.configurations.iter().any(is_left_out) {
        notes.push(
            "the log is long: only the best configurations were tried with work that is done when waited for".to_owned(),
        );
    }
    if tuning.ends_early {
        notes.push("the log ends before its program: what that did later may need more".to_owned());
    }
    notes
}
