//! How much memory, in words, and the command that finds the rest.

use std::fmt::Write as _;

use super::{Answer, AnswerRow};
use crate::format::{bytes, count};
use crate::page::answers::Answers;

pub(super) fn settings(answers: &Answers) -> Answer {
    let question = "Which pool, settings and amount of memory?";
    let settings = &answers.settings;
    let what = match &answers.failed {
        Some(_) if settings.least_bytes > answers.peak.bytes => {
            "that much would be live at once with the request that failed"
        }
        _ => "that much is live at once",
    };
    let mut short = format!("At least {}: {what}.", bytes(settings.least_bytes));
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
pub(super) fn quoted(word: &str) -> String {
    let is_plain =
        |character: char| character.is_ascii_alphanumeric() || "/._-+:,@".contains(character);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}
