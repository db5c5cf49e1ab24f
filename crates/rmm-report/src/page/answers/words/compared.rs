//! What changed, in words.

use std::fmt::Write as _;

use super::settings::quoted;
use super::{Answer, AnswerRow};
use crate::format::{self, bytes, thousands};
use crate::page::answers::Answers;
use crate::page::answers::compare::{Changed, Compared};

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
    // What falls explains no rise.
    let rises = match peaks {
        Some((_, Some(before), Some(after))) if before != after => Some(after > before),
        _ => None,
    };
    let explains =
        |share: &&Changed| rises.is_none_or(|rises| (share.after > share.before) == rises);
    if let Some(most) = compared.shares.iter().find(explains) {
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
        caption: format!("{}, after {}", compared.after, compared.before),
    }
}
