//! The answers in words, for the page and for the terminal.

use std::fmt::Write as _;

use serde::Serialize;

use super::Answers;
use super::compare::Compared;
use super::failed::{Failed, WhatItTakes};
use super::growth::Grower;
use super::share::{Grouping, Holder, Share};
use super::split::Split;
use crate::format::{bytes, count, float, thousands};

/// The answer to one question.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Answer {
    /// The question.
    pub question: &'static str,
    /// The answer, in a few sentences.
    pub short: String,
    /// What stands behind it, one line each.
    pub rows: Vec<AnswerRow>,
    /// What rows are.
    pub caption: String,
}

/// A line of an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AnswerRow {
    /// What.
    pub what: String,
    /// How much.
    pub value: String,
    /// More about it, which may be empty.
    pub note: String,
    /// The position that it is about, if there is one.
    pub position: Option<u32>,
}

impl AnswerRow {
    fn new(what: impl Into<String>, value: String, note: impl Into<String>) -> Self {
        Self { what: what.into(), value, note: note.into(), position: None }
    }
}

/// The questions about one view, each with its answer.
pub fn say(answers: &Answers) -> Vec<Answer> {
    vec![peak(answers), failure(answers), growth(answers), kind_of_loss(answers), settings(answers)]
}

/// A position, and its time if that is known.
pub(crate) fn at(position: u32, time_ns: Option<u64>) -> String {
    let event = match position {
        0 => "before the first event".to_owned(),
        _ => format!("at event {}", thousands(position.into())),
    };
    time_ns.map_or(event.clone(), |time| format!("{event}, {} in", duration(time)))
}

/// A time with the unit that suits it.
pub(crate) fn duration(nanoseconds: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "a time for people")]
    let seconds = nanoseconds as f64 / 1e9;
    match nanoseconds {
        0..10_000_000 => format!("{} ms", float(seconds * 1e3, 2)),
        10_000_000..120_000_000_000 => format!("{} s", float(seconds, 2)),
        _ => format!("{} min", float(seconds / 60.0, 1)),
    }
}

/// A share of a whole in percent.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "0 %".to_owned();
    }
    let tenths = u128::from(part) * 1000 / u128::from(whole);
    if tenths < 100 {
        format!("{}.{} %", tenths / 10, tenths % 10)
    } else {
        format!("{} %", tenths / 10)
    }
}

fn peak(answers: &Answers) -> Answer {
    let peak = &answers.peak;
    let mut short = format!(
        "{} in {}, {}.",
        bytes(peak.bytes),
        count(peak.blocks, "block"),
        at(peak.position, peak.time_ns)
    );
    if peak.is_spike(answers.events) {
        let _ = write!(
            short,
            " It is a short spike: only {} within a tenth of it, and 19 of 20 stay below {}.",
            if peak.near == 1 {
                "1 event comes".to_owned()
            } else {
                format!("{} come", count(peak.near, "event"))
            },
            bytes(peak.usual_bytes)
        );
    }
    let named =
        peak.shares.iter().find(|share| matches!(share.kind, Grouping::Tag | Grouping::Site));
    if let Some(share) = named {
        let _ = write!(
            short,
            " Most was held by {} ({}).",
            share.name,
            percent(share.bytes, peak.bytes)
        );
    }
    let mut rows = share_rows(&peak.shares, peak.bytes);
    rows.extend(peak.largest.iter().map(holder_row));
    let question = "What was the peak, when, and who held it?";
    Answer { question, short, rows, caption: "Who held it".to_owned() }
}

fn share_rows(shares: &[Share], whole: u64) -> Vec<AnswerRow> {
    // By stream only where nothing else is known, and of sizes fewer.
    let is_named = shares.iter().any(|share| matches!(share.kind, Grouping::Tag | Grouping::Site));
    let shown =
        |share: &&Share| !(is_named && matches!(share.kind, Grouping::Size | Grouping::Stream));
    let row = |share: &Share| {
        let note = format!("{}, {}", percent(share.bytes, whole), count(share.blocks, "block"));
        AnswerRow::new(share.name.clone(), bytes(share.bytes), note)
    };
    shares.iter().filter(shown).map(row).collect()
}

