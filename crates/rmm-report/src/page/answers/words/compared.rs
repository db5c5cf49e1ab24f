//! What changed, in words.

use std::fmt::Write as _;

use super::settings::quoted;
use super::{Answer, AnswerRow};
use crate::format::{self, bytes, thousands};
use crate::page::answers::Answers;
use crate::page::answers::compare::{Changed, Compared, GrowthChange};
use crate::page::answers::share::Grouping;

/// The most sentences about what began or stopped to grow.
const CHANGES: usize = 2;

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
    // Each difference is the second less the first.
    let by = |before: u64, after: u64, show: &dyn Fn(u64) -> String| {
        format!(
            "{}{}",
            if after >= before { "+" } else { "\u{2212}" },
            show(after.abs_diff(before))
        )
    };
    let mut rows: Vec<AnswerRow> = changed
        .iter()
        .map(|&&(what, before, after)| {
            let label = what.strip_suffix(" bytes").unwrap_or(what);
            let change = match (before, after) {
                (Some(before), Some(after)) => {
                    by(before, after, &|figure| show(what, Some(figure)))
                }
                _ => "-".to_owned(),
            };
            AnswerRow::new(
                label,
                change,
                format!("{}, was {}", show(what, after), show(what, before)),
            )
        })
        .collect();
    rows.extend(compared.shares.iter().map(|share| {
        let note = format!("{}, was {}", bytes(share.after), bytes(share.before));
        AnswerRow {
            group: compared.kind.at_the_peaks(),
            ..AnswerRow::new(share.name.clone(), by(share.before, share.after, &bytes), note)
        }
    }));
    let peaks = compared.figures.iter().find(|(what, ..)| *what == "peak live bytes");
    let peak = match peaks {
        _ if compared.is_same() => "Nothing that is counted here.".to_owned(),
        Some((_, Some(before), Some(after))) if before != after => format!(
            "The peak is {} {} in {} ({}) than in {} ({}).",
            bytes(after.abs_diff(*before)),
            if after > before { "higher" } else { "lower" },
            compared.after,
            bytes(*after),
            compared.before,
            bytes(*before)
        ),
        _ => "The peak of live bytes is the same.".to_owned(),
    };
    let mut short = growth_changes(compared) + &peak;
    // What falls explains no rise.
    let rises = match peaks {
        Some((_, Some(before), Some(after))) if before != after => Some(after > before),
        _ => None,
    };
    let explains =
        |share: &&Changed| rises.is_none_or(|rises| (share.after > share.before) == rises);
    if let Some(most) = compared.shares.iter().find(explains) {
        let by = by(most.before, most.after, &bytes);
        let _ = write!(short, " Most of the difference: {} ({by}).", most.name);
    }
    let held = compared.figures.iter().find(|(what, ..)| *what == "most held bytes");
    if let Some((_, Some(before), Some(after))) = held
        && before != after
    {
        let (first, second) = (&compared.before, &compared.after);
        let (before, after) = (bytes(*before), bytes(*after));
        let _ = write!(short, " {second} held {after} at most, {first} held {before}.");
    }
    let failures = compared.figures.iter().find(|(what, ..)| *what == "failures");
    if let Some((_, Some(before), Some(after))) = failures
        && before != after
    {
        let (first, second) = (&compared.before, &compared.after);
        let failed = |count: u64| format!("{} failed", format::count(count, "request"));
        let _ = write!(short, " {} in {second}, {} in {first}.", failed(*after), failed(*before));
    }
    Answer {
        question,
        short,
        rows,
        caption: format!("Differences: {} less {}", compared.after, compared.before),
    }
}

/// What stopped or began to grow, as sentences before others.
fn growth_changes(compared: &Compared) -> String {
    let (first, second) = (&compared.before, &compared.after);
    let say = |change: &GrowthChange| {
        let (name, by) = (&change.name, bytes(change.bytes));
        let grows = if change.kind == Grouping::Size { "grow" } else { "grows" };
        if change.is_new {
            format!("{name} {grows} in {second}, by {by}, and did not in {first}. ")
        } else {
            format!("{name} no longer {grows}: by {by} in {first}, not in {second}. ")
        }
    };
    compared.growth_changes.iter().take(CHANGES).map(say).collect()
}
