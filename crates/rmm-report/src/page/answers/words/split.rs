//! Leak or fragmentation, in words.

use std::fmt::Write as _;

use super::growth::{lost, what_grows, what_stays};
use super::{Answer, AnswerRow, at, percent};
use crate::format::{bytes, count};
use crate::page::answers::Answers;
use crate::page::answers::failed::{Failed, WhatItTakes};
use crate::page::answers::split::Split;

/// Free parts of pages in use are called fragmentation from this share of what is held on, in
/// percent, where no request failed.
const FROM: u64 = 10;

pub(super) fn kind_of_loss(answers: &Answers) -> Answer {
    let question = "Leak or fragmentation?";
    let split = &answers.split;
    let at_failure = answers.failed.as_ref().filter(|failed| failed.position == split.position);
    let verdict = at_failure.and_then(of_failure).unwrap_or_else(|| of_share(answers));
    let stays = answers.leaked_bytes > split.held_bytes / 20 && at_failure.is_none();
    let mut short = match answers.growth.grows {
        true if lost(answers) > 0 && answers.leaked_blocks > 0 => {
            format!("Leak: {}.{} {verdict}", what_grows(answers), what_stays(answers))
        }
        true => format!("Growth: {}. {verdict}", what_grows(answers)),
        false if stays && answers.growth.is_known => {
            format!("Never freed, but not growing: {}. {verdict}", bytes(answers.leaked_bytes))
        }
        false if stays => format!("Never freed: {}. {verdict}", bytes(answers.leaked_bytes)),
        false => verdict,
    };
    let held = if split.is_known { "held" } else { "in the pages that live blocks are in" };
    let _ = write!(
        short,
        " Of {} {held}, {} were live, {}.",
        bytes(split.held_bytes),
        percent(split.live_bytes(), split.held_bytes),
        at(split.position, None)
    );
    let left = match answers.leaked_blocks {
        0 => "Nothing is left at the end".to_owned(),
        1 => format!("In all 1 block ({}) is never freed", bytes(answers.leaked_bytes)),
        blocks => {
            let (blocks, left) = (count(blocks, "block"), bytes(answers.leaked_bytes));
            format!("In all {blocks} ({left}) are never freed")
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

/// Whether a request failed by fragmentation, if what was held is known: not if even blocks without
/// a free byte between them would not have fitted.
fn of_failure(failed: &Failed) -> Option<String> {
    let split = &failed.split;
    let (free, largest) = (bytes(split.free_bytes()), bytes(split.largest_hole_bytes));
    let asked = bytes(failed.bytes);
    match (&failed.remedy, failed.short_bytes?) {
        (WhatItTakes::Total { .. }, _) => None,
        (WhatItTakes::Wait { hole_bytes }, _) => Some(format!(
            "Neither: a range of {} was free, but not available, when {asked} were asked for.",
            bytes(*hole_bytes)
        )),
        (_, 0) => Some(format!(
            "Fragmentation: {free} are free, but in pieces of at most {largest} when {asked} were \
             asked for."
        )),
        (remedy, short) => {
            let most = match (failed.limit_bytes, failed.device_bytes) {
                (Some(limit), _) => format!("the limit of {}", bytes(limit)),
                (None, Some(device)) => format!("the {} that the device had for it", bytes(device)),
                (None, None) => "what was held".to_owned(),
            };
            let pieces = match remedy {
                WhatItTakes::Limit { is_of_live: true, .. } => format!(
                    " The {free} that are free in the memory below this limit do not count in it."
                ),
                _ if split.free_bytes() == 0 => String::new(),
                WhatItTakes::Limit { missing_bytes, .. } if *missing_bytes > short => format!(
                    " What is free, {free} in pieces of at most {largest}, adds {} to what it would \
                     take.",
                    bytes(missing_bytes - short)
                ),
                _ => format!(" {free} are free, in pieces of at most {largest}."),
            };
            let short = bytes(short);
            Some(format!(
                "Not fragmentation: {short} short of {most} even if packed perfectly.{pieces}"
            ))
        }
    }
}

/// How much is free in pages in use, by one rule for all resources.
fn of_share(answers: &Answers) -> String {
    let split = &answers.split;
    let share = |part| format!("{} ({})", bytes(part), percent(part, split.held_bytes));
    let is_much = split.hole_bytes > 0 && split.hole_bytes >= split.held_bytes.div_ceil(100 / FROM);
    let harmless = if answers.failed.is_none() { ", harmless here: nothing failed" } else { "" };
    let pieces = format!("{} are free parts of pages in use", share(split.hole_bytes));
    let mut text = if is_much {
        format!("Fragmentation{harmless}. {pieces}; from {FROM} % on they are called so.")
    } else {
        format!("No fragmentation: {pieces}, less than {FROM} %.")
    };
    let rest = [
        (split.whole_free_bytes, "whole free pages, which the pool keeps for later"),
        (split.other_bytes, "held beyond the blocks whose addresses are known"),
        (split.rounding_bytes, "sizes rounded up to 256 bytes"),
    ];
    for (part, what) in rest.into_iter().filter(|&(part, _)| part > split.held_bytes / 20) {
        let _ = write!(text, " {} are {what}.", share(part));
    }
    text
}

pub(super) fn split_rows(split: &Split) -> Vec<AnswerRow> {
    let row = |what: &str, part: u64, note: String| {
        let note = match (note.is_empty(), split.held_bytes) {
            (_, 0) => note,
            (true, held) => percent(part, held),
            (false, held) => format!("{}, {note}", percent(part, held)),
        };
        AnswerRow::new(what, bytes(part), note)
    };
    let mut rows = vec![AnswerRow {
        position: Some(split.position),
        ..row(if split.is_known { "held" } else { "pages in use" }, split.held_bytes, String::new())
    }];
    rows.push(row("live", split.asked_bytes, count(split.blocks, "block")));
    rows.push(row("rounding", split.rounding_bytes, "to 256 bytes".to_owned()));
    rows.push(row("holes", split.hole_bytes, "free parts of pages in use".to_owned()));
    if split.is_known {
        rows.push(row("whole free pages", split.whole_free_bytes, "of 2 MiB".to_owned()));
        rows.push(row(
            "other",
            split.other_bytes,
            "caches of threads, padding, and memory whose addresses are not known".to_owned(),
        ));
    }
    if split.holes > 0 {
        let note = match (split.holes, split.whole_free_bytes) {
            (1, _) => "the only one".to_owned(),
            (_, 0) => format!("of {}", count(split.holes, "range")),
            _ => format!("of {}, the whole pages in it counted", count(split.holes, "range")),
        };
        rows.push(AnswerRow::new("longest free range", bytes(split.largest_hole_bytes), note));
    }
    let counted = split.counted.iter();
    rows.extend(counted.map(|part| row(&part.what, part.bytes, "as the pools count".to_owned())));
    rows
}
