//! The answers in words, for the page and for the terminal.

mod compared;
mod failure;
mod growth;
mod resources;
mod settings;
mod split;

use std::fmt::Write as _;

use serde::Serialize;

pub use compared::{say_alone, say_compared};
pub(crate) use resources::say_resources;

use super::Answers;
use super::share::{Grouping, Holder, NO_SITE, NO_TAG, Share};
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
    /// The heading of the rows that it belongs to; empty if they need none.
    pub group: &'static str,
}

impl AnswerRow {
    fn new(what: impl Into<String>, value: String, note: impl Into<String>) -> Self {
        Self { what: what.into(), value, note: note.into(), ..Self::default() }
    }
}

/// The questions about one view, each with its answer. `all` are the answers about all views that
/// are shown together, if there are others.
pub fn say(answers: &Answers, all: &[Answers]) -> Vec<Answer> {
    vec![
        peak(answers),
        failure::failure(answers),
        growth::growth(answers),
        split::kind_of_loss(answers),
        settings::settings(answers, all),
    ]
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
        10_000_000..1_000_000_000 => format!("{} ms", float(seconds * 1e3, 0)),
        1_000_000_000..120_000_000_000 => format!("{} s", float(seconds, 2)),
        _ => format!("{} min", float(seconds / 60.0, 1)),
    }
}

/// A share of a whole in percent, rounded to nearest.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "0 %".to_owned();
    }
    let rounded = |of: u128| (u128::from(part) * of + u128::from(whole) / 2) / u128::from(whole);
    match rounded(1000) {
        tenths @ 0..100 => format!("{}.{} %", tenths / 10, tenths % 10),
        _ => format!("{} %", rounded(100)),
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
            " It is a short spike: within 10 % of it at only {}, and at most {} at 95 % of the events.",
            count(peak.near, "event"),
            bytes(peak.usual_bytes)
        );
    }
    if let Some(share) = main_share(&peak.shares) {
        let part = if share.bytes > peak.bytes / 2 { "Most" } else { "The largest share" };
        let who = match (share.kind, share.name.as_str()) {
            (Grouping::Tag, NO_TAG) => "blocks without a tag",
            (Grouping::Site, NO_SITE) => "blocks without a site",
            (_, name) => name,
        };
        let _ = write!(short, " {part} was held by {who} ({}).", percent(share.bytes, peak.bytes));
    }
    if let Some(failed) = &answers.failed {
        let requests = match failed.count {
            1 => "The request that failed is".to_owned(),
            more => format!("The {} requests that failed are", thousands(more)),
        };
        let with = match failed.wanted_bytes {
            wanted if wanted <= peak.bytes => String::new(),
            wanted => format!("; with {}{} would be live", one_of(failed.count), bytes(wanted)),
        };
        let _ = write!(short, " {requests} not in it{with}.");
    }
    let mut rows = share_rows(&peak.shares, peak.bytes);
    rows.extend(peak.largest.iter().map(holder_row));
    let question = "What was the peak, when, and who held it?";
    Answer { question, short, rows, caption: "Who held it".to_owned() }
}

/// How a request that failed would be added.
fn one_of(count: u64) -> &'static str {
    if count == 1 { "it " } else { "one of them at most " }
}

/// The share that says most of who holds bytes: the largest by tag, or else by call site, or else
/// the larger of those by size and by stream.
fn main_share(shares: &[Share]) -> Option<&Share> {
    let named = |share: &&Share| matches!(share.kind, Grouping::Tag | Grouping::Site);
    // Of equal shares the first.
    shares.iter().find(named).or_else(|| shares.iter().rev().max_by_key(|share| share.bytes))
}

fn share_rows(shares: &[Share], whole: u64) -> Vec<AnswerRow> {
    // By stream only where nothing else is known, and of sizes fewer.
    let is_named = shares.iter().any(|share| matches!(share.kind, Grouping::Tag | Grouping::Site));
    let shown =
        |share: &&Share| !(is_named && matches!(share.kind, Grouping::Size | Grouping::Stream));
    let row = |share: &Share| {
        let note = format!("{}, {}", percent(share.bytes, whole), count(share.blocks, "block"));
        let group = share.kind.heading();
        AnswerRow { group, ..AnswerRow::new(share.name.clone(), bytes(share.bytes), note) }
    };
    shares.iter().filter(shown).map(row).collect()
}

fn holder_row(holder: &Holder) -> AnswerRow {
    let start = thousands(holder.start.into());
    let life = match (holder.start, holder.end) {
        (0, None) => "from before the first event, never freed".to_owned(),
        (_, None) => format!("from event {start}, never freed"),
        (_, Some(end)) => format!("events {start} to {}", thousands(end.into())),
    };
    let mut note = [life, format!("stream {}", holder.stream)].join(", ");
    for name in [&holder.tag, &holder.site] {
        if !name.is_empty() {
            note = format!("{note}, {name}");
        }
    }
    AnswerRow {
        position: Some(holder.start),
        group: "The largest blocks",
        ..AnswerRow::new("one block", bytes(holder.bytes), note)
    }
}
