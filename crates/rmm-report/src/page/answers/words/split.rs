//! Leak or fragmentation, in words.

use std::fmt::Write as _;

use super::{Answer, AnswerRow, at, percent};
use crate::format::{bytes, count};
use crate::page::answers::Answers;
use crate::page::answers::failed::WhatItTakes;
use crate::page::answers::split::Split;

pub(super) fn kind_of_loss(answers: &Answers) -> Answer {
    let question = "Leak or fragmentation?";
    let split = &answers.split;
    let growth = if answers.growth.grows { answers.growth.bytes } else { 0 };
    let leak = answers.leaked_bytes.max(growth);
    // Free memory that could not serve a request is no reserve, whole pages or not.
    let in_pieces = answers.failed.as_ref().filter(|failed| {
        failed.position == split.position && matches!(failed.remedy, WhatItTakes::Join { .. })
    });
    let unserved = in_pieces.map(|failed| {
        let asked = bytes(failed.bytes);
        let largest = bytes(split.largest_hole_bytes);
        format!("free, but in pieces of at most {largest} when {asked} were asked for")
    });
    let (between, whole) = match unserved {
        Some(_) => (split.free_bytes(), 0),
        None => (split.hole_bytes, split.whole_free_bytes),
    };
    let unserved = unserved.as_deref();
    let parts = [
        (
            leak,
            if growth > 0 { "Growth" } else { "A leak" },
            if growth > 0 { "added to what stays live" } else { "blocks that are never freed" },
        ),
        (
            between,
            "Fragmentation",
            unserved.unwrap_or("free memory between live blocks, in pages that are in use"),
        ),
        (whole, "Neither, but unused memory", "whole free pages, which the pool keeps for later"),
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

pub(super) fn split_rows(split: &Split) -> Vec<AnswerRow> {
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
    let counted = split.counted.iter();
    rows.extend(counted.map(|part| row(&part.what, part.bytes, "as the pools count".to_owned())));
    rows
}
