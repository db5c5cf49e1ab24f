//! Which resource, how much memory, in words, and the command that finds the rest.

use std::fmt::Write as _;
use std::ptr;

use super::{Answer, AnswerRow};
use crate::format::{bytes, count};
use crate::page::answers::Answers;
use crate::page::answers::failed::WhatItTakes;

/// The answer about one view. `all` are the answers about the views of the page: the resources
/// among them that served the same log are compared.
pub(super) fn settings(answers: &Answers, all: &[Answers]) -> Answer {
    let question = "Which pool, settings and amount of memory?";
    let settings = &answers.settings;
    let is_replay = |of: &&Answers| of.log == answers.log && of.resource.is_some();
    let replayed: Vec<&Answers> = match &answers.resource {
        Some(_) if all.is_empty() => vec![answers],
        Some(_) => all.iter().filter(is_replay).collect(),
        None => Vec::new(),
    };
    let mut short = String::new();
    if !replayed.is_empty() {
        short += &verdict(&replayed);
        short.push(' ');
    } else if let Some(used) = settings.used_bytes {
        let _ = write!(short, "What was recorded held {} at most. ", bytes(used));
    }
    let advised = limit_advised(&replayed);
    let with_failure = settings.is_cut_short
        && answers.failed.as_ref().is_some_and(|failed| failed.wanted_bytes > answers.peak.bytes);
    let what = if with_failure {
        "that much would be live at once with a request that failed"
    } else {
        "that much is live at once"
    };
    let least = bytes(settings.least_bytes);
    let _ = match advised {
        Some(advised) => write!(short, "{advised}; never below {least}: {what}."),
        None => write!(short, "At least {least}: {what}."),
    };
    if settings.is_cut_short {
        short += " Requests failed when this was recorded, so this is only what was reached: \
                  without a failure it may need more.";
    }
    short += if replayed.is_empty() {
        " A log alone does not say which pool and settings suit it. To find them, and the least \
         memory in which it runs:"
    } else {
        " Other pools and settings were not tried here. To find the least memory in which it \
         runs, and the line to copy:"
    };
    let command = format!("rmm tune {}", quoted(&answers.log));
    let rows = vec![AnswerRow::new(command, String::new(), String::new())];
    Answer { question, short, rows, caption: "The command".to_owned() }
}

/// With what limit one of the resources would have gone on, if none of them runs.
fn limit_advised(replayed: &[&Answers]) -> Option<String> {
    if replayed.iter().any(|of| of.settings.failures == 0) {
        return None;
    }
    let known = replayed.iter().filter_map(|of| {
        let failed = of.failed.as_ref()?;
        // What waits for a stream is no want of memory.
        if matches!(failed.remedy, WhatItTakes::Wait { .. }) {
            return None;
        }
        Some((failed.needed_bytes?, failed, of.resource.as_ref()?))
    });
    let (needed, failed, name) = known.min_by_key(|&(needed, ..)| needed)?;
    let memory = match (failed.remedy, failed.limit_bytes) {
        (
            WhatItTakes::Limit { limit_bytes, .. }
            | WhatItTakes::Join { limit_bytes: Some(limit_bytes), .. },
            Some(limit),
        ) => format!("a limit of {} instead of {}", bytes(limit_bytes), bytes(limit)),
        _ => bytes(needed),
    };
    let tried = if failed.count > 1 { "not tried, and for the first failure" } else { "not tried" };
    Some(match replayed.len() {
        1 => format!("By this replay it takes {memory} ({tried})"),
        _ => format!("By these replays the least is {name} with {memory} ({tried})"),
    })
}

/// Which of the resources that served a log ran, and which of them held least.
fn verdict(replayed: &[&Answers]) -> String {
    let name = |of: &Answers| of.resource.clone().unwrap_or_default();
    let (ran, failed): (Vec<&Answers>, Vec<&Answers>) =
        replayed.iter().partition(|of| of.settings.failures == 0);
    let used = |of: &&&Answers| of.settings.used_bytes.unwrap_or(u64::MAX);
    let known = ran.iter().filter(|of| of.settings.used_bytes.is_some());
    let best = known.clone().min_by_key(used);
    let number = replayed.len();
    let mut text = match best {
        Some(best) if number == 1 => format!("{} runs, and held {}", name(best), held(best)),
        Some(best) => {
            format!(
                "Of the {number} resources replayed here {} held least: {}",
                name(best),
                held(best)
            )
        }
        None => String::new(),
    };
    let mut add = |sentence: String| {
        text += if text.is_empty() { "" } else { " " };
        text += &sentence;
    };
    let others: Vec<String> = known
        .filter(|of| best.is_none_or(|best| !ptr::eq(**of, *best)))
        .map(|of| {
            let held = bytes(of.settings.used_bytes.unwrap_or(0));
            let calls = of.settings.driver_calls.map(with_calls).unwrap_or_default();
            format!("{} held {held}{calls}", name(of))
        })
        .collect();
    if !others.is_empty() {
        add(format!("{}.", others.join("; ")));
    }
    for of in ran.iter().filter(|of| of.settings.used_bytes.is_none()) {
        add(format!("{} runs; what it would hold on a GPU is not known.", name(of)));
    }
    let failures: Vec<String> = failed
        .iter()
        .map(|of| format!("{} failed in {}", count(of.settings.failures, "request"), name(of)))
        .collect();
    let failures = failures.join(", ");
    match (failed.as_slice(), ran.len()) {
        ([], _) => {}
        ([_], 0) => add(format!("It does not run: {failures}.")),
        (_, 0) => add(format!("None of the {number} resources replayed here runs: {failures}.")),
        ([_], _) => add(format!("One does not run: {failures}.")),
        (more, _) => add(format!("{} do not run: {failures}.", more.len())),
    }
    text
}

/// What a resource held at most, and what that took.
fn held(of: &Answers) -> String {
    let settings = &of.settings;
    let used = bytes(settings.used_bytes.unwrap_or(0));
    let grew = match settings.growths {
        0 => "It never grew".to_owned(),
        growths => format!("It grew {}", count(growths, "time")),
    };
    let calls = settings.driver_calls.map(with_calls);
    let waits = match settings.waits {
        0 => "no stream waited for another".to_owned(),
        waits => format!("streams waited for others {}", count(waits, "time")),
    };
    format!("{used} at most. {grew}{}, and {waits}.", calls.unwrap_or_default())
}

fn with_calls(calls: u64) -> String {
    format!(", with {}", count(calls, "driver call"))
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