fn holder_row(holder: &Holder) -> AnswerRow {
    let until =
        holder.end.map_or("never freed".to_owned(), |end| format!("to {}", thousands(end.into())));
    let life = format!("events {} {until}", thousands(holder.start.into()));
    let mut note = [life, format!("stream {}", holder.stream)].join(", ");
    for name in [&holder.tag, &holder.site] {
        if !name.is_empty() {
            note = format!("{note}, {name}");
        }
    }
    AnswerRow {
        position: Some(holder.start),
        ..AnswerRow::new("one block", bytes(holder.bytes), note)
    }
}

fn failure(answers: &Answers) -> Answer {
    let question = "Which request failed, and what would have let it succeed?";
    let Some(failed) = &answers.failed else {
        let short = "None failed.".to_owned();
        return Answer { question, short, ..Answer::default() };
    };
    let mut short =
        format!("The first was {}, {}", bytes(failed.bytes), at(failed.position, failed.time_ns));
    if !failed.tag.is_empty() {
        let _ = write!(short, ", by {}", failed.tag);
    }
    if !failed.site.is_empty() {
        let _ = write!(short, ", from {}", failed.site);
    }
    let others = match failed.count {
        1 => "no other failed".to_owned(),
        more => format!("{} failed in all", thousands(more)),
    };
    let _ = write!(short, "; {others}. {}", remedy(failed));
    let mut rows = vec![AnswerRow {
        position: Some(failed.position),
        ..AnswerRow::new("asked for", bytes(failed.bytes), format!("stream {}", failed.stream))
    }];
    rows.extend(split_rows(&failed.split));
    if !failed.text.is_empty() {
        rows.push(AnswerRow::new("the error", String::new(), failed.text.clone()));
    }
    rows.extend(share_rows(&failed.shares, failed.split.live_bytes()));
    Answer { question, short, rows, caption: "What there was at that moment".to_owned() }
}

fn remedy(failed: &Failed) -> String {
    match failed.remedy {
        WhatItTakes::Wait { hole_bytes } => format!(
            "A range of {} was free, but not available: it was waiting for another stream, or a limit \
             above the pool refused.",
            bytes(hole_bytes)
        ),
        WhatItTakes::Join { free_bytes, missing_bytes } => format!(
            "{} were free, in pieces that are too small: in one piece they would have been enough. A \
             pool over virtual memory (pool-virtual) joins free pages; {} more memory would do, too.",
            bytes(free_bytes),
            bytes(missing_bytes)
        ),
        WhatItTakes::More { missing_bytes } => format!(
            "It would have fitted with {} more memory, or with as much less that is live.",
            bytes(missing_bytes)
        ),
        WhatItTakes::Total { bytes: total } => format!(
            "With what was live it makes {}: so much memory for this program would have been enough, \
             if none is lost between blocks.",
            bytes(total)
        ),
    }
}

fn growth(answers: &Answers) -> Answer {
    let question = "Does memory grow, and what grows?";
    let growth = &answers.growth;
    if !growth.is_known {
        let short = "There are too few events to say.".to_owned();
        return Answer { question, short, ..Answer::default() };
    }
    if !growth.grows {
        let short = format!(
            "No: what stays live does not rise between events {} and {}.",
            thousands(growth.from.into()),
            thousands(growth.to.into())
        );
        return Answer { question, short, ..Answer::default() };
    }
    let mut short = format!(
        "Yes, by {} between events {} and {}",
        bytes(growth.bytes),
        thousands(growth.from.into()),
        thousands(growth.to.into())
    );
    let events = u64::from(growth.to - growth.from).max(1);
    let _ =
        write!(short, " ({} in 1,000 events).", bytes(growth.bytes.saturating_mul(1000) / events));
    if let Some(first) = growth.growers.first() {
        let left = if first.left_bytes == 0 && answers.leaked_bytes == 0 {
            ", though all of it is freed at the end"
        } else {
            ""
        };
        let _ = write!(short, " Most of it: {}{left}.", first.name);
    }
    let row = |grower: &Grower| {
        let note = match grower.left_bytes {
            0 => "all freed at the end".to_owned(),
            left => format!("{} never freed", bytes(left)),
        };
        AnswerRow::new(grower.name.clone(), format!("+{}", bytes(grower.bytes)), note)
    };
    let rows = growth.growers.iter().map(row).collect();
    Answer { question, short, rows, caption: "What grows".to_owned() }
}

fn kind_of_loss(answers: &Answers) -> Answer {
    let question = "Leak or fragmentation?";
    let split = &answers.split;
    let growth = if answers.growth.grows { answers.growth.bytes } else { 0 };
    let leak = answers.leaked_bytes.max(growth);
    let parts = [
        (
            leak,
            if growth > 0 { "Growth" } else { "A leak" },
            if growth > 0 {
                "what stays live becomes more and more"
            } else {
                "blocks that are never freed"
            },
        ),
        (
            split.hole_bytes,
            "Fragmentation",
            "free memory between live blocks, in pages that are in use",
        ),
        (
            split.whole_free_bytes,
            "Neither, but unused memory",
            "whole free pages, which the pool keeps for later",
        ),
        (
            split.other_bytes,
            "Neither, but other memory",
            "held beyond the blocks whose addresses are known",
        ),
        (split.rounding_bytes, "Rounding", "sizes rounded up to 256 bytes"),
    ];
    let most = parts
        .into_iter()
        .max_by_key(|&(bytes, ..)| bytes)
        .filter(|&(bytes, ..)| bytes >= split.held_bytes / 20 && bytes > 0);
    let live = split.live_bytes();
    let mut short = match most {
        Some((lost, name, what)) => format!("{name}: {} are {what}.", bytes(lost)),
        None => "Neither.".to_owned(),
    };
    let held = if split.is_known { "held" } else { "in the pages that live blocks are in" };
    let _ = write!(
        short,
        " Of {} {held}, {} were live, {}.",
        bytes(split.held_bytes),
        percent(live, split.held_bytes),
        at(split.position, None)
    );
    let left = match answers.leaked_blocks {
        0 => "Nothing is left at the end".to_owned(),
        blocks => {
            format!("{} ({}) never freed", count(blocks, "block"), bytes(answers.leaked_bytes))
        }
    };
    let _ = write!(short, " {left}.");
    let caption = if split.is_known {
        "What was held"
    } else {
        "Recorded addresses; a log does not say what was held"
    };
    Answer { question, short, rows: split_rows(split), caption: caption.to_owned() }
}

fn split_rows(split: &Split) -> Vec<AnswerRow> {
    let row = |what: &str, part: u64, note: String| {
        let note = match (note.is_empty(), split.held_bytes) {
            (_, 0) => note,
            (true, held) => percent(part, held),
            (false, held) => format!("{}, {note}", percent(part, held)),
        };
        AnswerRow::new(what, bytes(part), note)
    };
    let holes = format!(
        "{}, the largest {}",
        count(split.holes, "free range"),
        bytes(split.largest_hole_bytes)
    );
    let mut rows = vec![AnswerRow {
        position: Some(split.position),
        ..row(if split.is_known { "held" } else { "pages in use" }, split.held_bytes, String::new())
    }];
    rows.push(row("live", split.asked_bytes, count(split.blocks, "block")));
    rows.push(row("rounding", split.rounding_bytes, "to 256 bytes".to_owned()));
    rows.push(row("holes", split.hole_bytes, holes));
    if split.is_known {
        rows.push(row("whole free pages", split.whole_free_bytes, "of 2 MiB".to_owned()));
        rows.push(row(
            "other",
            split.other_bytes,
            "caches, padding, memory without a map".to_owned(),
        ));
    }
    rows
}

fn settings(answers: &Answers) -> Answer {
    let question = "Which pool, settings and amount of memory?";
    let settings = &answers.settings;
    let mut short = format!("At least {}: that much is live at once.", bytes(settings.least_bytes));
    if let (Some(used), Some(resource)) = (settings.used_bytes, &answers.resource) {
        let waits = match settings.waits {
            0 => "without a wait".to_owned(),
            waits => format!("with {}", count(waits, "wait")),
        };
        let _ = write!(short, " {resource} held {} at most, {waits}.", bytes(used));
    }
    short += " To find the least in which it runs, and the line to copy:";
    let rows = vec![AnswerRow::new(
        format!("rmm tune {}", quoted(&answers.log)),
        String::new(),
        String::new(),
    )];
    Answer { question, short, rows, caption: "The command".to_owned() }
}

/// A word of a shell's command.
fn quoted(word: &str) -> String {
    let is_plain =
        |character: char| character.is_ascii_alphanumeric() || "/._-+:,@".contains(character);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// How to see what changed, where there is only one.
pub fn say_alone(answers: &Answers) -> Answer {
    let command = format!("rmm report {} OTHER --html changed.html", quoted(&answers.log));
    Answer {
        question: "What changed between two runs?",
        short: "There is one run on this page. To compare it with another:".to_owned(),
        rows: vec![AnswerRow::new(command, String::new(), String::new())],
        caption: "The command".to_owned(),
    }
}

/// What changed between two views.
pub fn say_compared(compared: &Compared) -> Answer {
    let question = "What changed between two runs?";
    let show = |what: &str, figure: Option<u64>| match figure {
        None => "-".to_owned(),
        Some(figure) if what.ends_with("bytes") => bytes(figure),
        Some(figure) => thousands(figure),
    };
    let differs = |&&(_, before, after): &&(&str, Option<u64>, Option<u64>)| before != after;
    let changed: Vec<_> = compared.figures.iter().filter(differs).collect();
    let mut rows: Vec<AnswerRow> = changed
        .iter()
        .map(|(what, before, after)| {
            let label = what.strip_suffix(" bytes").unwrap_or(what);
            AnswerRow::new(label, show(what, *after), format!("was {}", show(what, *before)))
        })
        .collect();
    let sign = |before: u64, after: u64| if after >= before { "+" } else { "\u{2212}" };
    rows.extend(compared.shares.iter().map(|share| {
        let by = format!(
            "{}{}",
            sign(share.before, share.after),
            bytes(share.after.abs_diff(share.before))
        );
        let note = format!("{} at the peak, was {}", bytes(share.after), bytes(share.before));
        AnswerRow::new(share.name.clone(), by, note)
    }));
    let peaks = compared.figures.iter().find(|(what, ..)| *what == "peak live bytes");
    let mut short = match peaks {
        _ if compared.is_same() => "Nothing that is counted here.".to_owned(),
        Some((_, Some(before), Some(after))) if before != after => format!(
            "The peak is {} {} ({} after {}).",
            bytes(after.abs_diff(*before)),
            if after > before { "higher" } else { "lower" },
            bytes(*after),
            bytes(*before)
        ),
        _ => "The peak of live bytes is the same.".to_owned(),
    };
    if let Some(most) = compared.shares.first() {
        let by = bytes(most.after.abs_diff(most.before));
        let _ = write!(
            short,
            " Most of the difference: {} ({}{by}).",
            most.name,
            sign(most.before, most.after)
        );
    }
    let held = compared.figures.iter().find(|(what, ..)| *what == "most held bytes");
    if let Some((_, Some(before), Some(after))) = held
        && before != after
    {
        let (first, second) = (&compared.before, &compared.after);
        let (before, after) = (bytes(*before), bytes(*after));
        let _ = write!(short, " {second} held {after} at most, {first} held {before}.");
    }
    Answer {
        question,
        short,
        rows,
        caption: format!("{}, after {}", compared.after, compared.before),
    }
}
